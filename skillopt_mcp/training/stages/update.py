"""Update: the current version and what was selected become a candidate: by edits, or by a rewrite of the whole text."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt_mcp.core.calls import Ask, Call
from skillopt_mcp.core.edits import Applied, Edit, EditReport, Patch
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.replies import RewriteReply
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.documents.edits import apply_patch, notes_in, rewritten, with_notes
from skillopt_mcp.prompts.rendering import FORMS, Brief, ask_parsed

REWRITTEN = "the whole text was rewritten"
NOTED = "written into the appendix"
NOTED_BEFORE = "the appendix says as much already, or is full of later notes"


@dataclass(frozen=True, slots=True)
class Update:
    """The candidate with a report per edit of `patch` (a rewrite is one edit), and what could not be used."""

    applied: Applied
    patch: Patch
    unusable: tuple[str, ...] = ()


def update(ask: Ask, files: SkillFiles, patch: Patch, brief: Brief) -> Update:
    """Return the candidate's files with a report per edit; they equal `files` when nothing applied."""
    if brief.mode == "patch":
        return Update(apply_patch(files, patch, budget=brief.budget), patch)
    if not patch.edits:
        return Update(Applied(files, ()), patch)
    if brief.mode == "full_rewrite_minibatch":
        return _replaced(files, patch.edits[0], patch.reasoning)
    form = FORMS["full_rewrite_minibatch"]
    refs = tuple(dict.fromkeys(source for edit in patch.edits for source in edit.sources))
    instructions = brief.instructions("rewrite", "rewrite_rules")
    question = brief.question(files, instructions, brief.form.render(patch.edits), "rewrite", refs)
    call = Call("optimizer", "rewrite", question, brief.draw)
    [parsed] = ask_parsed(ask, [call], RewriteReply, lambda _, reply: form.problem(files, reply))
    if parsed.value is None or not parsed.value.skill.strip():
        problem = parsed.problem or "the new text is empty"
        return Update(Applied(files, ()), Patch((), patch.reasoning), (f"rewrite: {problem}",))
    from_failure = any(edit.from_failure for edit in patch.edits)
    edit = Edit("replace", None, parsed.value.skill, sources=refs, from_failure=from_failure, cited=refs)
    return _replaced(files, edit, parsed.value.reasoning or patch.reasoning)


def annotate(made: Update, notes: tuple[Edit, ...], most: int) -> Update:
    """Return the update with notes in the appendix of its candidate, at most `most` there, the latest ones.

    A note that says what another one says counts once.
    """
    if not notes:
        return made
    applied, patch, reports = made.applied, made.patch, list(made.applied.reports)
    try:
        after = with_notes(applied.files, [note.content or "" for note in notes], most)
    except BadInput as error:
        return Update(applied, patch, (*made.unusable, f"appendix: {error}"))
    fresh = set(notes_in(after)) - set(notes_in(applied.files))
    for n, note in enumerate(notes, len(reports)):
        if note.content in fresh:
            fresh.remove(note.content)
            reports.append(EditReport(n, note.op, note.path, "applied", detail=NOTED))
        else:
            reports.append(EditReport(n, note.op, note.path, "unmatched", "no_change", NOTED_BEFORE))
    return Update(Applied(after, tuple(reports)), Patch((*patch.edits, *notes), patch.reasoning), made.unusable)


def _replaced(files: SkillFiles, edit: Edit, reasoning: str) -> Update:
    after = rewritten(files, edit.content or "")
    if isinstance(after, str):
        return Update(Applied(files, ()), Patch((), reasoning), (f"rewrite: {after}",))
    report = EditReport(0, edit.op, edit.path, "applied", detail=REWRITTEN)
    return Update(Applied(after, (report,)), Patch((edit,), reasoning))
