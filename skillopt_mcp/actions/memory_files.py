"""Memory files: a skill and a CLAUDE.md or AGENTS.md, trained in turn, each attempt with both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from skillopt_mcp.actions.runs import begin, furthest, last_finished, new_run, replay
from skillopt_mcp.backends.rounds import OnReply
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.results import Replayed, Result
from skillopt_mcp.core.skills import Skill, is_memory
from skillopt_mcp.core.tasks import NewTask
from skillopt_mcp.core.text import quoted
from skillopt_mcp.prompts.loading import Prompts
from skillopt_mcp.tasks.splits import DEFAULT_SHARES
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.progress import Notify, silent
from skillopt_mcp.workspace.answering import ALLOWED, check_unchanged, run_backends
from skillopt_mcp.workspace.workspace import Workspace

Document = Literal["skill", "memory", "both"]


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
    """How both are trained; `resume` takes the finished half of the same training, and continues the other.

    With `allow_changed` it does so where a backend's fingerprint has changed, too.
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

    Raises BadInput when the paths are not those of a skill and of a memory file that fit into one folder.
    """
    found, other = workspace.skill(skill), workspace.skill(memory)
    if is_memory(found.path) or not is_memory(other.path):
        raise BadInput(f"{quoted(skill)} must be a skill, and {quoted(memory)} a memory file (CLAUDE.md, AGENTS.md)")
    if workspace.live(found).get(workspace.live(other).main_path):
        raise BadInput(f"the skill '{found.name}' has a file with the name of the memory file: rename one of them")
    store = workspace.store
    tasks = store.tasks.list_in_use(found.id) if trained != "skill" else []
    for looked_at in (True, False):  # the copy of a task is a person's where the task is
        copies = [
            NewTask(task.prompt, task.judge, task.name, task.split, task.tags, task.files, task.group)
            for task in tasks
            if task.looked_at == looked_at
        ]
        store.tasks.add_tasks(other.id, copies, DEFAULT_SHARES, login=workspace.login if looked_at else None)
    return Documents(found, other, trained)


def consolidate(workspace: Workspace, both: Documents, training: Training) -> Consolidated:
    """Return the outcome of training the skill, then the memory, then testing each. No file is written.

    The memory is trained with the skill's best version where its promotion test accepted that, else with the live one.
    """
    skill, memory, kept = both.skill, both.memory, both.skill.live_version
    trained, remembered = None, None
    if both.trained != "memory":
        trained = _trained(workspace, skill, (memory, memory.live_version), training)
        if trained.verdict == "better" and trained.candidate_id:
            kept = workspace.store.candidates.get_candidate(trained.candidate_id).version_id
    if both.trained != "skill":
        remembered = _trained(workspace, memory, (skill, kept), training)
    last = remembered or trained
    return Consolidated(skill=trained, memory=remembered, next_step=last.next_step if last else None)


@contextmanager
def with_companion(workspace: Workspace, companion: Skill, version: str) -> Iterator[Workspace]:
    """Lend a workspace on the same store whose target attempts every task with a version of `companion` at hand."""
    files = workspace.store.skills.get_files(companion.id, version)
    with workspace.accompanied(files, companion.name) as other:
        yield other


def _trained(workspace: Workspace, document: Skill, companion: tuple[Skill, str], training: Training) -> Replayed:
    with with_companion(workspace, *companion) as lent:
        new = new_run(lent, document.path, training.config, training.prompts)
        found = None
        if training.resume:
            # A run that another version of a backend answered is taken only where there is none by this one.
            found = (
                last_finished(lent, new)
                or furthest(lent, new, allow_changed=False)
                or last_finished(lent, new, allow_changed=True)
                or furthest(lent, new, allow_changed=True)
            )
        if found is None:
            begin(lent, new)
        elif not training.allow_changed:
            check_unchanged(lent, found, run_backends(lent, found), f"the same command with {ALLOWED}")
        return replay(
            lent, found or new, training.notify, training.on_reply, training.concurrency,
            allow_changed=training.allow_changed,
        )  # fmt: skip
