"""Plugged: backends of other packages differ by their options, and a simulation among them is known as one."""

from skillopt_mcp.backends.plugin import Plugged
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.promotion_tests import is_simulated


def test_two_sets_of_options_are_two_backends() -> None:
    mine = Scripted(lambda _: "yes", name="mine")
    mine.fingerprint = "mine 1"
    fast, slow = Plugged(mine, "mine:fast"), Plugged(mine, "mine:slow")
    assert (fast.name, fast.fingerprint) == ("plugin:mine:fast", "mine 1@plugin:mine:fast")
    assert slow.fingerprint != fast.fingerprint
    assert not is_simulated(fast.fingerprint)


def test_a_simulation_that_a_plugin_opens_counts_as_one() -> None:
    for inner in (open_backend("simulated:honest"), Scripted(lambda _: "yes")):
        assert is_simulated(Plugged(inner, "wrap").fingerprint)
        assert is_simulated(f"real judged by {Plugged(inner, 'wrap').fingerprint}")
