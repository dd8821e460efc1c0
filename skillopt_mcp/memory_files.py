"""Memory files: a skill and a CLAUDE.md or AGENTS.md, trained in turn, each attempt with both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

from skillopt_mcp.answering import ALLOWED, check_unchanged, run_backends
from skillopt_mcp.calls.rounds import OnReply
from skillopt_mcp.documents.text import quoted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.prompts.loading import Prompts
from skillopt_mcp.records.results import Replayed, Result
from skillopt_mcp.records.runs import Run
from skillopt_mcp.records.skills import Skill, is_memory
from skillopt_mcp.records.tasks import NewTask
from skillopt_mcp.runs import begin, furthest, last_finished, new_run, replay
from skillopt_mcp.splits import EQUAL_SHARES
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.progress import Notify, silent
from skillopt_mcp.workspace import Workspace

Document = Literal["skill", "memory", "both"]
WAY_ON = f"the same command with {ALLOWED}"
DOCUMENTS: tuple[Document, ...] = get_args(Document)


class Consolidated(Result):
    """The outcome for each document that was trained, None for one that was left as it is."""

    skill: Replayed | None
    memory: Replayed | None


@dataclass(frozen=True, slots=True)
class Documents:
    """The skill and the memory file, and which of them is trained."""

    skill: Skill
    memory: Skill
    trained: Document


@dataclass(frozen=True, slots=True)
class Training:
    """How both are trained; `resume` takes what the same training has finished, and goes on with what it has not.

    With `allow_changed` it does so even where others answer now.
    """

    config: Config
    prompts: Prompts | None = None
    notify: Notify = silent
    on_reply: OnReply | None = None
    concurrency: int | None = None
    resume: bool = False
    allow_changed: bool = False


def documents(workspace: Workspace, skill: str, memory: str, trained: Document = "both") -> Documents:
    """Return the two documents, the memory with the skill's tasks in the skill's splits.

    Raises BadInput when the paths are not those of a skill and of a memory file that can stand side by side.
    """
    found, other = workspace.skill(skill), workspace.skill(memory)
    if is_memory(found.path) or not is_memory(other.path):
        raise BadInput(f"{quoted(skill)} and {quoted(memory)} are no skill and memory file: name them in this order")
    files = workspace.live(found)
    if files.get(workspace.live(other).main_path):
        raise BadInput(f"the skill '{found.name}' has a file of that name itself: take it out, or rename it")
    store = workspace.store
    tasks = [
        NewTask(task.prompt, task.judge, task.name, task.split, task.tags, task.files)
        for task in store.tasks.list_in_use(found.id)
    ]
    if trained != "skill":
        store.tasks.add_tasks(other.id, tasks, EQUAL_SHARES)
    return Documents(found, other, trained)


def consolidate(workspace: Workspace, both: Documents, training: Training) -> Consolidated:
    """Return the outcome of training the skill, then the memory, then testing each. No file is written.

    The memory is trained beside the skill's best version where its promotion test accepted that, or else the live one.
    """
    skill, memory = both.skill, both.memory
    trained, remembered = None, None
    if both.trained != "memory":
        with accompanied(workspace, memory, memory.live_version) as beside:
            trained = _trained(beside, skill, memory, training)
    if both.trained != "skill":
        with accompanied(workspace, skill, _kept(workspace, skill, trained)) as beside:
            remembered = _trained(beside, memory, skill, training)
    last = remembered or trained
    return Consolidated(skill=trained, memory=remembered, next_step=last.next_step if last else None)


def taken_up(workspace: Workspace, both: Documents, training: Training) -> Iterator[tuple[Workspace, Run]]:
    """Yield the runs that a training takes which is resumed, each with the workspace it is answered in.

    What the memory is trained beside is known once the skill's run has finished.
    """
    skill, memory, trained = both.skill, both.memory, None
    if both.trained != "memory":
        with accompanied(workspace, memory, memory.live_version) as beside:
            found = _taken_up(beside, _new(beside, skill, training))
            if found:
                yield beside, found
        if found is None or not found.result:
            return
        trained = Replayed.model_validate_json(found.result)
    if both.trained != "skill":
        with accompanied(workspace, skill, _kept(workspace, skill, trained)) as beside:
            found = _taken_up(beside, _new(beside, memory, training))
            if found:
                yield beside, found


@contextmanager
def accompanied(workspace: Workspace, beside: Skill, version: str) -> Iterator[Workspace]:
    """Lend a workspace on the same store whose target attempts every task with a version of `beside` at hand."""
    files = workspace.store.skills.get_files(beside.id, version)
    with workspace.accompanied(files, beside.name) as other:
        yield other


def _trained(workspace: Workspace, document: Skill, beside: Skill, training: Training) -> Replayed:
    new = _new(workspace, document, training)
    found = _taken_up(workspace, new) if training.resume else None
    if found is None:
        begin(workspace, new)
    elif not training.allow_changed:
        check_unchanged(workspace, found, run_backends(workspace, found), WAY_ON)
    outcome = replay(
        workspace, found or new, training.notify, training.on_reply, training.concurrency,
        allow_changed=training.allow_changed,
    )  # fmt: skip
    step = outcome.next_step
    if outcome.verdict != "undecided" or step is None:
        return outcome
    step = step.model_copy(update={"arguments": {**step.arguments, "companion": beside.path}})
    return outcome.model_copy(update={"next_step": step})


def _new(workspace: Workspace, document: Skill, training: Training) -> Run:
    return new_run(workspace, document.path, training.config, training.prompts)


def _taken_up(workspace: Workspace, new: Run) -> Run | None:
    """Return the run that a resumed one is; one that others answered only where there is no other."""
    return (
        last_finished(workspace, new)
        or furthest(workspace, new, allow_changed=False)
        or last_finished(workspace, new, allow_changed=True)
        or furthest(workspace, new, allow_changed=True)
    )


def _kept(workspace: Workspace, skill: Skill, trained: Replayed | None) -> str:
    """Return the version of the skill that the memory is trained beside."""
    if trained and trained.verdict == "accept" and trained.candidate_id:
        return workspace.store.candidates.get_candidate(trained.candidate_id).version_id
    return skill.live_version
