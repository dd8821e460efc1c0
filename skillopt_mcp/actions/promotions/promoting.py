"""Promoting and rolling back: the only operations that write a user's file, and both can be undone.

A change is checked (its base, its evidence, then who agrees), written under the skill's lock if the file is still the
one that was checked, read back, and recorded in a journal row that was begun before the write.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from skillopt_mcp.actions.next_steps import (
    advise_skill,
    advise_test,
    bring_back,
    find_apart,
    is_reason_to_promote,
    undo_edit,
    undo_worse,
    was_live,
)
from skillopt_mcp.actions.promotions.consent import (
    UNPROVEN,
    Check,
    LiveChange,
    NeedsPerson,
    Ready,
    answer,
    check_consent,
    stale,
)
from skillopt_mcp.core.advice import advise_promotion
from skillopt_mcp.core.candidates import GATE, Candidate, Consent, Promotion, edited_on_top
from skillopt_mcp.core.errors import BadInput, BadSkill, Busy, NotFound, Refused, Stale
from skillopt_mcp.core.evidence import TestReport, Verdict
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.redacting import KnownSecrets
from skillopt_mcp.core.results import Promoted
from skillopt_mcp.core.skills import Skill, short
from skillopt_mcp.core.text import quoted
from skillopt_mcp.documents.live_files import check_replaceable, replace_files
from skillopt_mcp.gates.guard.capabilities import secrets_added
from skillopt_mcp.gates.verdicts import LABELS
from skillopt_mcp.store.files import lock_run
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.skills import GATED
from skillopt_mcp.workspace.answers import shorten
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import (
    files_folder,
    handle,
    known,
    lock_name,
    read_skill,
    settle,
    take_back,
    version_named,
)

VERSIONS_SHOWN = 8
_WHY_BYTES = 600


def promote_skill(store: Store, place: Place, candidate_id: str, consent: Consent) -> Promoted:
    """Write an accepted candidate over the live skill, if nothing changed there since and somebody agreed.

    Calls no model. Every status but `promoted` leaves the file untouched; `reason` and `next_step` say why.
    """
    return _carry_out(store, place, check_promotion(store, place, candidate_id, consent))


def rollback_skill(
    store: Store, place: Place, skill: str, version: str | None, consent: Consent, seen: str | None = None
) -> Promoted:
    """Write an earlier version over the live skill: the text right before the live one, or the one that is named.

    Refused as stale when the live file is not what the last promotion or rollback left: a person's edit is kept, unless
    a person agreed to replace exactly that one (`over_edit`, and the version that they have `seen`); it is a version of
    the store by then. Raises Refused for a version that was never live: those are candidates.
    """
    return _carry_out(store, place, check_rollback(store, place, skill, version, consent, seen))


# Checking: nothing is written


def check_promotion(store: Store, place: Place, candidate_id: str, consent: Consent) -> Check:
    """Whether a promotion may happen, needs a person, or what it answers instead."""
    candidate = get_guarded(store, place.secrets, candidate_id)
    skill = place.again(store.skills.get_skill(candidate.skill_id))
    decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
    verdict = decision.verdict if decision else ""
    is_proven = is_reason_to_promote(store, candidate, verdict)
    apart = find_apart(store, candidate, place) if is_proven else None
    change = LiveChange(
        skill=skill,
        handle=handle(store, skill),
        kind="promote",
        from_version=candidate.base_version,
        to_version=candidate.version_id,
        candidate=candidate,
        verdict=UNPROVEN if consent.unproven and (apart or not is_proven) else verdict,
        test=store.tests.find(decision.scope) if decision else None,
    )
    if skill.live_version == candidate.version_id:
        return answer(store, change, "refused", "the candidate is what is live already")
    if skill.live_version != candidate.base_version:
        return stale(store, change)
    if apart and not consent.unproven:
        return answer(store, change, "refused", *apart)
    if is_proven or consent.unproven:
        return check_consent(store, place, change, consent)
    # Nothing is proven yet; an agent learns of a test that it did not accept, and nothing else.
    if not verdict:
        test = advise_test(store, candidate, "it was not tested yet")
        return answer(store, change, "refused", "it was not tested against the live version", test)
    if consent.is_of_a_tool:
        step = advise_skill(store, change.skill)
        return answer(store, change, "refused", "its promotion test did not accept it", step)
    why = f"no gain is proven: its promotion test says {LABELS[cast(Verdict, verdict)]}"
    return answer(store, change, "refused", why, change.step("adopts it all the same, on record", unproven=True))


def get_guarded(store: Store, secrets: KnownSecrets, candidate_id: str) -> Candidate:
    """Return a candidate; secrets that only became known since it was made are among its findings. Raises NotFound."""
    candidate = store.candidates.get_candidate(known(candidate_id))
    get_files = store.skills.get_files
    base, new = (get_files(candidate.skill_id, each) for each in (candidate.base_version, candidate.version_id))
    late = [each for each in secrets_added(base, new, secrets) if each not in candidate.findings]
    return replace(candidate, findings=(*candidate.findings, *late))


def check_rollback(
    store: Store, place: Place, skill: str, version: str | None, consent: Consent, seen: str | None = None
) -> Check:
    """Whether a rollback may happen, needs a person, or what it answers instead.

    It is stale when what is live is not the version that was `seen`, where one was. Raises BadInput, NotFound and
    Refused as `rollback_target` does.
    """
    tracked = place.find_recorded(skill)
    target = rollback_target(store, tracked, version)
    change = LiveChange(tracked, handle(store, tracked), "rollback", tracked.live_version, target)
    if target == tracked.live_version:
        return answer(store, change, "refused", f"version {short(target)} is live already")
    if consent.is_of_a_tool and not store.promotions.list_promotions(tracked.id):
        why = "nothing was ever promoted here: every version is a person's own work"
        return answer(store, change, "stale", why, change.step("rolls back all the same"))
    may_replace_edit = consent.over_edit and seen is not None
    if (is_edited(store, tracked) and not may_replace_edit) or seen not in (None, tracked.live_version):
        return stale(store, change)
    return check_consent(store, place, change, consent)


def is_edited(store: Store, skill: Skill) -> bool:
    """Whether the files were edited since the last promotion or rollback."""
    last = next(iter(store.promotions.list_promotions(skill.id)), None)
    return last is not None and last.to_version != skill.live_version


def rollback_target(store: Store, skill: Skill, version: str | None) -> str:
    """The version that a rollback leads to: the one named, or the text right before the live one.

    Raises BadInput when there is none, NotFound, and Refused when the one named was never live.
    """
    changes = store.promotions.list_promotions(skill.id)
    if not version:
        for before in [*_list_texts(store, skill)[-2:-1], *_bases_of_edit(store, skill)]:
            return before
        raise BadInput(f"no text of '{skill.name}' before the live one is known; name the version to roll back to")
    named = version_named(known(version))
    try:
        found = store.skills.get_version(skill.id, named[1] if named else known(version))
    except NotFound as error:
        was = ", ".join(short(each) for each in store.skills.list_live(skill.id, VERSIONS_SHOWN))
        raise NotFound(f"{error}; it was live as, the newest first: {was}") from error
    was_live = {id for each in changes for id in (each.from_version, each.to_version)}
    if found.origin == "recorded" or found.id in was_live or found.id in _bases_of_edit(store, skill):
        return found.id
    shown = shlex.quote(f"{handle(store, skill)}@{short(found.id)}")
    instead = f"take its files from your version control, or from skillopt-mcp show {shown} --out FOLDER"
    if any(each.version_id == found.id for each in store.candidates.list_candidates(skill.id)):
        instead = "promote its candidate instead"
    raise Refused(f"version '{short(found.id)}' of '{skill.name}' was never live: {instead}")


def _list_texts(store: Store, skill: Skill) -> list[str]:
    """The texts that were live in turn, by promotions and edits, up to the live one: a rollback took those after it."""
    edits = [
        (each.created_at, "edit", each.parent_id or each.id, each.id) for each in store.skills.list_recorded(skill.id)
    ]
    changes = [
        (each.created_at, each.kind, each.from_version, each.to_version)
        for each in store.promotions.list_promotions(skill.id)
    ]
    texts = list[str]()
    for _, kind, before, after in [*sorted([*edits, *changes]), ("", "edit", "", skill.live_version)]:
        if before and texts[-1:] != [before]:
            texts.append(before)
        if kind == "rollback" and after in texts:
            del texts[len(texts) - texts[::-1].index(after) :]
        elif texts[-1] != after:
            texts.append(after)
    return texts


def _bases_of_edit(store: Store, skill: Skill) -> list[str]:
    """The texts that the live one was compared with as a person's edit of them, the newest first."""
    made = store.candidates.list_candidates(skill.id)[::-1]
    return [each.base_version for each in made if each.origin == "person" and each.version_id == skill.live_version]


