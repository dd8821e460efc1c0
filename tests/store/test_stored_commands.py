"""Stored commands: registered by a person, replaced and forgotten by name."""

from __future__ import annotations

from dataclasses import replace

from skillopt_mcp.records.commands import Limits, RegisteredCommand
from skillopt_mcp.store.opening import Store

PYTEST = RegisteredCommand(
    "pytest-fast", ("/usr/bin/pytest", "-q", "a b"), "5" * 64, Limits(time_s=9.5), ("/srv/data",), require_sandbox=True
)


def test_a_command_comes_back_as_it_was_registered(store: Store) -> None:
    assert store.commands.register(PYTEST) is False
    [found] = store.commands.list_commands()
    assert replace(found, created_at="") == PYTEST
    assert found.created_at
    assert found.fingerprint == PYTEST.fingerprint


def test_registering_a_name_again_replaces_the_command(store: Store) -> None:
    store.commands.register(PYTEST)
    assert store.commands.register(replace(PYTEST, argv=("/bin/true",), sha256="6" * 64)) is True
    assert [command.argv for command in store.commands.list_commands()] == [("/bin/true",)]


def test_commands_are_found_by_name_and_forgotten(store: Store) -> None:
    store.commands.register(PYTEST)
    store.commands.register(replace(PYTEST, name="lint"))
    assert list(store.commands.named(["lint", "unknown"])) == ["lint"]
    assert store.commands.remove("lint") is True
    assert store.commands.remove("lint") is False
    assert [command.name for command in store.commands.list_commands()] == ["pytest-fast"]
