from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.actions import labelling
from skillopt_mcp.actions.labelling import label_reaction, stands_alone

SETS = {
    path.stem: [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for path in sorted((Path(__file__).parents[1] / "reactions").glob("*.jsonl"))
}
SCORED = ("accepted", "rejected")


@pytest.mark.parametrize(("name", "covered"), [("reactions", 0.5), ("a", 0.2), ("b", 0.15), ("c", 0.25)])
def test_what_is_labelled_accepted_or_rejected_is_right(name: str, covered: float) -> None:
    labelled = [(label_reaction(each["text"]), each["label"]) for each in SETS[name]]
    for label in SCORED:
        found = [true == label for found, true in labelled if found == label]
        assert sum(found) / len(found) >= 0.95
    due = [found == true for found, true in labelled if true in SCORED]
    assert sum(due) / len(due) >= covered


def test_the_rules_hold_none_of_the_sentences_that_they_are_measured_with() -> None:
    source = Path(labelling.__file__).read_text("utf-8")
    texts = [each["text"] for rows in SETS.values() for each in rows if len(each["text"].split()) > 2]
    assert [text for text in texts if text in source] == []


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("that did the trick, thank you so much", "accepted"),
        ("thanks. next: the importer", "accepted"),
        ("could be shorter, but fine, merging it", "accepted"),
        ("dzięki, działa", "accepted"),
        ("I have no further comments.", "accepted"),
        ("👍🏽", "accepted"),
        ("nope, same thing happens", "rejected"),
        ("shouldn't the id be a string?", "rejected"),
        ("good, but rename foo to bar", "rejected"),
        ("AssertionError: 3 != 4", "rejected"),
        ("retry", "redo"),
        ("thanks for nothing", "unknown"),
        ("super. jetzt startet gar nichts mehr", "unknown"),
        ("find all places where we use the wrong timezone", "unknown"),
        ("here is the log\nerror: permission denied", "unknown"),
        ("great question. we use postgres 14", "unknown"),
        ("great, now my page is in Comic Sans", "unknown"),
        ("great job breaking prod", "unknown"),
        ("great job 🙄", "unknown"),
        ("fix it 🙏", "unknown"),
        ("fixed it myself", "unknown"),
        ("no errors. the file is empty", "unknown"),
        ("looks good but let me test first", "unknown"),
        ("I asked for a table and got one. merging", "unknown"),
        ("are you sure you're right about the index", "unknown"),
        ("write a letter, it should be in German", "unknown"),
        ("ça ne marche pas", "unknown"),
        ("", "unknown"),
        ("…", "unknown"),
    ],
)
def test_a_message_means_what_a_person_means_by_it(text: str, label: str) -> None:
    assert label_reaction(text) == label


def test_to_a_question_yes_and_no_are_answers() -> None:
    assert label_reaction("no, only the second file", "Shall I change both files?") != "rejected"
    assert label_reaction("no, only the second file", "I changed both files.") == "rejected"


def test_what_points_back_does_not_stand_alone() -> None:
    assert stands_alone("Write a letter to the bank about the missing statement")
    assert not stands_alone("do the same thing for the other two files please")
    assert not stands_alone("and the readme")


@given(st.text(max_size=300))
def test_any_text_has_a_label(text: str) -> None:
    assert label_reaction(text) in (*SCORED, "redo", "continues", "unrelated", "unknown")


@pytest.mark.parametrize(
    "part", ["no, ", "a", "expected ", "\n", "not ", "not a ", "error ", "the ", "you ", "!?", "no ", "merge it 1 "]
)
def test_a_message_that_repeats_takes_no_time(part: str) -> None:
    begun = time.process_time()
    label_reaction(part * 5_000)
    assert time.process_time() - begun < 0.5
