"""Texts: which two a promotion test compares, and whether it can: of a candidate, of files, of git, of a live edit."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from skillopt_mcp.core.candidates import ON_TOP, Candidate, NewCandidate, candidate_id, edited_on_top
from skillopt_mcp.core.errors import BadInput, NotFound, Refused
from skillopt_mcp.core.redacting import KnownSecrets
from skillopt_mcp.core.results import Replayed
from skillopt_mcp.core.skills import Skill, SkillFile, SkillFiles, is_memory, short
from skillopt_mcp.core.text import quoted
from skillopt_mcp.gates.guard.capabilities import findings
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.promotion_test import is_front_matter_alone
from skillopt_mcp.workspace.evidence import is_pasted
from skillopt_mcp.workspace.linting import run_git
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.runs import describe_own_backend
from skillopt_mcp.workspace.skill_folders import id_meant, is_version, known, quote_handle, read_skill
from skillopt_mcp.workspace.skills import check_merged, describe_endings


def candidate_named(store: Store, place: Place, name: str) -> Candidate:
    """A candidate by its id; of a skill's name, the edit that a person made to its file. Raises NotFound."""
    name = known(name)
    if store.skills.find_paths(name) or Path(name).exists() or not id_meant(name):
        return edited_candidate(store, place, name)
    return store.candidates.get_candidate(name)


def edited_candidate(store: Store, place: Place, name: str) -> Candidate:
    """Return a person's edit of a skill's file: the live version against the one that was tested or promoted last.

    Before any test that is the first version known. An edit that is tested already stays what it is. Raises BadInput
    where nothing was edited.
    """
    skill = place.skill(name)
    changes = [(each.created_at, each.to_version) for each in store.promotions.list_promotions(skill.id)]
    edited = None
    for test in store.tests.list_of_skill(skill.id):
        if not test.is_open:
            continue
        made = store.candidates.get_candidate(candidate_id(skill.id, test.base_version, test.version_id))
        version = test.version_id if made.origin == "person" else test.base_version
        if store.skills.get_version(skill.id, version).origin == "recorded":  # others were named, and never live
            changes.append((test.created_at, version))
            edited = made if made.origin == "person" else edited
    base = max(changes)[1] if changes else store.skills.list_recorded(skill.id)[0].id
    if base == skill.live_version and edited and edited.version_id == base:
        return edited
    if base == skill.live_version:
        if not any(store.tasks.count_tasks(skill.id).values()):
            shown = quote_handle(store, skill)
            raise BadInput(f"{quoted(skill.name)} has no tasks: skillopt-mcp tasks add {shown} FILE")
        raise BadInput(
            f"'{skill.name}' is unchanged since version {short(base)}: edit its file, or name the other text: "
            "--against HEAD (or another old text), or --file NEW.md"
        )
    live = store.skills.get_files(skill.id, skill.live_version)
    return store_text(store, place.secrets, skill, base, live, "an edit of the file")


def candidate_of_files(
    store: Store, place: Place, name: str, new: Path | None, against: str | Path | None = None
) -> Candidate:
    """A candidate with the text of a file or a skill folder (None: the live one), against the live version or a text.

    `against` names that: a file or folder, a version of the store, or a git revision of the skill's folder.
    """
    skill = place.skill(name)
    live = store.skills.get_files(skill.id, skill.live_version)
    base = live
    if against is not None:
        base = _text_named(store, skill, str(against), live)
        store.skills.add_version(skill.id, base)
    why = f"the text of {new.name}" if new else f"an edit of {against}"
    files = _read_text(new, base) if new else live
    if files == base:
        raise BadInput("both texts are the same: there is nothing to test")
    return store_text(store, place.secrets, skill, base.digest, files, why)


