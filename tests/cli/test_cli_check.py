from __future__ import annotations

import json

from changes import make_candidate


def test_a_skill_is_checked_by_the_specification(cli, make_place) -> None:
    place = make_place()
    sound = cli("check", str(place.main.parent), store=place.store_path)
    assert (sound.returncode, sound.stdout) == (0, ""), sound.stdout
    place.main.write_text(place.main.read_text() + "\nSee [more](references/more.md).\n")
    broken = cli("check", "ledger-clerk", store=place.store_path)
    assert (broken.returncode, broken.stdout) == (
        1, '- "SKILL.md" links to "references/more.md", which is not there\n',
    )  # fmt: skip
    told = cli("check", "ledger-clerk", "--json", store=place.store_path)
    assert json.loads(told.stdout)["problems"] == ['"SKILL.md" links to "references/more.md", which is not there']


def test_what_a_candidate_breaks_is_told_before_a_person_agrees(cli, make_place) -> None:
    place = make_place()
    candidate = make_candidate(place, "See [more](references/more.md).")
    asked = cli("promote", candidate, store=place.store_path)
    assert 'LINT: "SKILL.md" links to "references/more.md", which is not there\n' in asked.stdout
    shown = cli("show", candidate, store=place.store_path)
    assert 'lint, new with it: "SKILL.md" links to "references/more.md"' in shown.stdout