# Writing


def _carry_out(store: Store, place: Place, check: Check) -> Promoted:
    if isinstance(check, Ready):
        return _write(store, place, check)
    return check.answer if isinstance(check, NeedsPerson) else check


def _write(store: Store, place: Place, ready: Ready) -> Promoted:
    change, skill = ready.change, ready.change.skill
    lock = lock_run(store.locks_path, lock_name(skill.id))
    if lock is None:
        raise Busy(f"another process is changing '{skill.name}'; see its history, then try again")
    folder = files_folder(Path(skill.path))
    try:
        # Compare: the file is what was checked, or nothing is written.
        settle(store, skill.id)
        before = read_skill(Path(skill.path))
        if before.digest != change.from_version:
            return stale(store, change)
        after = store.skills.get_files(skill.id, change.to_version)
        # No approval is used up by a change that cannot be made.
        check_replaceable(folder, before, after)
        # Record, then swap: what ends in between is finished or taken back from the journal.
        journal = _begin(store, place, change, ready.consent)
        if not isinstance(journal, Promotion):
            return journal
        try:
            replace_files(folder, before, after)
            # What is read is the version promoted, or nothing is.
            live, paths = read_skill(Path(skill.path)), [file.path for file in (*before.files, *after.files)]
            changed = [path for path in paths if before.get(path) != after.get(path)]
            if other := next((path for path in changed if live.get(path) != after.get(path)), None):
                raise Refused(
                    f"{quoted(other)} does not read as it was written (it was edited meanwhile, or its disk keeps "
                    "other names or run bits); what was written is taken back"
                )
        except BaseException:
            take_back(store, journal)
            raise
        store.promotions.finish(journal)
    except Stale:
        return stale(store, change)
    finally:
        lock.release()
        place.forget(skill)
    done = answer(store, change, "promoted" if change.candidate else "rolled_back")
    # Without a version a rollback leads from a promoted version to the one before: of a rollback, that is further back.
    arguments = {"skill": change.handle, **({} if change.candidate else {"version": short(before.digest)})}
    return done.model_copy(update={"undo": NextStep(action="rollback_skill", arguments=arguments, why="takes it back")})


