"""Receiving: what a host submits for its leases becomes replies: the first one counts, and none is believed further."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import PureWindowsPath

from skillopt_mcp import limits
from skillopt_mcp.backends.redacting import redacted
from skillopt_mcp.backends.work import ANSWER, SCHEMA, SCORE, TOOL_CALLS, asked_for
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.hosts import host_evaluation
from skillopt_mcp.judges.judging import leaves
from skillopt_mcp.operations.host_work.conforming import broken, unplaced
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.operations.results import Receipt
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.prompts.parsing import found_reply
from skillopt_mcp.records.calls import NO_TOOL_CALL, TOOL_CALL, Message, Reply, Role, storable
from skillopt_mcp.records.judging import ByHost
from skillopt_mcp.records.replies import PatchReply
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.store.leases import Answered, Failing, GivenUp, Lease

MAX_REPLIES = 64
_FIELDS = ("work_id", "reply", "tool_calls", "score", "failed")
_MAX_TOOL_CALLS = 1_000
# Whoever gives up a task has shown what the version makes of it: another agent would be a second chance. What is asked
# of a host that judges or proposes is no evidence of a version.
_MOST_FAILURES: dict[Role, int] = {"target": 1, "optimizer": 3, "judge": 3}
_SAID: dict[Answered, str] = {
    "accepted": "",
    "duplicate": "this work was submitted before; the first reply stays",
    "late": "somebody else has answered it meanwhile",
    "withdrawn": "it is not needed any more",
}
GIVEN_UP = "this work was given up as failed before: nothing more is taken for it"
_MISSING = "it is missing already: nothing more is taken for it"
_GIVEN_UP: dict[GivenUp, str] = {
    "missing": "it is missing now",
    "free": "it is handed out again",
    "elsewhere": "its time had run out, and somebody else has it: what they hand in counts",
    "late": _SAID["late"],
}


def receive(workspace: Workspace, replies: Sequence[object]) -> tuple[list[Receipt], list[str]]:
    """Return what became of each reply, and the scopes that they belong to, each once. Raises BadInput for too many."""
    if len(replies) > MAX_REPLIES:
        raise BadInput(f"{len(replies):,} replies at once, {MAX_REPLIES} are allowed: submit them in parts")
    receipts, scopes = [], dict[str, None]()
    for given in replies:
        receipt, scope = _received(workspace, given)
        receipts.append(receipt)
        if scope:
            scopes[scope] = None
    return receipts, list(scopes)


def _received(workspace: Workspace, given: object) -> tuple[Receipt, str | None]:
    fields = given if isinstance(given, Mapping) else {"work_id": given}
    given_id = fields.get("work_id")
    if not isinstance(given_id, str):
        return Receipt(work_id="", status="refused", reason='a reply is {work_id, reply?}: "work_id" is missing'), None
    # Some give the folder of the work, which is called by its id.
    work_id = PureWindowsPath(given_id.strip()).name.lower()
    lease = workspace.store.leases.find(storable(work_id))
    if lease is None:
        shown = shortened(given_id, 80)
        return Receipt(work_id=shown, status="unknown", reason="nobody was ever given work of this id"), None
    try:
        return _answered(workspace, lease, fields), lease.scope
    except BadInput as error:
        status, reason = _overtaken(workspace, lease), shortened(str(error), 300)
        told = Receipt(
            work_id=lease.id, status=status or "refused", reason=_said(workspace, lease, status) if status else reason
        )
        return told, lease.scope


def _said(workspace: Workspace, lease: Lease, status: Answered) -> str:
    if lease.state == "failed" and lease.role == "target":
        return GIVEN_UP
    # A question may have ended with a reply that could not be used, and nobody has given it up.
    if status in ("duplicate", "late") and workspace.store.leases.is_missing(lease.call_id):
        return _MISSING
    return GIVEN_UP if lease.state == "failed" else _SAID[status]


def _overtaken(workspace: Workspace, lease: Lease) -> Answered | None:
    """Return why nothing can be wrong with a reply any more: whoever was first has cleared the folder away."""
    if workspace.store.leases.unanswered([lease.call_id]):
        return None
    found = workspace.store.leases.find(lease.id)
    return "duplicate" if found and found.state in ("answered", "failed") else "late"


def _answered(workspace: Workspace, lease: Lease, fields: Mapping[object, object]) -> Receipt:
    for name in fields:
        if name not in _FIELDS:
            raise BadInput(f"a reply has no field {quoted(str(name))}: it has {', '.join(_FIELDS)}")
    # Models fill in what they leave out: an empty reason is none.
    failed = fields.get("failed") or None
    if failed is not None and fields.get("reply"):
        raise BadInput(
            "a reply has an answer or was given up, never both: give reply, or failed, and leave out the other"
        )
    if lease.state == "failed" and failed is None:
        raise BadInput(GIVEN_UP)
    status: Answered
    if lease.state != "out":
        status = "withdrawn" if lease.state == "withdrawn" else "duplicate"
        reason = _said(workspace, lease, status)
    elif failed is not None:
        became = _given_up(workspace, lease, str(failed))
        status, reason = "accepted", _GIVEN_UP[became]
        if became == "late":
            status, reason = became, _said(workspace, lease, became)
    else:
        reply = _reply(workspace, lease, fields)
        if problem := _problem(workspace, lease, reply):
            status, reason = "accepted", _spoilt(workspace, lease, reply, problem)
        else:
            status = workspace.store.leases.answer(lease.id, reply, workspace.session)
            reason = _said(workspace, lease, status)
    workspace.workplaces.remove([lease.id])
    return Receipt(work_id=lease.id, status=status, reason=reason)


def _given_up(workspace: Workspace, lease: Lease, why: str) -> GivenUp:
    said = workspace.redactor.text(storable(why[:1000]))
    missing = Reply(f"the host could not do it: {said}", fault="internal", id=lease.call_id)
    return workspace.store.leases.fail(_failing(workspace, lease, missing))


def _failing(workspace: Workspace, lease: Lease, missing: Reply) -> Failing:
    return Failing(lease.id, missing, _MOST_FAILURES[lease.role], workspace.clock())


def _problem(workspace: Workspace, lease: Lease, reply: Reply) -> str:
    """Return why the answer to a question cannot be used; empty where it can, or where nobody can tell here."""
    schema = None if lease.role == "target" else workspace.workplaces.read(lease.id, SCHEMA)
    model = asked_for(schema) if schema else None
    if model is None:
        return ""
    found = found_reply(reply.text, model)
    if isinstance(found, str):
        return found
    fault = broken(found[0], model)
    if fault or not isinstance(found[1], PatchReply):
        return fault
    # All questions of a proposal are about the version that it began on.
    run = workspace.store.runs.get_run(lease.scope)
    return unplaced(found[1], workspace.store.skills.get_files(run.skill_id, run.base_version))


def _spoilt(workspace: Workspace, lease: Lease, reply: Reply, problem: str) -> str:
    """Return that a question is missing now: its replies could not be used. Raises BadInput while there are tries.

    One reply that is submitted again, as after a lost connection, is one try.
    """
    note_id = f"w-{hashlib.sha256(f'{lease.id} {reply.text}'.encode()).hexdigest()[:32]}"
    said = workspace.redactor.text(storable(problem[:1000]))
    missing = Reply(f"no reply of the host could be used: {said}", fault="malformed", id=lease.call_id)
    failing = _failing(workspace, lease, missing)
    if not workspace.store.leases.note_unusable(failing, note_id):
        raise BadInput(f"the reply cannot be used ({said}): give one JSON object that is valid under '{SCHEMA}'")
    return f"it is missing now, after {failing.most} replies that could not be used ({shortened(said, 200)})"


def _reply(workspace: Workspace, lease: Lease, fields: Mapping[object, object]) -> Reply:
    """Return the reply to store: what was given, or else left in the folder of the work, without secrets."""
    task = workspace.store.tasks.get_task(lease.task_id) if lease.task_id is not None else None
    text = _text(workspace, lease, fields.get("reply"))
    messages = (*_tool_calls(workspace, lease, fields.get("tool_calls")), *_score(workspace, lease, task, fields))
    size = len(text) + sum(len(message.content) for message in messages)
    if size > limits.TRAJECTORY_CHARACTERS:
        raise BadInput(f"the reply has {size:,} characters, {limits.TRAJECTORY_CHARACTERS:,} are allowed: shorten it")
    reply = Reply(text, tuple(messages), id=lease.call_id)
    return redacted(workspace.redactor, reply, task)


def _text(workspace: Workspace, lease: Lease, given: object) -> str:
    if isinstance(given, Mapping):
        given = _written(given)
    if given is not None and not isinstance(given, str):
        raise BadInput("the reply is neither a text nor a JSON object: give it as a text")
    text = given if given is not None else workspace.workplaces.read(lease.id, ANSWER)
    if text is None:
        raise BadInput(f"there is no reply, and no '{ANSWER}' in the folder of the work: write it, or give the reply")
    if not text.strip():
        raise BadInput("the reply is empty: give the answer, or say why there is none as failed")
    return storable(text)


def _tool_calls(workspace: Workspace, lease: Lease, given: object) -> list[Message]:
    """Return the calls of tools that a host says it made, from the reply or the file beside the answer.

    None at all is something that it says, too; where neither is there, it says nothing.
    """
    if lease.task_id is None:
        return []
    if given is None:
        text = workspace.workplaces.read(lease.id, TOOL_CALLS)
        if text is None:
            return []
        given = [_json(TOOL_CALLS, line) for line in text.splitlines() if line.strip()]
    if not isinstance(given, list) or len(given) > _MAX_TOOL_CALLS:
        raise BadInput(f"tool_calls is no list of at most {_MAX_TOOL_CALLS:,} objects {{name, arguments}}")
    return [_tool_call(workspace, each) for each in given] or [NO_TOOL_CALL]


def _tool_call(workspace: Workspace, value: object) -> Message:
    name = value.get("name") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(name, str) or not name:
        raise BadInput("a call of a tool is {name, arguments}: give it as such an object")
    if len(name) > limits.NAME_CHARACTERS:
        raise BadInput(f"the name of a tool has more than {limits.NAME_CHARACTERS} characters: give its name alone")
    arguments = value.get("arguments")
    written = _written(arguments if isinstance(arguments, Mapping) else {})
    return Message(TOOL_CALL, storable(written), workspace.redactor.text(storable(name)))


def _score(workspace: Workspace, lease: Lease, task: Task | None, fields: Mapping[object, object]) -> list[Message]:
    """Return what a host thinks of its own attempt, where the task's judge asks it. Raises BadInput elsewhere."""
    is_asked = task is not None and any(isinstance(leaf, ByHost) for leaf in leaves(task.judge))
    given = fields.get("score")
    if not is_asked:
        if given is not None:
            raise BadInput("a score is taken from a host only where the task's judge is of kind host: leave it out")
        return []
    if given is None:
        given = _json(SCORE, workspace.workplaces.read(lease.id, SCORE) or "null")
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise BadInput(f"the judge of this task asks for your own score: give a number from 0 to 1 in '{SCORE}'")
    return [host_evaluation(given)]


def _json(name: str, text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput(f"{quoted(text[:60])} in '{name}' is no JSON: correct it") from None
    return value


def _written(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        raise BadInput(
            "a value is nested too deep, or is a number of too many digits: write it in other words"
        ) from None
