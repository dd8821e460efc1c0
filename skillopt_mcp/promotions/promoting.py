"""Promoting: the only two operations that write a user's file, and both can be undone."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard
from unicodedata import east_asian_width

from pydantic import BaseModel, ConfigDict, JsonValue

from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.candidates import bring_back, mean_scores, means_of, repeated, told_repeated, was_live
from skillopt_mcp.documents.diffs import changed_lines, unified_diff
from skillopt_mcp.documents.lint import introduced
from skillopt_mcp.documents.text import counted, escaped, quoted
from skillopt_mcp.errors import BadInput, BadSkill, Busy, NotFound, Refused, Stale
from skillopt_mcp.evidence import is_host_run
from skillopt_mcp.gates.recompute import ConfirmInputs
from skillopt_mcp.judges.judging import is_form_alone
from skillopt_mcp.live_files import check_replaceable, replace_files
from skillopt_mcp.next_step import promotion
from skillopt_mcp.promotion_tests import is_simulated
from skillopt_mcp.promotions.consent import (
    UNPROVEN,
    Change,
    Consent,
    Lacking,
    Ready,
    Standing,
    answer,
    guarded,
    minded,
    signature,
    stale,
    with_consent,
)
from skillopt_mcp.records.candidates import (
    Approval,
    Candidate,
    Decision,
    Promotion,
    candidate_id,
    edited_on_top,
    rolled_back,
)
from skillopt_mcp.records.next_step import NextStep
from skillopt_mcp.records.results import Promoted
from skillopt_mcp.records.skills import Skill, SkillFiles, short
from skillopt_mcp.skill_folders import files_folder, handle, known, lock_name, settle, take_back, version_named
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.confirmation import GATE, answers_alike, begun_anew, drawn_pairs
from skillopt_mcp.workspace import Workspace, shortened

VERSIONS_SHOWN = 8
_LONGEST_BYTES = 600


def promote_skill(workspace: Workspace, candidate_id: str, consent: Consent) -> Promoted:
    """Write an accepted candidate over the live skill, if nothing changed there since and somebody agreed.

    Calls no model. Every status but `promoted` leaves the file untouched; `reason` and `next_step` say why.
    """
    return _done(workspace, check_promotion(workspace, candidate_id, consent))


def rollback_skill(
    workspace: Workspace, skill: str, version: str | None, consent: Consent, seen: str | None = None
) -> Promoted:
    """Write an earlier version over the live skill: the one before the last change, or the one that is named.

    Refused as stale when the live file is not what the last promotion or rollback left: a person's edit is kept, unless
    a person agreed to lose exactly that one (`over_edit`, and the version that they have `seen`); it is
    a version of the store by then. Raises Refused for a version that was never live: those are candidates.
    """
    return _done(workspace, check_rollback(workspace, skill, version, consent, seen))


def check_promotion(workspace: Workspace, candidate_id: str, consent: Consent) -> Standing:
    """Return whether a promotion may happen, lacks a person, or what it answers instead; nothing is written."""
    store = workspace.store
    candidate = guarded(workspace, store.candidates.get_candidate(known(candidate_id)))
    skill = workspace.again(workspace.store.skills.get_skill(candidate.skill_id))
    decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
    test = store.decisions.find_confirmation(decision.scope) if decision else None
    unproven = consent.unproven and decision is not None and decision.verdict == "undecided"
    verdict = UNPROVEN if unproven else decision.verdict if decision else "none"
    name = handle(store, skill)
    change = Change(skill, name, "promote", candidate.base_version, candidate.version_id, candidate, verdict, test)
    if skill.live_version == candidate.version_id:
        return answer(workspace, change, "refused", "the candidate is what is live already")
    if skill.live_version != candidate.base_version:
        return stale(workspace, change)
    if test is None or decision is None:
        why = "it was not evaluated against the live version"
        return answer(workspace, change, "refused", why, _evaluation(candidate.id, "not tested yet"))
    return _against(workspace, change, decision) or with_consent(workspace, change, consent)


def _against(workspace: Workspace, change: Change, decision: Decision) -> Promoted | None:
    """Return what the evidence has against a promotion, None when it allows it."""
    if decision.verdict == "reject":
        return answer(workspace, change, "refused", decision.reason, _other_edits(change, "it brings no useful gain"))
    if change.verdict not in ("accept", UNPROVEN):
        more = _evaluation(candidate_id(change.skill.id, change.from_version, change.to_version), "undecided so far")
        return answer(workspace, change, "undecided", decision.reason, more)
    tested = set(change.test.tasks if change.test else ())
    if is_form_alone([task for task in workspace.store.tasks.list_tasks(change.skill.id) if task.id in tested]):
        why = "its test judged the form of answers alone (length, heading)"
        tasks = NextStep(
            action="add_tasks",
            arguments={"skill": change.handle},
            why="a judge of the content has to score held-out tasks",
        )
        return answer(workspace, change, "refused", why, tasks)
    return None


def _evaluation(candidate_id: str, why: str) -> NextStep:
    return NextStep(action="evaluate_candidate", arguments={"candidate_id": candidate_id}, why=why)


def _other_edits(change: Change, why: str) -> NextStep:
    return NextStep(action="propose_edits", arguments={"skill": change.handle}, why=why)


def check_rollback(
    workspace: Workspace, skill: str, version: str | None, consent: Consent, seen: str | None = None
) -> Standing:
    """Return whether a rollback may happen, lacks a person, or what it answers instead; nothing is written.

    It is stale when what is live is not the version that was `seen`, where one was. Raises BadInput, NotFound and
    Refused as `rollback_target` does.
    """
    tracked = workspace.recorded(skill)
    target = rollback_target(workspace, tracked, version)
    name = handle(workspace.store, tracked)
    change = Change(tracked, name, "rollback", tracked.live_version, target)
    if target == tracked.live_version:
        return answer(workspace, change, "refused", f"version {short(target)} is live already")
    edited, over_edit = is_edited(workspace, tracked), consent.over_edit and seen is not None
    # Where nothing was ever promoted, every version is somebody's work: a person alone goes back to one.
    all_theirs = consent.is_of_a_tool and not workspace.store.promotions.list_promotions(tracked.id)
    if all_theirs:
        why = "nothing was ever promoted here: every version is somebody's own work"
        return answer(workspace, change, "stale", why, change.step("rolls back all the same"))
    if (edited and not over_edit) or seen not in (None, tracked.live_version):
        return stale(workspace, change)
    return with_consent(workspace, change, consent)


def is_edited(workspace: Workspace, skill: Skill) -> bool:
    """Return whether somebody has edited the files since the last promotion or rollback."""
    last = next(iter(workspace.store.promotions.list_promotions(skill.id)), None)
    return last is not None and last.to_version != skill.live_version


def rollback_target(workspace: Workspace, skill: Skill, version: str | None) -> str:
    """Return the version that a rollback leads to: the one named, or the one that the live version was promoted over.

    Raises BadInput when there is none, NotFound, and Refused when the one named was never live.
    """
    store = workspace.store
    changes = store.promotions.list_promotions(skill.id)
    if not version:
        edited = [change for change in changes[:1] if change.to_version != skill.live_version]
        promoted = [each for each in changes if each.kind == "promote" and each.to_version == skill.live_version]
        for change in [*edited, *promoted]:
            return change.from_version
        raise BadInput(
            f"what is live of '{skill.name}' was never promoted: there is nothing to roll back; or name a version"
        )
    named = version_named(known(version))
    try:
        found = store.skills.get_version(skill.id, named[1] if named else known(version))
    except NotFound as error:
        was = ", ".join(short(each) for each in store.skills.list_live(skill.id, VERSIONS_SHOWN))
        raise NotFound(f"{error}; it was live as, the newest first: {was}") from error
    was_live = {id for each in changes for id in (each.from_version, each.to_version)}
    if found.origin != "recorded" and found.id not in was_live:
        instead = _instead(store, skill, found.id)
        raise Refused(f"version '{short(found.id)}' of '{skill.name}' was never live: {instead}")
    return found.id


def _instead(store: Store, skill: Skill, version: str) -> str:
    """Return what to do with a version that was never live here."""
    if any(each.version_id == version for each in store.candidates.list_candidates(skill.id)):
        return "promote its candidate instead"
    shown = shlex.quote(f"{handle(store, skill)}@{short(version)}")
    return (
        "it is no candidate either. To have it back, take its files from "
        f"your version control, or write them out, look at them and put them in place: skillopt-mcp show {shown} --out "
        "FOLDER"
    )


def _done(workspace: Workspace, standing: Standing) -> Promoted:
    if isinstance(standing, Ready):
        return _write(workspace, standing)
    return standing.answer if isinstance(standing, Lacking) else standing


def _write(workspace: Workspace, ready: Ready) -> Promoted:
    store, change, skill = workspace.store, ready.change, ready.change.skill
    lock = lock_run(store.locks_path, lock_name(skill.id))
    if lock is None:
        raise Busy(f"another process is changing '{skill.name}' right now: look at its history and try again")
    try:
        settle(store, skill.id)
        before = workspace.live(skill)
        if before.digest != change.from_version:
            return stale(workspace, change)
        after = store.skills.get_files(skill.id, change.to_version)
        # Nobody's approval is used up by a change that cannot be made.
        check_replaceable(files_folder(Path(skill.path)), before, after)
        journal = _begun(workspace, change, ready.consent)
        if not isinstance(journal, Promotion):
            return journal
        try:
            replace_files(files_folder(Path(skill.path)), before, after)
            _check_written(workspace.live(skill), before, after)
        except BaseException:
            take_back(store, journal)
            raise
        store.promotions.finish(journal)
    except Stale:
        return stale(workspace, change)
    finally:
        lock.release()
        workspace.forget(skill)
    return _answer_done(workspace, change, before)


def _check_written(live: SkillFiles, before: SkillFiles, after: SkillFiles) -> None:
    """Raise Refused when what was written is not what is read: then nothing that is live is the version promoted."""
    paths = [file.path for file in (*before.files, *after.files) if before.get(file.path) != after.get(file.path)]
    other = next((path for path in paths if live.get(path) != after.get(path)), None)
    if other:
        raise Refused(
            f"{quoted(other)} does not read as it was written: somebody changed it meanwhile, or its disk keeps other "
            "names or run bits; what was written is taken back"
        )


def _begun(workspace: Workspace, change: Change, consent: Consent) -> Promotion | Promoted:
    """Return the journal row of a change, or what it answers instead: whoever agreed may have thought better of it.

    Nothing but agreement is looked at again here, under the skill's lock.
    """
    while isinstance(standing := with_consent(workspace, change, consent), Ready):
        given = standing.consent
        journal = workspace.store.promotions.begin(
            Promotion(0, change.skill.id, change.kind, change.candidate_id, change.from_version, change.to_version,
                      "pending", change.verdict, given.agreed_by, given.agreed_on, standing.login),
            standing.approval_id, standing.permission,
        )  # fmt: skip
        if journal is not None:
            return journal
    return standing.answer if isinstance(standing, Lacking) else standing


def _answer_done(workspace: Workspace, change: Change, before: SkillFiles) -> Promoted:
    done = answer(workspace, change, "promoted" if change.candidate else "rolled_back", before=before)
    # Without a version a rollback leads from a promoted version to the one before: of a rollback, that is further back.
    arguments = {"skill": change.handle, **({} if change.candidate else {"version": short(before.digest)})}
    return done.model_copy(update={"undo": NextStep(action="rollback_skill", arguments=arguments, why="takes it back")})


def next_step(workspace: Workspace, candidate: Candidate, consent: Consent) -> NextStep | None:
    """Return what to do with a candidate now, by a caller who can agree as `consent` says; None: nothing."""
    store = workspace.store
    try:
        skill = workspace.again(store.skills.get_skill(candidate.skill_id))
    except BadSkill as error:
        path = store.skills.get_skill(candidate.skill_id).path
        return NextStep(action="check", arguments={"folder": path}, why=shortened(str(error), _LONGEST_BYTES))
    if skill.live_version == candidate.version_id:
        return None
    if step := bring_back(store, candidate):
        return step
    if was_live(store, candidate):
        return told_was_live(workspace, skill, candidate.version_id)
    decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
    if decision and decision.verdict == "reject":
        why = f"{candidate.id} brings no useful gain"
        return NextStep(action="propose_edits", arguments={"skill": handle(store, skill)}, why=why)
    if candidate.origin == "step":
        arguments = {"id": candidate.run_id or handle(store, skill)}
        return NextStep(action="inspect", arguments=arguments, why="it was one step of a run")
    standing = check_promotion(workspace, candidate.id, consent)
    if isinstance(standing, Ready):
        return promotion(candidate.id)
    step = (standing.answer if isinstance(standing, Lacking) else standing).next_step
    assert step is None or isinstance(step, NextStep)
    if candidate.findings and not decision and step:
        return step.model_copy(update={"why": f"{step.why}; the guard holds it: a person has to promote it"})
    return step


def told_was_live(workspace: Workspace, skill: Skill, version: str) -> NextStep | None:
    """Return how to have a version again that was live; None where it still is, edited."""
    if edited_on_top(workspace.store.promotions.list_promotions(skill.id), version, skill.live_version):
        return None
    arguments: dict[str, JsonValue] = {"skill": handle(workspace.store, skill), "version": short(version)}
    if is_edited(workspace, skill):
        why = "it was live; this brings it back over the edit made since"
        return NextStep.at_terminal("rollback_skill", {**arguments, "over_edit": True}, why)
    return NextStep(action="rollback_skill", arguments=arguments, why="it was live; this brings it back")


class Review(BaseModel):
    """A change under review: the whole diff (hidden characters shown), the verdict on it, and the guard's findings.

    `why` says what failed and `changes` what the edit changes.

    `evidence` is what the verdict rests on: how many pairs, on how many tasks, and the mean scores. `broken` is what
    the Agent Skills specification has against the new version, and had not against the old one; `over_edit` tells that
    somebody has edited the files since the last change, which a rollback would undo; `repeats` that it brings again
    what a person rolled back, and `alike` that its target answers alike each time; `handle` is the skill in commands.
    """

    model_config = ConfigDict(frozen=True)
    skill: str
    skill_path: str
    handle: str
    from_version: str
    to_version: str
    diff: str
    verdict: str | None = None
    reason: str = ""
    evidence: str = ""
    why: str = ""
    changes: str = ""
    findings: tuple[str, ...] = ()
    simulated: bool = False
    broken: tuple[str, ...] = ()
    over_edit: bool = False
    repeats: str = ""
    alike: bool = False


def review_candidate(workspace: Workspace, candidate_id: str) -> Review:
    """Return the review of a candidate. Raises NotFound."""
    store = workspace.store
    candidate = guarded(workspace, store.candidates.get_candidate(known(candidate_id)))
    skill = store.skills.get_skill(candidate.skill_id)
    decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
    test = store.decisions.find_confirmation(decision.scope) if decision else None
    base = store.skills.get_files(skill.id, candidate.base_version)
    new = store.skills.get_files(skill.id, candidate.version_id)
    return Review(
        skill=skill.name,
        skill_path=skill.path,
        handle=handle(store, skill),
        from_version=candidate.base_version,
        to_version=candidate.version_id,
        diff=unified_diff(base, new, skill.name),
        verdict=decision.verdict if decision else None,
        reason=decision.reason if decision else "",
        evidence=_evidence(store, decision, test) if decision and test else "",
        why=candidate.reasoning,
        changes=_changes(base, new),
        findings=candidate.findings,
        simulated=test is not None and is_simulated(test.backend),
        broken=introduced(base, new, skill.name),
        repeats=_told_again(store, candidate),
        alike=decision is not None and test is not None and _is_alike(store, decision, test),
    )


def _changes(base: SkillFiles, new: SkillFiles) -> str:
    """Return how many lines a change adds and removes, and in which files."""
    paths = [file.path for file in (*base.files, *new.files) if base.get(file.path) != new.get(file.path)]
    lines = [line for file in changed_lines(base, new) for line in file]
    n_added, n_removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return f"+{n_added} -{n_removed} lines in {', '.join(dict.fromkeys(paths))}"


def review_rollback(workspace: Workspace, skill: str, version: str | None = None) -> Review:
    """Return the review of a rollback to a version, or to the one before the last change. Raises NotFound, BadInput."""
    store = workspace.store
    tracked = workspace.recorded(skill)
    target = rollback_target(workspace, tracked, version)
    live = store.skills.get_files(tracked.id, tracked.live_version)
    old = store.skills.get_files(tracked.id, target)
    return Review(
        skill=tracked.name,
        skill_path=tracked.path,
        handle=handle(store, tracked),
        from_version=tracked.live_version,
        to_version=target,
        diff=unified_diff(live, old, tracked.name),
        over_edit=is_edited(workspace, tracked),
    )


def _told_again(store: Store, candidate: Candidate) -> str:
    """Return that a candidate, or an edit that it makes, was rolled back by a person; else ""."""
    if candidate.version_id in rolled_back(store.promotions.list_promotions(candidate.skill_id)):
        return "it was live, and a person rolled it back"
    return told_repeated(store, candidate)


def _evidence(store: Store, decision: Decision, test: ConfirmationRow) -> str:
    """Return what a verdict rests on, in words: the scores first, for a host may show no more of it."""
    n = ConfirmInputs.model_validate_json(decision.inputs).n_pairs
    means = mean_scores(store, decision, test)
    # Drawn with replacement: not every task of the test is among them.
    n_tasks = len({task_id for task_id, _ in drawn_pairs(test, store.decisions.list_pairs(test.id)[:n])})
    told = f"{counted(n, 'pair')} of attempts at {counted(n_tasks, 'held-out task')}"
    if means is None:
        return told
    redraws = str(begun_anew(store, test))
    was, now = means
    since = _since(store, decision, test, n)
    return f"mean score {was:.2f} before and {now:.2f} with this change, over {told}{since}{redraws and f'; {redraws}'}"


def _since(store: Store, decision: Decision, test: ConfirmationRow, n: int) -> str:
    """Return what pairs drawn after an undecided verdict make of it; a host's are told when its test pauses again."""
    pairs = store.decisions.list_pairs(test.id)
    if decision.verdict != "undecided" or len(pairs) <= n or is_host_run(test.backend):
        return ""
    was, now = means_of(pairs) or (0.0, 0.0)
    return f"; with the {counted(len(pairs) - n, 'pair')} that came since, {was:.2f} before and {now:.2f} with it"