def _text_named(store: Store, skill: Skill, name: str, live: SkillFiles) -> SkillFiles:
    if Path(name).expanduser().exists():
        return _read_text(Path(name).expanduser(), live)
    if is_version(name):
        with suppress(NotFound):
            return store.skills.get_files(skill.id, store.skills.get_version(skill.id, name).id)
    folder = Path(skill.path)
    at = folder.parent if is_memory(skill.path) else folder
    missing = (
        f"{quoted(name)} names no file, no version of '{skill.name}', and no git revision of {quoted(str(at), 300)}"
    )
    with TemporaryDirectory() as temporary:
        top = Path(temporary).resolve() / at.name
        try:
            commit = run_git(at, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
            # `git archive` would run the filters that a repository names, and change or leave out files. In a folder,
            # git lists what is below it alone, by the paths from there. Links come last: none is written through.
            listed = run_git(at, "ls-tree", "-r", "-z", commit.stdout.decode().strip() or "-", ".")
            for row in sorted(row for row in listed.stdout.split(b"\0")[:-1] if b" blob " in row):
                mode, _, blob, inner = re.split(rb"[ \t]", row, maxsplit=3)
                path = top / os.fsdecode(inner)
                if not path.is_relative_to(top) or path.parent.resolve() != path.parent:
                    raise ValueError(f"{quoted(str(path), 80)} is outside of it")
                content = run_git(at, "cat-file", "blob", blob.decode())
                content.check_returncode()
                path.parent.mkdir(parents=True, exist_ok=True)
                if mode == b"120000":
                    path.symlink_to(os.fsdecode(content.stdout))
                else:
                    path.write_bytes(content.stdout)
                    path.chmod(int(mode[-3:], 8))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise BadInput(f"{missing}: git did not answer ({error})") from None
        if commit.returncode or not listed.stdout:
            raise BadInput(f"{missing}: 'skillopt-mcp show {skill.name}' lists the versions that were live")
        return read_skill(top / folder.name if is_memory(skill.path) else top)


def _read_text(path: Path, live: SkillFiles) -> SkillFiles:
    """Return the files of a skill folder, or those that are live with this text as their main document."""
    if path.is_dir():
        return read_skill(path)
    try:
        return live.replaced(SkillFile(live.main_path, path.expanduser().read_bytes()))
    except OSError as error:
        raise BadInput(f"'{path}' cannot be read: {error.strerror}") from None


def store_text(store: Store, secrets: KnownSecrets, skill: Skill, base: str, files: SkillFiles, why: str) -> Candidate:
    """Return a person's text as a candidate."""
    before = store.skills.get_files(skill.id, base)
    new = Candidate(
        id=candidate_id(skill.id, base, files.digest),
        skill_id=skill.id,
        base_version=base,
        version_id=files.digest,
        origin="person",
        reasoning=why,
        findings=findings(before, files, secrets),
    )
    return store.candidates.add_candidate(NewCandidate(new, files))


def check_testable(store: Store, models: Models, place: Place, candidate: Candidate) -> None:
    """Raise Refused when a candidate is live, or when the live file is not the one that it was made from.

    Two texts that a person names may be tested whatever is live.
    """
    versions = candidate.base_version, candidate.version_id
    old, new = (store.skills.get_files(candidate.skill_id, each) for each in versions)
    check_texts(models, old, new, f"candidate '{candidate.id}'")
    skill = place.again(store.skills.get_skill(candidate.skill_id))
    if candidate.origin == "person":
        return
    if skill.live_version == candidate.version_id:
        raise Refused(f"candidate '{candidate.id}' is what is live already: there is nothing to test")
    if edited_on_top(store.promotions.list_promotions(skill.id), candidate.version_id, skill.live_version):
        raise Refused(f"candidate '{candidate.id}' is not to be tested. {ON_TOP}")
    if skill.live_version != candidate.base_version:
        if made_by_run := describe_step_of_run(store, candidate):
            raise Refused(made_by_run)
        endings = describe_endings(
            *(store.skills.get_files(skill.id, each) for each in (candidate.base_version, skill.live_version))
        )
        raise Refused(
            f"the live file of '{skill.name}' is version {short(skill.live_version)}, the candidate was made from "
            f"{short(candidate.base_version)}: propose the edits again, or run: skillopt-mcp evaluate "
            f"{candidate.id} --rebase{endings and f'. {endings}'}"
        )


def check_texts(models: Models, old: SkillFiles, new: SkillFiles, name: str) -> None:
    """Raise Refused where git could not merge a text, or the target is not shown what the new one changes."""
    for files in (old, new):
        check_merged(files)
    is_shown_less = models.has_backend("target") and is_pasted(models.backend("target").fingerprint)
    if is_shown_less and is_front_matter_alone(old, new):
        raise Refused(
            f"{name} changes the front matter alone, which '{models.backend('target').name}' is not shown: test it "
            "with --target claude-code or codex, which load the skill themselves"
        )


def describe_step_of_run(store: Store, candidate: Candidate) -> str:
    """Return that a candidate builds on earlier steps of its run, and what of that is tested; "" where it does not."""
    if candidate.origin != "step" or candidate.run_id is None:
        return ""
    run = store.runs.get_run(candidate.run_id)
    if candidate.base_version in (run.base_version, run.memory and run.memory.version):
        return ""
    numbers = [step.n for step in store.runs.list_steps(run.id) if step.candidate_id == candidate.id]
    made_in = f"step {numbers[0]}" if numbers else "a step"
    if run.result:
        result = Replayed.model_validate_json(run.result)
        outcome = result if candidate.skill_id == run.skill_id else result.memory
        made = outcome and outcome.candidate_id
        way_on = (
            f"what they came to together is the run's own candidate: skillopt-mcp evaluate {made}" if made
            else "no version of the run was better than the one that it began with, and it has no candidate"
        )  # fmt: skip
    elif own := describe_own_backend(run):
        way_on = f"what they came to together is tested when the run finishes; {own}"
    else:
        way_on = f"test what they came to together: skillopt-mcp evaluate {run.id}"
    return f"candidate '{candidate.id}' is {made_in} of run {run.id}, made on top of its earlier steps: {way_on}"
