"""Permitted: what a standing permission does not cover, asked by the estimate of a test and by the promotion alike."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.actions.candidates import describe_rolled_back_repeat
from skillopt_mcp.core.candidates import Candidate
from skillopt_mcp.core.runs import Run
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.core.text import counted, is_text, quoted
from skillopt_mcp.documents.code_lines import code_touched
from skillopt_mcp.documents.diffs import changes
from skillopt_mcp.documents.frontmatter import block_end
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.judges.judging import leaves
from skillopt_mcp.tasks.judges.kinds.reported import ByHost
from skillopt_mcp.workspace.evidence import is_host, kind_of

MAX_LINES, MAX_LINE_BYTES = 60, 6_000
_SHOWN_CODE = 60


def permission_gaps(store: Store, candidate: Candidate, units: Sequence[Task], backend: str) -> list[str]:
    """Why no standing permission covers a candidate, whatever its test on these units by a backend says."""
    skill_id = candidate.skill_id
    files = (store.skills.get_files(skill_id, each) for each in (candidate.base_version, candidate.version_id))
    run = store.runs.get_run(candidate.run_id) if candidate.run_id else None
    of_run = source_gaps(store, run) if run else ["its edits cite no rollout of our own"]
    found = [describe_rolled_back_repeat(store, candidate), *evidence_gaps(units, backend), *of_run]
    return [each for each in [*found, beyond_small_edit(*files)] if each]


def evidence_gaps(units: Sequence[Task], backend: str) -> list[str]:
    """Why a person should look at a test on these units, whose attempts are made and judged by a backend."""
    by_host = kind_of(backend) == "host" or _asks_host(units)
    found = ["a host's agents made or judged the attempts of its test"] if by_host else []
    if n := sum(not task.looked_at for task in units):
        found.append(f"no person has looked at {n} of its {counted(len(units), 'held-out task')} (see tasks review)")
    return found


def source_gaps(store: Store, run: Run) -> list[str]:
    """Why edits of a run may be another's idea: it was shown more than our own rollouts of a person's tasks."""
    tasks = [task for task in store.tasks.list_tasks(run.skill_id) if task.id in run.tasks]
    later = (name for each in run.answering for role, name in each.fingerprints.items() if role != "optimizer")
    found = []
    if _asks_host(tasks) or any(map(is_host, (run.target, run.judge, *later))):
        found.append("a host's agents made or judged the attempts that its edits come from")
    if store.permissions.find_unattended(run.id) is False:
        found.append("a script made its attempts with a backend that no person remembered for agents")
    train = [task for task in tasks if task.split == "train"]
    if n := sum(not task.looked_at for task in train):
        found.append(f"no person has looked at {n} of the {counted(len(train), 'train task')} that its edits come from")
    # An optimizer that saw a session may write of it where it names rollouts alone.
    if run.sessions:
        found.append("its edits come from recorded sessions, not from rollouts of our own alone")
    return found


def _asks_host(tasks: Sequence[Task]) -> bool:
    return any(isinstance(leaf, ByHost) for task in tasks for leaf in leaves(task.judge))


def beyond_small_edit(base: SkillFiles, new: SkillFiles) -> str:
    """Why a change is more than a small edit of the words of the main document's body, or an empty string.

    Nothing that a host reads as configuration, or that an agent may run, is among those words.
    """
    paths = {file.path for file in (*base.files, *new.files) if base.get(file.path) != new.get(file.path)}
    if paths - {base.main_path}:
        return f"it changes other files than {base.main_path}"
    was, now = base.get(base.main_path), new.get(base.main_path)
    if was is None or now is None or was.executable != now.executable or not is_text(now.content):
        return f"it changes more of {base.main_path} than its text"
    fronts = [content[: block_end(content) or 0] for content in (was.content, now.content)]
    if fronts[0] != fronts[1]:
        return "it changes the front matter"
    old, fresh = was.content.splitlines(), now.content.splitlines()
    touched = [line for a, b, c, d in changes(old, fresh) for line in (*old[a:b], *fresh[c:d])]
    if len(touched) > MAX_LINES or sum(map(len, touched)) > MAX_LINE_BYTES:
        return f"it changes {len(touched)} lines; a permission covers {MAX_LINES} of {MAX_LINE_BYTES:,} bytes in all"
    if (line := code_touched(was.content, now.content)) is not None:
        shown = quoted(line.decode().strip(), _SHOWN_CODE) if line.strip() else "an empty line of a block"
        return f"it touches code or a command ({shown})"
    return ""