def _is_alike(store: Store, decision: Decision, test: ConfirmationRow) -> bool:
    """Return whether a real target gave the same answers each time; of a simulation it is not asked."""
    n = ConfirmInputs.model_validate_json(decision.inputs).n_pairs
    return not is_simulated(test.backend) and answers_alike(test, store.decisions.list_pairs(test.id)[:n]) is not None


# Claude Code shows three rows of a question, and cuts each at its window's width; others show what their window holds,
# and cut the rest without a sign. So the first rows say all that matters, and a change that would overflow a common
# window has to be looked at in a terminal.
FIRST_ROWS, DIALOG_ROWS, COLUMNS = 3, 40, 72
_UNDONE = "a person rolled this back"


@dataclass(frozen=True, slots=True)
class Question:
    """What a host may ask a person, the change in full, and the approval that a yes to it is."""

    text: str
    approval: Approval


def question_of_promotion(workspace: Workspace, candidate_id: str, consent: Consent) -> Question | None:
    """Return what to ask about a promotion; None when nobody is to be asked, or not in a dialog."""
    standing = check_promotion(workspace, candidate_id, consent)
    if not _may_be_asked(standing):
        return None
    review, look = review_candidate(workspace, candidate_id), f"show {candidate_id}"
    return _question(workspace, standing.approval, review, look, _mind(workspace.store, candidate_id, review))


