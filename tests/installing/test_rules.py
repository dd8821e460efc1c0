from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.admin.install.entries import HostSettings, missing_rules, work_rules
from skillopt_mcp.core.errors import BadInput

FIRST = work_rules(Path("/tmp/skillopt-work-1000/skillopt-0123456789ab"))
SECOND = work_rules(Path("/var/work/skillopt-ba9876543210"))
THEIRS = ["Bash(ls:*)", "Read(//tmp/mine/**)", "mcp__other", {"odd": 1}]


def settings(*allowed: object) -> str:
    return json.dumps({"permissions": {"allow": list(allowed), "deny": ["WebFetch"]}}, indent=2) + "\n"


def allowed(text: str) -> list[object]:
    found: list[object] = json.loads(text)["permissions"]["allow"]
    return found


def test_the_rules_allow_what_work_takes_and_nothing_that_writes_a_skill() -> None:
    assert FIRST == (
        "mcp__skillopt__list_skills",
        "mcp__skillopt__record_trajectory",
        "mcp__skillopt__add_tasks",
        "mcp__skillopt__propose_edits",
        "mcp__skillopt__evaluate_candidate",
        "mcp__skillopt__submit_work",
        "mcp__skillopt__inspect",
        "Read(//tmp/skillopt-work-1000/skillopt-0123456789ab/**)",
        "Edit(//tmp/skillopt-work-1000/skillopt-0123456789ab/**)",
    )


@pytest.mark.parametrize("name", ["w*k", "w?", "[w]", "w\\k"])
def test_a_work_folder_that_a_host_would_read_as_a_pattern_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="SKILLOPT_WORK"):
        work_rules(Path("/var") / name / "skillopt-0123456789ab")


@pytest.mark.parametrize(
    ("wide", "left"),
    [
        (["mcp__skillopt"], FIRST[-2:]),
        (["mcp__skillopt__*"], FIRST[-2:]),
        (["Read(//tmp/**)", "Edit(//tmp/skillopt-work-1000/**)"], FIRST[:-2]),
        (["Read", "Edit"], FIRST[:-2]),
        (["Read(//tmp/skillopt/**)", "Edit(//tmp/skillopt-work-100/**)", "Read(~/tmp/**)"], FIRST),
        (["mcp__skillopt__submit", "mcp__other__*"], FIRST),
    ],
)
def test_a_wider_rule_of_a_person_covers_the_narrow_one(wide: list[str], left: tuple[str, ...]) -> None:
    assert missing_rules(["", settings(*wide)], FIRST) == list(left)


@given(st.lists(st.sampled_from([*THEIRS[:3], *FIRST, *SECOND]), unique=True))
def test_whatever_is_allowed_before_nothing_of_a_persons_goes(before: list[str]) -> None:
    ours = HostSettings(rules=SECOND)
    left = ours.take(ours.put(settings(*before), {}))
    kept = json.loads(left).get("permissions", {}).get("allow", [])
    assert kept == [rule for rule in before if rule in THEIRS]
    assert json.loads(left)["permissions"]["deny"] == ["WebFetch"]
