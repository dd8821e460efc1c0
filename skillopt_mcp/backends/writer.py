"""Writer: what the simulated optimizer makes of a patch in the other forms of reply, and its notes."""

from __future__ import annotations

from skillopt_mcp.backends.reader import DROPPED, Row, attempts_in, number_of, parts, rejected_in, rows_of, texts_of
from skillopt_mcp.backends.world import taught_by
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.records.edits import Edit, Patch
from skillopt_mcp.records.replies import (
    AwarePatchReply,
    AwareRewriteReply,
    AwareSuggestReply,
    ClassReply,
    EditReply,
    MergeRewritesReply,
    MergeSuggestionsReply,
    MetaSkillReply,
    PatchReply,
    ProposalReply,
    RewriteReply,
    SuggestionReply,
    SuggestReply,
)
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles

_MOST_NOTES = 10
_AWARE: dict[str, type[AwarePatchReply | AwareSuggestReply | AwareRewriteReply]] = {
    "patch": AwarePatchReply, "suggest": AwareSuggestReply, "rewrite": AwareRewriteReply,
}  # fmt: skip


def formed(skill: str, patch: PatchReply, schema: str) -> ProposalReply:
    """Return a patch in the form that was asked for: as it is, as suggestions, or as the whole new text."""
    if schema == "suggest":
        return SuggestReply(reasoning=patch.reasoning, suggestions=[_suggestion(edit) for edit in patch.edits])
    if schema == "rewrite":
        return RewriteReply(reasoning=patch.reasoning, skill=_changed(skill, patch.edits) if patch.edits else "")
    return patch


def with_notes(evidence: str, patch: PatchReply, schema: str) -> ProposalReply:
    """Return a patch in its form with a class per failure: a lapse where the skill teaches all that was needed."""
    skill, _, body = parts(evidence)
    taught, attempts = taught_by(skill), attempts_in(body)
    lapsed = [failed and bool(topics) and topics <= taught for failed, topics in attempts]
    classified = [
        ClassReply(trajectory=n, kind="lapse" if lapse else "defect")
        for n, ((failed, _), lapse) in enumerate(zip(attempts, lapsed, strict=True), start=1)
        if failed
    ]
    topics = sorted({name for (_, needed), lapse in zip(attempts, lapsed, strict=True) if lapse for name in needed})
    notes = [f"Before answering, go through the rule on {name} once more." for name in topics]
    values = formed(skill, patch, schema).model_dump()
    return _AWARE[schema].model_validate(values | {"classified": classified, "notes": notes})


def worked_in(row: Row) -> EditReply:
    """Return the edit that does what a suggestion says."""
    instruction = str(row["instruction"])
    if instruction.startswith(DROPPED):
        return EditReply(op="delete", target=f"- {instruction.removeprefix(DROPPED)}\n")
    return EditReply(op="append", content=f"- {instruction}")


def merged_suggestions(body: str) -> MergeSuggestionsReply:
    """Return the suggestions without doubles, those from failures first."""
    merged: dict[str, list[int]] = {}
    for row in sorted(rows_of(body), key=lambda row: row.get("from") != "failures"):
        merged.setdefault(str(row["instruction"]), []).append(number_of(row))
    return MergeSuggestionsReply(
        reasoning="(simulated) Equal suggestions were put together.",
        suggestions=[SuggestionReply(instruction=instruction) for instruction in merged],
        merged_from=[sorted(numbers) for numbers in merged.values()],
    )


def merged_rewrites(skill: str, body: str) -> MergeRewritesReply:
    """Return the skill with every line that a text added, and without those that one took away."""
    old, texts = skill.splitlines(), texts_of(body)
    added = dict.fromkeys(line for text in texts.values() for line in text.splitlines() if line and line not in old)
    gone = [
        line for line in dict.fromkeys(old) if line and any(line not in text.splitlines() for text in texts.values())
    ]
    edits = [EditReply(op="delete", target=f"{line}\n") for line in gone]
    edits += [EditReply(op="append", content=line) for line in added]
    return MergeRewritesReply(
        reasoning="(simulated) All lessons were put together.", skill=_changed(skill, edits), merged_from=sorted(texts)
    )


def meta_notes(evidence: str) -> MetaSkillReply:
    """Return notes that name what was rejected, this epoch's before those so far."""
    _, told, _ = parts(evidence)
    so_far = [line for line in told.splitlines() if line.startswith("- Rejected: ")]
    lines = [f"- Rejected: {' '.join(text.removeprefix('- ').split())}" for text in rejected_in(told)]
    notes = list(dict.fromkeys([*lines, *so_far]))[:_MOST_NOTES]
    return MetaSkillReply(reasoning="(simulated) What was tried in vain.", notes="\n".join(notes))


def _suggestion(edit: EditReply) -> SuggestionReply:
    if edit.op == "delete":
        return SuggestionReply(instruction=DROPPED + (edit.target or "").strip().removeprefix("- "))
    return SuggestionReply(instruction=(edit.content or "").strip().removeprefix("- "))


def _changed(skill: str, edits: list[EditReply]) -> str:
    """Return the skill's text after the edits, as far as they apply."""
    files = SkillFiles((SkillFile(MAIN_FILE, skill.encode("utf-8", "replace")),))
    patch = Patch(tuple(Edit(edit.op, edit.target, edit.content) for edit in edits))
    return apply_patch(files, patch).files.main.decode()