def question_of_rollback(workspace: Workspace, skill: str, version: str | None, consent: Consent) -> Question | None:
    """Return what to ask about a rollback; None when nobody is to be asked, or not in a dialog."""
    standing = check_rollback(workspace, skill, version, consent)
    if not _may_be_asked(standing):
        return None
    review = review_rollback(workspace, skill, version)
    look = f"diff {shlex.quote(review.handle)} {short(review.from_version)} {short(review.to_version)}"
    return _question(workspace, standing.approval, review, look)


def agree(workspace: Workspace, approval: Approval) -> int:
    """Keep a person's agreement to a change, for one promotion or rollback; return its id."""
    return workspace.store.approvals.add_approval(replace(approval, login=signature(workspace.login)))


def disagree(workspace: Workspace, approval: Approval, approval_id: int) -> None:
    """Take one agreement back, unless the change that it was given for was made."""
    workspace.store.approvals.drop(approval.skill_id, approval_id)


def _may_be_asked(standing: Standing) -> TypeGuard[Lacking]:
    return isinstance(standing, Lacking) and standing.answer.status == "needs_approval"


def _mind(store: Store, candidate_id: str, review: Review) -> list[str]:
    """Return what a person should see of a promotion before all."""
    candidate = store.candidates.get_candidate(candidate_id)
    if candidate.version_id in rolled_back(store.promotions.list_promotions(candidate.skill_id)):
        found = [_UNDONE]
    else:
        earlier = repeated(store, candidate)
        found = [f"repeats {earlier.earlier}, rolled back"] if earlier else []
    return [*found, *(["the target answers alike"] if review.alike else [])]


