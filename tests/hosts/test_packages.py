"""Packages: the plugin and the bundle, each before its own official validator."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from real_hosts import host_environment

from tests.readme import ROOT

pytestmark = pytest.mark.hosts


def binary(variable: str) -> str:
    """Return the path of a validator."""
    if not os.environ.get(variable):
        pytest.skip(f"{variable} names no binary: see .ci/hosts")
    return os.environ[variable]


def run(tmp_path: Path, *command: str) -> str:
    """Return what a validator says when it is content."""
    environment = host_environment(
        tmp_path, {"CLAUDE_CONFIG_DIR": str(tmp_path / ".claude"), "DISABLE_AUTOUPDATER": "1"}
    )
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assembled(tmp_path: Path, part: str) -> Path:
    """Return the folder of the plugin or the bundle, as it is made to be published."""
    subprocess.run([sys.executable, "-m", "skillopt_mcp.packaging", tmp_path / "packages"], check=True)
    return tmp_path / "packages" / part


@pytest.mark.parametrize("variable", ["CLAUDE", "CLAUDE_OLDER"])
def test_claude_code_finds_the_plugin_valid(variable: str, tmp_path: Path) -> None:
    plugin = assembled(tmp_path, "plugin")
    assert "Validation passed" in run(tmp_path, binary(variable), "plugin", "validate", str(plugin))


def test_a_clone_is_a_marketplace_from_which_the_plugin_is_installed(tmp_path: Path) -> None:
    run(tmp_path, binary("CLAUDE"), "plugin", "marketplace", "add", str(ROOT))
    run(tmp_path, binary("CLAUDE"), "plugin", "install", "skillopt@skillopt-mcp")
    assert "enabled" in run(tmp_path, binary("CLAUDE"), "plugin", "list")


def test_the_directory_of_plugins_asks_for_nothing_but_an_icon(tmp_path: Path) -> None:
    plugin = assembled(tmp_path, "plugin")
    said = run(tmp_path, binary("CLAUDE"), "plugin", "validate", "--profile", "directory", str(plugin))
    assert "Found 1 plugin directory warning" in said
    assert "ICON_MISSING" in said


def test_mcpb_finds_the_bundle_valid_and_packs_it(tmp_path: Path) -> None:
    bundle = assembled(tmp_path, "bundle")
    assert "passes" in run(tmp_path, binary("MCPB"), "validate", str(bundle / "manifest.json"))
    run(tmp_path, binary("MCPB"), "pack", str(bundle), str(tmp_path / "out.mcpb"))
    with zipfile.ZipFile(tmp_path / "out.mcpb") as packed:
        assert set(packed.namelist()) == {"manifest.json", "pyproject.toml", "server.py"}
