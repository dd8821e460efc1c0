"""Planted secrets: what is found of many kinds in many places, and what ordinary text keeps."""

from __future__ import annotations

import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.planted import (
    DISGUISES,
    ID_FORMS,
    KINDS,
    LINES,
    PLACES,
    PROVIDERS,
    TOKEN_FORMS,
    ids,
    planted,
    shapes,
    tokens,
)  # fmt: skip
from skillopt_mcp.core.redacting import Redactor

REDACTOR = Redactor(b"salt")
WITHOUT_A_SHAPE = {"twilio-auth", "heroku", "datadog"}


def test_planted_secrets_are_found_in_every_place() -> None:
    plants = list(planted(seed=1))
    missed = [plant for plant in plants if any(form in REDACTOR.text(plant.text) for form in plant.forms)]
    assert len(KINDS) >= 37
    assert len(PLACES) == 5
    assert len(missed) <= 0.05 * len(plants)
    shaped = Counter(plant.kind for plant in missed if plant.kind not in WITHOUT_A_SHAPE)
    assert sum(shaped.values()) <= 0.01 * len(plants), shaped


@pytest.mark.parametrize("place", [*DISGUISES, *LINES])
def test_no_eight_characters_of_a_disguised_secret_are_left(place: str) -> None:
    plants = [plant for seed in range(3) for plant in shapes(seed) if plant.place == place]
    assert len(plants) == 3 * (len(PROVIDERS) if place in DISGUISES else 1)
    left = [plant for plant in plants if any(form in REDACTOR.text(plant.text) for form in plant.forms)]
    assert [f"{plant.kind}: {REDACTOR.text(plant.text)}" for plant in left] == []


def test_a_token_of_any_vendor_is_found_where_nothing_names_it() -> None:
    plants = [plant for seed in range(10) for plant in tokens(seed)]
    missed = Counter(plant.kind for plant in plants if any(form in REDACTOR.text(plant.text) for form in plant.forms))
    assert len(TOKEN_FORMS) == 85
    assert sum(missed.values()) <= 0.05 * len(plants), missed
    assert [kind for kind, n in missed.items() if n > 5] in ([], ["modal"])  # 22 characters after "as-"


@pytest.mark.parametrize("n", range(len(ID_FORMS)), ids=ID_FORMS)
def test_an_id_a_digest_and_encoded_data_stay(n: int) -> None:
    texts = [list(ids(seed))[n] for seed in range(10)]
    assert [text for text in texts if REDACTOR.text(text) != text] == []


def test_what_was_redacted_stays_as_it_is() -> None:
    for plant in planted(seed=2, n_random=1):
        once = REDACTOR.text(plant.text)
        assert REDACTOR.text(once) == once


@pytest.mark.parametrize(
    "name", ["argparse.py", "ssl.py", "getpass.py", "secrets.py", "hmac.py", "tokenize.py", "json"]
)
def test_the_standard_library_keeps_its_text(name: str) -> None:
    place = Path(sysconfig.get_paths()["stdlib"]) / name
    for path in [place] if place.is_file() else sorted(place.glob("*.py")):
        text = path.read_text("utf-8")
        assert REDACTOR.text(text) == text


def test_the_source_of_this_project_keeps_its_text() -> None:
    package = Path(__file__).resolve().parents[2] / "skillopt_mcp"
    sources = [path for path in package.rglob("*.py") if path.name != "words.py"]
    assert [path for path in sources if REDACTOR.text(text := path.read_text("utf-8")) != text] == []
