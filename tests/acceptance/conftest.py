from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.doors import Server, Workbench
from tests.acceptance.doors_care import Desk
from tests.acceptance.world import Vendor, script, vending


@pytest.fixture
def bench(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workbench]:
    """Return a workbench with a skill and no task yet."""
    bench = Workbench(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", bench.environ["OPENAI_API_KEY"])
    yield bench
    bench.close()


@pytest.fixture
def scripted(tmp_path: Path) -> str:
    """Return a target that follows the rules of the world, by a file of replies."""
    path = tmp_path / "replies.json"
    path.write_text(json.dumps(script()))
    return f"scripted:{path}"


@pytest.fixture(scope="session")
def endpoint() -> Iterator[Vendor]:
    """Return a model behind HTTP that follows the rules of the world; runs that are compared need the same one."""
    with vending() as vendor:
        yield vendor


@pytest.fixture
def vendor(endpoint: Vendor) -> Vendor:
    """Return the same model, that has not been asked anything."""
    endpoint.reset()
    return endpoint


@pytest.fixture
def host(bench: Workbench) -> Iterator[Server]:
    """Return a server whose agents do all work."""
    with bench.serve() as server:
        yield server


@pytest.fixture(scope="session")
def desk_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where this worker's desk is: a skill is known by its path."""
    return tmp_path_factory.mktemp("desk")


@pytest.fixture
def desk(desk_folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Return a skill with candidates in every state; it is built once, and as it was then for every test."""
    place, saved = desk_folder / "place", desk_folder / "saved"
    monkeypatch.setenv("HOME", str(place))
    if not saved.exists():
        place.mkdir(exist_ok=True)
        built = Desk(place)
        built.build()
        (desk_folder / "ids.json").write_text(json.dumps(built.ids))
        shutil.copytree(place, saved)
    shutil.rmtree(place)
    shutil.copytree(saved, place)
    return Desk(place, ids=json.loads((desk_folder / "ids.json").read_text()))