def _question(
    workspace: Workspace, approval: Approval, review: Review, look: str, mind: Sequence[str] = ()
) -> Question | None:
    """Return what to ask about a change, which the command `look` shows in full; None: a dialog cannot hold it."""
    what = "this" if review.verdict else "an earlier version"
    versions = f"{short(review.from_version)} -> {short(review.to_version)}"
    rows = [f"Write {what} over {quoted(review.skill_path, 300)}? ({versions})"]
    rest = ["", *review.diff.splitlines()]
    if review.verdict:
        told = f"{review.verdict.upper()}{' (SIMULATION)' if review.simulated else ''}"
        rows += [f"Verdict: {told}. Evidence: {review.evidence}."]
        rest += ["", f"The gate: {escaped(review.reason)}."]
    if review.repeats and _UNDONE not in mind:
        rest += [f"Mind that {review.repeats}."]
    seen_first = [*minded(workspace, approval), *mind]
    rows += [f"MIND: {'; '.join(seen_first)}"] if seen_first else []
    if review.simulated:
        rest += ["This rests on a SIMULATION, which says nothing about a real model."]
    rows += [*_first_of_the_change(workspace, approval, look, FIRST_ROWS - len(rows)), *rest]
    fits = sum(-(-_width(row) // COLUMNS) or 1 for row in rows) <= DIALOG_ROWS
    return Question("\n".join(rows), approval) if fits else None


def _first_of_the_change(workspace: Workspace, approval: Approval, look: str, room: int) -> list[str]:
    """Return the changed lines where the first rows hold them all, else how many there are and where to read them."""
    versions = (approval.from_version, approval.to_version)
    files = changed_lines(*(workspace.store.skills.get_files(approval.skill_id, version) for version in versions))
    lines = [line for changed in files for line in changed]
    if 0 < len(lines) <= room and all(_width(line) <= COLUMNS and "\n" not in line for line in lines):
        return lines
    change = f"change{'s' if len(lines) == 1 else ''} in {counted(len(files), 'file')}"
    told = [f"{counted(len(lines), 'line')} {change}. See all:", f"skillopt-mcp {look}"]
    return told if room >= len(told) else [" ".join(told)]


def _width(line: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in line)
