from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.actions import labelling
from skillopt_mcp.actions.labelling import label_reaction, stands_alone

REACTIONS = [
    json.loads(line) for line in (Path(__file__).parents[1] / "reactions" / "reactions.jsonl").read_text().splitlines()
]
SCORED = ("accepted", "rejected")


def test_what_is_labelled_is_right_and_most_reactions_are() -> None:
    labelled = [(label_reaction(each["text"]), each["label"]) for each in REACTIONS]
    scored = [(found, true) for found, true in labelled if found in SCORED]
    due = [found == true for found, true in labelled if true in SCORED]
    assert sum(found == true for found, true in scored) / len(scored) >= 0.95
    assert sum(due) / len(due) >= 0.7


def test_the_rules_hold_none_of_the_sentences_that_they_are_measured_with() -> None:
    source = Path(labelling.__file__).read_text()
    assert [each["text"] for each in REACTIONS if len(each["text"].split()) > 2 and each["text"] in source] == []


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("that did the trick, thank you so much", "accepted"),
        ("confirmed, works on staging", "accepted"),
        ("dzięki, działa", "accepted"),
        ("I have no further comments.", "accepted"),
        ("👍", "accepted"),
        ("nope, same thing happens", "rejected"),
        ("shouldn't the id be a string?", "rejected"),
        ("good, but rename foo to bar", "rejected"),
        ("ça ne marche pas", "rejected"),
        ("日付が間違っています", "rejected"),
        ("AssertionError: 3 != 4", "rejected"),
        ("retry", "redo"),
        ("thanks for nothing", "unknown"),
        ("super. jetzt startet gar nichts mehr", "unknown"),
        ("find all places where we use the wrong timezone", "unknown"),
        ("here is the log\nerror: permission denied", "unknown"),
        ("great question. we use postgres 14", "unknown"),
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
    "part", ["no, ", "a", "expected ", "\n", "not ", "not a ", "error ", "the ", "you ", "!?", "no "]
)
def test_a_message_that_repeats_takes_no_time(part: str) -> None:
    begun = time.process_time()
    label_reaction(part * 5_000)
    assert time.process_time() - begun < 0.5