def _begin(store: Store, place: Place, change: LiveChange, consent: Consent) -> Promotion | Promoted:
    """Return the journal row of a change, or what it answers instead: an agreement may have been taken back meanwhile.

    Only agreement is checked again here, under the skill's lock.
    """
    while isinstance(check := check_consent(store, place, change, consent), Ready):
        given, candidate_id = check.consent, change.candidate.id if change.candidate else None
        journal = store.promotions.begin(
            Promotion(0, change.skill.id, change.kind, candidate_id, change.from_version, change.to_version,
                      "pending", change.verdict, given.agreed_by, given.agreed_on, check.login),
            check.approval_id, check.permission,
        )  # fmt: skip
        if journal is not None:
            return journal
    return check.answer if isinstance(check, NeedsPerson) else check


# What to do next


def next_step(store: Store, place: Place, candidate: Candidate, consent: Consent) -> NextStep | None:
    """What to do with a candidate now, by a caller who can agree as `consent` says; None: nothing."""
    try:
        skill = place.again(store.skills.get_skill(candidate.skill_id))
    except BadSkill as error:
        found = store.skills.get_skill(candidate.skill_id)
        if found.path.startswith(GATED):
            return advise_skill(store, found)
        return NextStep(action="check", arguments={"folder": found.path}, why=shorten(str(error), _WHY_BYTES))
    decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
    undo = undo_worse(store, place, candidate, decision.verdict if decision else None)
    if skill.live_version == candidate.version_id:
        return undo
    if not undo and (step := bring_back(store, candidate)):
        return step
    if not undo and was_live(store, candidate):
        return restore_version(store, skill, candidate.version_id)
    if decision and not is_reason_to_promote(store, candidate, decision.verdict):
        return advise_skill(store, skill)
    if candidate.origin == "step":
        id = candidate.run_id or handle(store, skill)
        return NextStep(action="inspect", arguments={"id": id}, why="it was one step of a run")
    check = check_promotion(store, place, candidate.id, consent)
    if isinstance(check, Ready):
        return advise_promotion(candidate.id)
    step = (check.answer if isinstance(check, NeedsPerson) else check).next_step
    if candidate.findings and not decision and step:
        return replace(step, why=f"{step.why}; the guard holds it: a person has to promote it")
    return step


def choose_unproven(store: Store, candidate: Candidate, report: TestReport) -> NextStep | None:
    """What else a person may do where a test proved nothing: adopt the text, or take back one that is live."""
    if report.verdict not in ("cant_tell", "not_better", "better_here") or report.void:
        return None
    live = store.skills.get_skill(candidate.skill_id).live_version
    if live == candidate.version_id:
        return undo_edit(store, candidate, "takes your edit back")
    if live != candidate.base_version or bring_back(store, candidate) or was_live(store, candidate):
        return None
    arguments: dict[str, JsonValue] = {"candidate_id": candidate.id, "unproven": True}
    return NextStep.at_terminal("promote_skill", arguments, "nothing is proven, and the record says so")


def restore_version(store: Store, skill: Skill, version: str) -> NextStep | None:
    """How to have a version again that was live; None where it is in the live file, edited."""
    if edited_on_top(store.promotions.list_promotions(skill.id), version, skill.live_version):
        return None
    arguments: dict[str, JsonValue] = {"skill": handle(store, skill), "version": short(version)}
    if is_edited(store, skill):
        why = "it was live; this brings it back over the edit made since"
        return NextStep.at_terminal("rollback_skill", {**arguments, "over_edit": True}, why)
    return NextStep(action="rollback_skill", arguments=arguments, why="it was live; this brings it back")
