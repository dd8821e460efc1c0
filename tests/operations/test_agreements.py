"""Agreements: one serves one change, for as long as it stands, and what a person rolled back stays rolled back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workshop import LESSONS, PLACEBO, Place, as_if_real, use

from skillopt_mcp.actions.promotions import promoting
from skillopt_mcp.actions.promotions.consent import NeedsPerson, Ready, agree, permit, revoke
from skillopt_mcp.actions.promotions.promoting import check_promotion, promote_skill, rollback_skill
from skillopt_mcp.actions.promotions.review import question_of_promotion
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.core.candidates import AgreedBy, Consent, Promotion, PromotionKind, find_rolled_back
from skillopt_mcp.reports.history import history
from skillopt_mcp.workspace.workspace import Workspace

SECRET = "blue-Gecko7-harbour"
ROLLED_BACK = "a person rolled it back; only a person puts it back"


@pytest.fixture
def candidate(place: Place, workspace: Workspace) -> str:
    """Return an accepted candidate, on evidence that is as good as real."""
    use(workspace, as_if_real())
    return place.covered(workspace)


def approve(workspace: Workspace, candidate: str) -> None:
    standing = check_promotion(workspace.store, workspace.place, candidate, Consent.APPROVED)
    assert isinstance(standing, NeedsPerson)
    agree(workspace.store, workspace.place, standing.approval)


def held_back(workspace: Workspace, candidate: str, consent: Consent) -> Callable[[], str]:
    """Return how a promotion goes on that was checked, and then held by the scheduler before it wrote."""
    ready = check_promotion(workspace.store, workspace.place, candidate, consent)
    assert isinstance(ready, Ready)
    return lambda: promoting._write(workspace.store, workspace.place, ready).status


def test_an_approval_serves_one_change_though_two_calls_saw_it(
    place: Place, workspace: Workspace, candidate: str
) -> None:
    before = place.main.read_bytes()
    approve(workspace, candidate)
    other = place.open()
    use(other, as_if_real())
    go_on = held_back(other, candidate, Consent.APPROVED)
    assert promote_skill(workspace.store, workspace.place, candidate, Consent.APPROVED).status == "promoted"
    assert (
        rollback_skill(workspace.store, workspace.place, "ledger-clerk", None, Consent.PERSON).status == "rolled_back"
    )
    assert go_on() == "needs_approval"
    assert place.main.read_bytes() == before


@pytest.mark.parametrize("late", [False, True], ids=["after the check", "at the last moment"])
def test_a_permission_that_is_taken_back_meanwhile_covers_nothing(
    place: Place, workspace: Workspace, candidate: str, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    permit(workspace.store, workspace.place, "ledger-clerk", simulated=False)
    go_on = held_back(workspace, candidate, Consent.STANDING)
    begin = workspace.store.promotions.begin

    def revoked_first(*arguments: object) -> Promotion | None:
        revoke(workspace.store, workspace.place, "ledger-clerk")
        return begin(*arguments)  # type: ignore[arg-type]

    if late:
        monkeypatch.setattr(workspace.store.promotions, "begin", revoked_first)
    else:
        revoke(workspace.store, workspace.place, "ledger-clerk")
    assert go_on() == "needs_approval"
    assert history(workspace.store, workspace.place, "ledger-clerk").rows == []


def test_an_approval_that_was_shown_with_a_secret_serves_who_does_not_know_it(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(workspace, as_if_real())
    candidate = place.accepted(workspace, f"{LESSONS}\n- Log in with {SECRET}.")
    monkeypatch.setenv("DB_PASSWORD", SECRET)
    terminal = place.open()
    shown = check_promotion(terminal.store, terminal.place, candidate, Consent.APPROVED)
    assert isinstance(shown, NeedsPerson)
    assert (shown.answer.status, len(shown.approval.findings)) == ("held", 1)
    approve(terminal, candidate)
    assert promote_skill(workspace.store, workspace.place, candidate, Consent.APPROVED).status == "promoted"


def test_an_approval_that_was_given_without_a_finding_covers_none(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(workspace, as_if_real())
    candidate = place.accepted(workspace, f"{LESSONS}\n- Log in with {SECRET}.")
    approve(workspace, candidate)
    monkeypatch.setenv("DB_PASSWORD", SECRET)
    opened = place.open()
    assert promote_skill(opened.store, opened.place, candidate, Consent.APPROVED).status == "held"


def test_an_approval_from_before_a_rollback_does_not_outlive_it(
    place: Place, workspace: Workspace, candidate: str
) -> None:
    approve(workspace, candidate)
    opened = place.open()
    approve_again = check_promotion(opened.store, opened.place, candidate, Consent.APPROVED)
    assert isinstance(approve_again, Ready), "the first approval stands"
    agree(workspace.store, workspace.place, approve_again.change.approval)
    other = place.accepted(workspace, f"{LESSONS}\n{PLACEBO}")
    approve(workspace, other)
    assert promote_skill(workspace.store, workspace.place, candidate, Consent.APPROVED).status == "promoted"
    assert (
        rollback_skill(workspace.store, workspace.place, "ledger-clerk", None, Consent.PERSON).status == "rolled_back"
    )
    assert promote_skill(workspace.store, workspace.place, candidate, Consent.APPROVED).reason == ROLLED_BACK
    assert promote_skill(workspace.store, workspace.place, other, Consent.APPROVED).status == "promoted", (
        "no person rolled that one back"
    )
    assert verify_store(place.store_path).problems == []


def test_a_new_approval_or_a_person_puts_back_what_was_rolled_back(
    place: Place, workspace: Workspace, candidate: str
) -> None:
    permit(workspace.store, workspace.place, "ledger-clerk", simulated=False)
    for _ in range(2):
        assert promote_skill(workspace.store, workspace.place, candidate, Consent.PERSON).status == "promoted"
        assert (
            rollback_skill(workspace.store, workspace.place, "ledger-clerk", None, Consent.PERSON).status
            == "rolled_back"
        )
    asked = question_of_promotion(workspace.store, workspace.place, candidate, Consent.STANDING)
    assert asked is not None
    agree(workspace.store, workspace.place, asked.approval)
    assert promote_skill(workspace.store, workspace.place, candidate, Consent.STANDING).status == "promoted"
    # What is live again because a person said so may be undone and put back by a tool, as before.
    assert (
        rollback_skill(workspace.store, workspace.place, "ledger-clerk", None, Consent.STANDING).status == "rolled_back"
    )
    assert promote_skill(workspace.store, workspace.place, candidate, Consent.STANDING).status == "promoted"


def changes(*rows: tuple[PromotionKind, str, str, AgreedBy]) -> list[Promotion]:
    """Return changes newest first, given them in order: kind, from, to, who agreed."""
    made = [
        Promotion(n, 1, kind, None, old, new, "done", "", by, "terminal") for n, (kind, old, new, by) in enumerate(rows)
    ]
    return made[::-1]


ME: AgreedBy = "person"
RULE: AgreedBy = "permission"


@pytest.mark.parametrize(
    ("rows", "closed"),
    [
        ([("promote", "0", "1", ME)], ""),
        ([("promote", "0", "1", ME), ("rollback", "1", "0", ME)], "1"),
        ([("promote", "0", "1", ME), ("rollback", "1", "0", RULE)], ""),
        ([("promote", "0", "1", ME), ("promote", "1", "2", ME), ("rollback", "2", "0", ME)], "12"),
        ([("promote", "0", "1", ME), ("promote", "1", "2", ME), ("rollback", "2", "1", ME)], "2"),
        ([("promote", "0", "1", ME), ("promote", "e", "2", ME), ("rollback", "2", "0", ME)], "12e"),
        ([("promote", "0", "1", ME), ("promote", "e", "2", ME), ("rollback", "2", "x", ME)], "2"),
        ([("promote", "0", "1", ME), ("rollback", "1", "0", ME), ("promote", "0", "1", ME)], ""),
        ([("promote", "0", "1", ME), ("rollback", "1", "0", ME), ("rollback", "0", "1", ME)], "0"),
        ([("promote", "0", "1", ME), ("rollback", "1", "0", ME), ("promote", "0", "2", ME)], "1"),
    ],
)
def test_a_persons_rollback_closes_what_was_live_since(
    rows: list[tuple[PromotionKind, str, str, AgreedBy]], closed: str
) -> None:
    assert find_rolled_back(changes(*rows)) == set(closed)


STEPS = st.lists(
    st.tuples(st.sampled_from(["promote", "rollback"]), st.sampled_from("0123"), st.booleans()), max_size=9
)


@given(STEPS)
def test_what_is_live_is_never_closed_and_only_people_close(steps: list[tuple[PromotionKind, str, bool]]) -> None:
    rows, live = list[tuple[PromotionKind, str, str, AgreedBy]](), "0"
    for kind, new, person in steps:
        rows.append((kind, live, new, ME if person else RULE))
        live = new
    closed = find_rolled_back(changes(*rows))
    assert live not in closed
    assert closed <= {old for _, old, _, _ in rows} | {new for _, _, new, _ in rows}
    if not any(kind == "rollback" and who == ME for kind, _, _, who in rows):
        assert closed == frozenset()
