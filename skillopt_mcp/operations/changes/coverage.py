"""Coverage: which evidence a standing permission covers, and which a person has to look at each time."""

from __future__ import annotations

from skillopt_mcp.documents.counts import counted
from skillopt_mcp.gates.recompute import ConfirmInputs
from skillopt_mcp.gates.redraws import PAIRS_AT_ONCE
from skillopt_mcp.gates.serving import told_served
from skillopt_mcp.judges.judging import leaves
from skillopt_mcp.operations.judging import is_judged_by_host
from skillopt_mcp.operations.testing.opening_tests import evidence_so_far
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import net_staked
from skillopt_mcp.optimizer.reservations import answers_alike, begun_anew, retired_losses
from skillopt_mcp.records.judging import ByHost
from skillopt_mcp.store.decisions import ConfirmationRow

# On fewer tasks a change can win by what it says of each.
FEWEST_TASKS = 6
MOST_ALPHA = 0.05
_ROUNDING = 1e-9
_COVERS = "a standing permission covers"


def host_own(workspace: Workspace, test: ConfirmationRow | None) -> str:
    """Return how a host vouches for evidence itself: it judged the tasks, or had seen them; empty where it does not."""
    if test is None:
        return ""
    if evidence_so_far(workspace, test) == "host-run, exposed":
        return "the evidence is host-run, exposed: a session that had seen the tasks attempted or judged them"
    tested = set(test.tasks)
    tasks = [task for task in workspace.store.tasks.list_tasks(test.skill_id) if task.id in tested]
    if any(isinstance(leaf, ByHost) for task in tasks for leaf in leaves(task.judge)):
        return "the host itself judged its test"
    return "the host's own agents judged its test" if is_judged_by_host(test.backend) else ""


def uncovered(workspace: Workspace, test: ConfirmationRow, *, simulated: bool) -> str:
    """Return why no standing permission covers the verdict of a test, empty when one does.

    Of a simulation, which says nothing of a real model, it is not asked how its target answers.
    """
    store = workspace.store
    if len(test.tasks) < FEWEST_TASKS:
        return f"it was tested on {counted(len(test.tasks), 'held-out task')}, and {_COVERS} {FEWEST_TASKS} or more"
    last = store.decisions.latest_in(test.id)
    inputs = ConfirmInputs.model_validate_json(last.inputs) if last else None
    if inputs and inputs.margin < 0:
        return f"its test asked that it is no worse, and {_COVERS} what is better"
    if test.alpha > MOST_ALPHA or net_staked(store, test.skill_id, test.backend) > MOST_ALPHA + _ROUNDING:
        return f"the tests of this skill have a larger error rate than {MOST_ALPHA}, and {_COVERS} no larger one"
    if test.claim == "like_these" and store.decisions.find_joined_late(test.id):
        return "tasks joined its test after evidence was seen, which a standing permission does not cover"
    if inputs and inputs.served and inputs.served.differ:
        return f"in its test, {told_served(inputs.served)}, which a person should see"
    if n_lost := retired_losses(store, test):
        lost = counted(n_lost, "task")
        return f"{lost} that earlier candidates lost were retired before its test, which a person should see"
    redraws = begun_anew(store, test)
    if abs(redraws.candidate - redraws.base) > PAIRS_AT_ONCE:
        return f"in its test, {redraws}: more than one interruption explains, which a person should see"
    if inputs and not simulated and answers_alike(test, store.decisions.list_pairs(test.id)[: inputs.n_pairs]):
        return "its target answers alike each time, so that its verdict rests on few answers: a person should see them"
    return ""
