"""Invocation: commands that are told can be copied, also where a store was named."""

from __future__ import annotations

import pytest

from skillopt_mcp.cli.invocation import Invocation


@pytest.mark.parametrize(
    ("told", "copied"),
    [
        ("Undo: skillopt-mcp rollback s 1a2b", "Undo: skillopt-mcp --store '/a b/x.db' rollback s 1a2b"),
        (
            "'skillopt-mcp tasks add' or skillopt-mcp import F",
            "'skillopt-mcp --store '/a b/x.db' tasks add' or skillopt-mcp --store '/a b/x.db' import F",
        ),
        ("install skillopt-mcp again", "install skillopt-mcp again"),
        ("try it: skillopt-mcp demo", "try it: skillopt-mcp demo"),
        (
            "skillopt-mcp --store /other/y.db replay s --resume",
            "skillopt-mcp --store /other/y.db replay s --resume",
        ),
    ],
)
def test_every_command_that_is_told_names_the_store_that_was_named(told: str, copied: str) -> None:
    assert Invocation(store="/a b/x.db").on_store(told) == copied
    assert Invocation().on_store(told) == told
