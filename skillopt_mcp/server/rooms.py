"""Rooms: what stands behind a server, all over one workspace; importing this imports the operations and the store."""

from __future__ import annotations

from concurrent.futures import Future

from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.budgets import Caps
from skillopt_mcp.server.app import Rooms
from skillopt_mcp.server.approval import ApprovalDesk
from skillopt_mcp.server.library import Library
from skillopt_mcp.server.setup import Setup
from skillopt_mcp.server.tools import tools_over
from skillopt_mcp.store import driver

HOST = "host"
# Below what a call may take, so that a host hears why before it gives up.
BUSY_S = 22


def open_rooms(setup: Setup, leaving: Future[None] | None = None) -> Rooms:
    """Return the rooms of a setup; whoever names no backend has the host itself do the work, and needs no key."""
    driver.BUSY_TIMEOUT_S = BUSY_S
    workspace = Workspace(
        setup.store_path,
        target=setup.target or HOST,
        optimizer=setup.optimizer or HOST,
        judge=setup.judge or HOST,
        caps=Caps(setup.max_calls, setup.max_tokens, setup.max_usd, setup.max_minutes),
        hands_out=True,
    )
    workspace.lease_s = setup.lease_minutes * 60
    workspace.jobs.leaving = leaving or workspace.jobs.leaving
    return rooms_over(workspace, require_approval=setup.require_approval)


def rooms_over(workspace: Workspace, *, require_approval: bool = False) -> Rooms:
    """Return the rooms of a workspace; with `require_approval`, no standing permission is enough."""
    consent = Consent.APPROVED if require_approval else Consent.STANDING
    return Rooms(tools_over(workspace, consent), Library(workspace), ApprovalDesk(workspace, consent))
