"""A program goes on with a run, and with a test, by a spec that asks the same model otherwise."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
from workshop import SIMULATION, Place

from skillopt_mcp import CapReached, Caps, Config, evaluate, train
from skillopt_mcp.workspace.workspace import Workspace
from tests.vendors import Vendor, vending

CONFIG = Config(epochs=1, batch=10, sessions=0, slow_update=False, meta_skill=False)


@pytest.fixture
def vendor(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    """Lend a vendor for a place with tasks."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with vending() as server:
        yield server


def go_on(place: Place, target: str, n_calls: int, *, allow_changed: bool = False) -> str:
    """Return the id of the run that a call of `train` went on with, or began, up to its cap."""
    with pytest.raises(CapReached) as stopped:
        train(
            place.skill, config=CONFIG, target=target, optimizer=SIMULATION, store=place.store_path,
            caps=Caps(calls=n_calls), allow_changed=allow_changed,
        )  # fmt: skip
    assert stopped.value.run_id
    return stopped.value.run_id


def test_a_program_goes_on_with_a_run_whatever_its_timeout_and_prices(place: Place, vendor: Vendor) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = go_on(place, vendor.spec("timeout=1"), 5)
        again = go_on(place, vendor.spec("timeout=9", "price_in=1", "price_out=2"), 7)
        back = go_on(place, vendor.spec("timeout=1"), 9)
    assert first == again == back
    assert len(set(vendor.asked)) == len(vendor.asked) == 9


def test_a_program_goes_on_with_a_longer_answer_once_it_allows_that(place: Place, vendor: Vendor) -> None:
    first = go_on(place, vendor.spec("max_tokens=100"), 5)
    longer = vendor.spec("max_tokens=500")
    with pytest.warns(UserWarning, match=f"run '{first}' began with another model, or another state of it: the target"):
        other = go_on(place, longer, 5)
    assert other != first
    assert go_on(place, longer, 7) == other
    assert go_on(place, vendor.spec("max_tokens=100"), 9) == first
    assert go_on(place, vendor.spec("max_tokens=9"), 15, allow_changed=True) == first, "it has come further"


def test_a_test_goes_on_whatever_the_timeout_and_prices(place: Place, workspace: Workspace, vendor: Vendor) -> None:
    candidate = place.propose(workspace)
    for n_calls, target in ((3, vendor.spec("timeout=1")), (5, vendor.spec("timeout=9", "price_in=1", "price_out=2"))):
        with pytest.raises(CapReached):
            evaluate(candidate, target=target, store=place.store_path, caps=Caps(calls=n_calls))
    assert len(vendor.asked) == 5
    [_] = workspace.store.tests.list_of_skill(1)
