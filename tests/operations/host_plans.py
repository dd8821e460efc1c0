"""Host plans: an installation, and its end, as they are written once a person has agreed."""

from __future__ import annotations

from skillopt_mcp.installing.hosts import Surroundings
from skillopt_mcp.operations.hosts.installing import Request, apply_plan, plan_install
from skillopt_mcp.operations.hosts.uninstalling import plan_uninstall


def install(around: Surroundings, request: Request) -> None:
    apply_plan(plan_install(request, around))


def uninstall(around: Surroundings, request: Request) -> list[str]:
    plan = plan_uninstall(request, around)
    apply_plan(plan)
    return plan.notes
