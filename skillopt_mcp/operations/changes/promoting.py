"""Promoting: the only two operations that write a user's file, and both can be undone."""

from __future__ import annotations

from pathlib import Path

from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BadInput, Busy, NotFound, Refused, Stale
from skillopt_mcp.folders import files_folder
from skillopt_mcp.judges.shapes import is_form_alone
from skillopt_mcp.livefiles import check_replaceable, replace_files
from skillopt_mcp.operations.candidates.succeeding import skill_of
from skillopt_mcp.operations.changes.consenting import BY_A_TOOL, Consent, Lacking, Ready, Standing, with_consent
from skillopt_mcp.operations.changes.guarding import guarded
from skillopt_mcp.operations.changes.live_changes import UNPROVEN, Change, Status, answer, stale
from skillopt_mcp.operations.finding import called
from skillopt_mcp.operations.names import known, version_named
from skillopt_mcp.operations.recovery import lock_name, settle, take_back
from skillopt_mcp.operations.results import Promoted
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.records.candidates import Decision, Promotion
from skillopt_mcp.records.skills import Skill, SkillFiles, short
from skillopt_mcp.store.opening import Store

VERSIONS_SHOWN = 8
NO_GAIN = "It brings no useful gain: propose other edits."


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
    a person agreed to lose exactly that one (`Consent.PERSON_OVER_EDIT`, and the version that they have `seen`); it is
    a version of the store by then. Raises Refused for a version that was never live: those are candidates.
    """
    return _done(workspace, check_rollback(workspace, skill, version, consent, seen))


def check_promotion(workspace: Workspace, candidate_id: str, consent: Consent) -> Standing:
    """Return whether a promotion may happen, lacks a person, or what it answers instead; nothing is written."""
    store = workspace.store
    candidate = guarded(workspace, store.candidates.get_candidate(known(candidate_id)))
    skill = skill_of(workspace, candidate)
    decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
    test = store.decisions.find_confirmation(decision.scope) if decision else None
    unproven = consent is Consent.PERSON_UNPROVEN and decision is not None and decision.verdict == "undecided"
    verdict = UNPROVEN if unproven else decision.verdict if decision else "none"
    change = Change(skill, "promote", candidate.base_version, candidate.version_id, candidate, verdict, test)
    if skill.live_version == candidate.version_id:
        return answer(workspace, change, "refused", "the candidate is what is live already", told_live(store, skill))
    if skill.live_version != candidate.base_version:
        return stale(workspace, change)
    if test is None or decision is None:
        why = "it was not evaluated against the live version"
        return answer(workspace, change, "refused", why, f"Call evaluate_candidate with candidate_id {candidate.id}.")
    return _against(workspace, change, decision) or with_consent(workspace, change, consent)


def _against(workspace: Workspace, change: Change, decision: Decision) -> Promoted | None:
    """Return what the evidence has against a promotion, None when it allows it."""
    if decision.verdict == "reject":
        return answer(workspace, change, "refused", decision.reason, NO_GAIN)
    if change.verdict not in ("accept", UNPROVEN):
        again = f"Call evaluate_candidate with candidate_id {change.candidate_id}."
        return answer(workspace, change, "undecided", decision.reason, again)
    tested = set(change.test.tasks if change.test else ())
    if is_form_alone([task for task in workspace.store.tasks.list_tasks(change.skill.id) if task.id in tested]):
        return answer(
            workspace, change, "refused", "its test judged the form of answers alone (length, heading)",
            "Add held-out tasks with a judge of what is said, and propose other edits.",
        )  # fmt: skip
    return None


def check_rollback(
    workspace: Workspace, skill: str, version: str | None, consent: Consent, seen: str | None = None
) -> Standing:
    """Return whether a rollback may happen, lacks a person, or what it answers instead; nothing is written.

    It is stale when what is live is not the version that was `seen`, where one was. Raises BadInput, NotFound and
    Refused as `rollback_target` does.
    """
    tracked = workspace.recorded(skill)
    target = rollback_target(workspace, tracked, version)
    change = Change(tracked, "rollback", tracked.live_version, target)
    if target == tracked.live_version:
        return answer(workspace, change, "refused", f"version {short(target)} is live already", "Nothing: it is live.")
    edited, over_edit = is_edited(workspace, tracked), consent is Consent.PERSON_OVER_EDIT and seen is not None
    # Where nothing was ever promoted, every version is somebody's work: a person alone goes back to one.
    all_theirs = consent in BY_A_TOOL and not workspace.store.promotions.list_promotions(tracked.id)
    if all_theirs:
        why = "nothing was ever promoted here: every version is somebody's own work"
        back = f"To go back all the same, a person types at a terminal: skillopt-mcp {change.command(workspace.store)}"
        return answer(workspace, change, "stale", why, back)
    if (edited and not over_edit) or seen not in (None, tracked.live_version):
        return stale(workspace, change)
    # Nobody agreed to more than was asked of them: where nothing was edited, no edit is lost.
    asked = Consent.PERSON if consent is Consent.PERSON_OVER_EDIT and not edited else consent
    return with_consent(workspace, change, asked)


def told_live(store: Store, skill: Skill) -> str:
    """Return that nothing is to be done with what is live, and how it is undone where it was promoted."""
    was_promoted = any(each.to_version == skill.live_version for each in store.promotions.list_promotions(skill.id))
    undo = f" To undo it: rollback_skill with skill {called(store, skill)}." if was_promoted else ""
    return f"Nothing: it is what is live.{undo}"


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
    """Return what to do with a version that was never live here, for another store's history may have brought it."""
    if any(each.version_id == version for each in store.candidates.list_candidates(skill.id)):
        return "promote its candidate instead"
    shown = f"{called(store, skill)}@{short(version)}"
    return (
        "it is no candidate either (an imported history brings such versions). To have it back, take its files from "
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
        journal = workspace.store.promotions.begin(
            Promotion(0, change.skill.id, change.kind, change.candidate_id, change.from_version, change.to_version,
                      "pending", change.verdict, standing.agreed, ""),
            standing.approval_id, standing.permission,
        )  # fmt: skip
        if journal is not None:
            return journal
    return standing.answer if isinstance(standing, Lacking) else standing


def _answer_done(workspace: Workspace, change: Change, before: SkillFiles) -> Promoted:
    # Without a version a rollback leads from a promoted version to the one before: of a rollback, that is further back.
    skill = called(workspace.store, change.skill)
    undo = f"skill {skill}" + (f" and version {short(before.digest)}" if change.kind == "rollback" else "")
    done: Status = "promoted" if change.kind == "promote" else "rolled_back"
    return answer(workspace, change, done, "", f"It is live. To undo it: rollback_skill with {undo}.", before)
