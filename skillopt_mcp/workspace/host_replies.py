"""Host replies: what a host's agents hand in for the work that they have: checked, and stored without secrets."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence

from skillopt_mcp.backends.work import ANSWER, SCHEMA, SCORE, TOOL_CALLS, schema_text
from skillopt_mcp.backends.wrappers import redact_reply
from skillopt_mcp.core import limits
from skillopt_mcp.core.calls import NO_TOOL_CALL, TOOL_CALL, Message, Reply, Role
from skillopt_mcp.core.edits import Edit, Patch
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.limits import PATCH_EDITS
from skillopt_mcp.core.redacting import Redactor
from skillopt_mcp.core.replies import SCHEMAS, AwareReply, PatchReply
from skillopt_mcp.core.results import Receipt
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.core.text import quoted, storable
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.prompts.parsing import parse_reply
from skillopt_mcp.store.leases import Answered, Failing, GivenUp, Lease
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.judges.judging import leaves
from skillopt_mcp.tasks.judges.kinds.reported import ByHost, host_evaluation
from skillopt_mcp.workspace.answers import shorten
from skillopt_mcp.workspace.place import Place

MAX_REPLIES = 64
_FIELDS = ("work_id", "reply", "tool_calls", "score", "failed")
_MAX_TOOL_CALLS = 1_000
# A given-up task is evidence of the version: another agent would be a second chance. A judge or optimizer is none.
_MOST_FAILURES: dict[Role, int] = {"target": 1, "optimizer": 3, "judge": 3}
_SAID: dict[Answered, str] = {
    "accepted": "",
    "duplicate": "this work was submitted before; the first reply stays",
    "late": "another agent answered it first",
    "withdrawn": "it is no longer needed",
}
GIVEN_UP = "this work was given up as failed before"
_MISSING = "it is missing already"
_GIVEN_UP: dict[GivenUp, str] = {
    "missing": "it is missing now",
    "free": "it is handed out again",
    "elsewhere": "its time ran out, and another agent has it",
    "late": _SAID["late"],
}


def receive(store: Store, place: Place, replies: Sequence[object]) -> tuple[list[Receipt], list[str]]:
    """What became of each reply, and the scopes that they belong to, each once. Raises BadInput for too many."""
    if len(replies) > MAX_REPLIES:
        raise BadInput(f"replies must be at most {MAX_REPLIES}, got {len(replies):,}: submit them in parts")
    receipts, scopes = [], dict[str, None]()
    for given in replies:
        receipt, scope = _receive_reply(store, place, given)
        receipts.append(receipt)
        if scope:
            scopes[scope] = None
    return receipts, list(scopes)


def collect(store: Store, place: Place, scope: str, given: Collection[str] = ()) -> tuple[list[Receipt], int]:
    """Take the answers that lie finished in the folders of a scope's work; receipts of the unusable, how many others.

    What cannot be used is given up, as its agent is gone; work that a reply was `given` to is left.
    """
    out = {lease.id: lease for lease in store.leases.list_out(scope) if lease.id not in given}
    tasks = {each.id: each for each in store.tasks.list_by_id([each.task_id for each in out.values() if each.task_id])}
    needed = {}
    for lease in out.values():
        task = tasks.get(lease.task_id or 0)
        is_scored = task is not None and any(isinstance(leaf, ByHost) for leaf in leaves(task.judge))
        needed[lease.id] = (ANSWER, SCORE) if is_scored else (ANSWER,)
    receipts, finished = list[Receipt](), place.work_folders.list_finished(needed)
    for work_id in finished:
        lease = out[work_id]
        try:
            _answer_lease(store, place, lease, {}, lease.session)
        except BadInput as error:
            _answer_lease(store, place, lease, {"failed": str(error)}, lease.session)
            receipts.append(Receipt(work_id=work_id, status="refused", reason=shorten(str(error), 300)))
    return receipts, len(finished) - len(receipts)


def _receive_reply(store: Store, place: Place, given: object) -> tuple[Receipt, str | None]:
    fields = given if isinstance(given, Mapping) else {"work_id": given}
    given_id = fields.get("work_id")
    if not isinstance(given_id, str):
        return Receipt(work_id="", status="refused", reason='a reply is {work_id, reply?}: "work_id" is missing'), None
    # Some give the folder of the work: its wave, and its number in that.
    work_id = "-".join(re.split(r"[/\\]+", given_id.strip().rstrip("/\\"))[-2:]).lower()
    work_id = work_id[max(0, work_id.rfind("w-")) :]
    lease = store.leases.find(storable(work_id))
    if lease is None:
        shown = shorten(given_id, 80)
        return Receipt(work_id=shown, status="unknown", reason="unknown work_id"), None
    try:
        return _answer_lease(store, place, lease, fields, place.session), lease.scope
    except BadInput as error:
        if store.leases.count_unanswered([lease.call_id]):
            return Receipt(work_id=lease.id, status="refused", reason=shorten(str(error), 300)), lease.scope
        # Nothing can be wrong with it any more: an earlier reply has removed the folder.
        found = store.leases.find(lease.id)
        status: Answered = "duplicate" if found and found.state in ("answered", "failed") else "late"
        return Receipt(work_id=lease.id, status=status, reason=_describe_status(store, lease, status)), lease.scope


def _describe_status(store: Store, lease: Lease, status: Answered) -> str:
    if lease.state == "failed" and lease.role == "target":
        return GIVEN_UP
    # A question may have ended with a reply that could not be used, and was not given up.
    if status in ("duplicate", "late") and store.leases.is_missing(lease.call_id):
        return _MISSING
    return GIVEN_UP if lease.state == "failed" else _SAID[status]


def _answer_lease(store: Store, place: Place, lease: Lease, fields: Mapping[object, object], session: str) -> Receipt:
    for name in fields:
        if name not in _FIELDS:
            raise BadInput(f"a reply has no field {quoted(str(name))}: it has {', '.join(_FIELDS)}")
    failed = fields.get("failed") or None
    if failed is not None and fields.get("reply"):
        raise BadInput("give reply or failed, not both")
    if lease.state == "failed" and failed is None:
        raise BadInput(GIVEN_UP)
    status: Answered
    if lease.state != "out":
        status = "withdrawn" if lease.state == "withdrawn" else "duplicate"
        reason = _describe_status(store, lease, status)
    elif failed is not None:
        said = place.redactor.text(storable(str(failed)))[:1000]
        missing = Reply(f"the host could not do it: {said}", fault="internal", id=lease.call_id)
        became = store.leases.fail(_make_failing(store, lease, missing))
        status, reason = "accepted", _GIVEN_UP[became]
        if became == "late":
            status, reason = became, _describe_status(store, lease, became)
    else:
        reply = _reply(store, place, lease, fields)
        if problem := _problem(store, place, lease, reply):
            status, reason = "accepted", _note_spoilt(store, place.redactor, lease, reply, problem)
        else:
            status = store.leases.answer(lease.id, reply, session)
            reason = _describe_status(store, lease, status)
    place.work_folders.remove([lease.id])
    return Receipt(work_id=lease.id, status=status, reason=reason)


def _make_failing(store: Store, lease: Lease, missing: Reply) -> Failing:
    return Failing(lease.id, missing, _MOST_FAILURES[lease.role], store.leases.now())


def _problem(store: Store, place: Place, lease: Lease, reply: Reply) -> str:
    """Why the answer to a question cannot be used; "" where it can."""
    schema = None if lease.role == "target" else place.work_folders.read(lease.id, SCHEMA)
    model = {schema_text(each): each for each in SCHEMAS.values()}.get(schema or "")
    if model is None:
        return ""
    parsed = parse_reply(reply.text, model)
    if isinstance(parsed, str):
        return parsed
    proposals = parsed.proposals() if isinstance(parsed, PatchReply) else ()
    if not proposals or (isinstance(parsed, AwareReply) and parsed.notes):
        return ""
    # All questions of a proposal are about the version that it began on.
    run = store.runs.get_run(lease.scope)
    files = store.skills.get_files(run.skill_id, run.base_version)
    edits = tuple(Edit(each.op, each.target, each.content, each.path) for each in proposals[:PATCH_EDITS])
    reports = apply_patch(files, Patch(edits)).reports
    if any(report.status == "applied" for report in reports):
        return ""
    details = "; ".join(f"edits.{each.index} ({each.op}): {each.detail}" for each in reports[:3])
    return f"no edit applies to the skill: {details}"


def _note_spoilt(store: Store, redactor: Redactor, lease: Lease, reply: Reply, problem: str) -> str:
    """The notice that a question is missing now, as its replies could not be used.

    Raises BadInput while tries are left. The same reply twice, as after a lost connection, is one try.
    """
    note_id = f"w-{hashlib.sha256(f'{lease.id} {reply.text}'.encode()).hexdigest()[:32]}"
    said = redactor.text(storable(problem))[:1000]
    missing = Reply(f"no reply of the host could be used: {said}", fault="malformed", id=lease.call_id)
    failing = _make_failing(store, lease, missing)
    if not store.leases.note_unusable(failing, note_id):
        raise BadInput(
            f"the reply cannot be used ({said}): give one JSON object that is valid under the schema in WORK.md"
        )
    return f"it is missing now, after {failing.most} replies that could not be used ({shorten(said, 200)})"


def _reply(store: Store, place: Place, lease: Lease, fields: Mapping[object, object]) -> Reply:
    """Return the reply to store: what was given, or else left in the folder of the work, without secrets."""
    found = store.tasks.list_by_id([lease.task_id]) if lease.task_id is not None else []
    task = found[0] if found else None
    text = _text(place, lease, fields.get("reply"))
    messages = (*_tool_calls(place, lease, fields.get("tool_calls")), *_score(place, lease, task, fields))
    size = len(text) + sum(len(message.content) for message in messages)
    if size > limits.TRAJECTORY_CHARACTERS:
        raise BadInput(f"the reply has {size:,} characters, {limits.TRAJECTORY_CHARACTERS:,} are allowed: shorten it")
    reply = Reply(text, tuple(messages), id=lease.call_id)
    return redact_reply(place.redactor, reply, task)


def _text(place: Place, lease: Lease, given: object) -> str:
    if isinstance(given, Mapping):
        given = _to_json(given)
    if given is not None and not isinstance(given, str):
        raise BadInput("reply must be a text or a JSON object")
    text = given if given is not None else place.work_folders.read(lease.id, ANSWER)
    if text is None:
        raise BadInput(f"the work has no reply: write '{ANSWER}' in its folder, or give `reply`")
    if not text.strip():
        raise BadInput("the reply is empty: give the answer, or say why there is none as failed")
    return storable(text)


def _tool_calls(place: Place, lease: Lease, given: object) -> list[Message]:
    """Return the calls of tools that a host says it made, from the reply or the file next to the answer.

    None at all is something that it says, too; where neither is there, it says nothing.
    """
    if lease.task_id is None:
        return []
    if given is None:
        text = place.work_folders.read(lease.id, TOOL_CALLS)
        if text is None:
            return []
        given = [_from_json(TOOL_CALLS, line) for line in text.splitlines() if line.strip()]
    if not isinstance(given, list) or len(given) > _MAX_TOOL_CALLS:
        raise BadInput(f"tool_calls must be a list of at most {_MAX_TOOL_CALLS:,} objects {{name, arguments}}")
    calls = []
    for value in given:
        name = value.get("name") if isinstance(value, Mapping) else None
        if not isinstance(value, Mapping) or not isinstance(name, str) or not name:
            raise BadInput("each of tool_calls must be an object {name, arguments}")
        if len(name) > limits.NAME_CHARACTERS:
            raise BadInput(f"the name of a tool has more than {limits.NAME_CHARACTERS} characters: give its name alone")
        arguments = value.get("arguments")
        written = _to_json(arguments if isinstance(arguments, Mapping) else {})
        calls.append(Message(TOOL_CALL, storable(written), place.redactor.text(storable(name))))
    return calls or [NO_TOOL_CALL]


def _score(place: Place, lease: Lease, task: Task | None, fields: Mapping[object, object]) -> list[Message]:
    """What a host thinks of its own attempt, where the task's judge asks it. Raises BadInput elsewhere."""
    is_asked = task is not None and any(isinstance(leaf, ByHost) for leaf in leaves(task.judge))
    given = fields.get("score")
    if not is_asked:
        if given is not None:
            raise BadInput("a score is taken from a host only where the task's judge is of kind host: leave it out")
        return []
    if given is None:
        given = _from_json(SCORE, place.work_folders.read(lease.id, SCORE) or "null")
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise BadInput(f"the judge of this task asks for your own score: give a number from 0 to 1 in '{SCORE}'")
    return [host_evaluation(given)]


def _from_json(name: str, text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput(f"{quoted(text, 60)} in '{name}' is not JSON: correct it") from None
    return value


def _to_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        raise BadInput("a value is nested too deep, or has too many digits: simplify it") from None
