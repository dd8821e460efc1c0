"""Nights: `replay --nightly`, and the line of a person's crontab that runs it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel

from skillopt_mcp.actions.nightly import Night, plan_night, run_night
from skillopt_mcp.cli.command import OPTIMIZER, Arg, Flag, WrongUsage
from skillopt_mcp.cli.spending import Sending, asks_real_models, require_backends
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.budgets import LOGIN_CAPS, NO_CAPS
from skillopt_mcp.core.errors import BadInput

_AT = "17 3 * * *"
_MAX_LINE = 990  # some cron cut at 1,000 characters
_HOSTS = ("claude", "codex", "node")


@dataclass(kw_only=True)
class Nightly(Sending):
    """What the command has besides that can work at night."""

    skill: Annotated[str, Arg("a skill's name, or the path of its folder; with --resume also a run, r-...")] = ""
    nightly: Annotated[
        bool, Flag("for SKILL, else each skill: an edit from what was recorded, and its test; nothing is promoted")
    ] = False
    install: Annotated[bool, Flag("with --nightly: show the line of your crontab that does it, and write it")] = False
    uninstall: Annotated[bool, Flag("with --nightly: take that line out again")] = False
    optimizer: Annotated[str | None, Flag(f"writes the edits, for instance {OPTIMIZER}", "BACKEND:MODEL")] = None
    set: Annotated[tuple[str, ...], Flag("a setting, for instance train.batch_size=20", "KEY=VALUE")] = ()
    given: dict[str, object] = field(default_factory=dict)


class Scheduled(BaseModel):
    """A change of a crontab."""

    status: Literal["installed", "uninstalled", "unchanged"]
    line: str


def run_nightly(command: Nightly, terminal: Terminal) -> Night | Scheduled:
    """Do tonight's work, or change the crontab. Raises WrongUsage, Refused, BadInput, Busy."""
    strange = [name for name in ("env", "config", "prompts", "out", "memory", "resume") if getattr(command, name)]
    strange += ["set"] * bool(command.set) + [name for name in command.given if name != "preferences"]
    if strange or (command.install and command.uninstall):
        raise WrongUsage(f"--nightly does not go with --{(strange or ['uninstall'])[0].replace('_', '-')}")
    terminal.require_person("replay --nightly")
    if command.uninstall:
        with terminal.workspace() as workspace:
            skill = workspace.place.find_kept(command.skill).path if command.skill else "all"
        return _change_crontab(terminal, skill, "")
    require_backends(target=command.target, optimizer=command.optimizer)
    caps = LOGIN_CAPS if command.caps == NO_CAPS else command.caps
    with terminal.workspace(
        target=command.target, optimizer=command.optimizer, judge=command.judge, caps=caps,
        concurrency=command.concurrency,
    ) as workspace:  # fmt: skip
        store, models, place = workspace.store, workspace.models, workspace.place
        command.name_models(terminal, models)
        skills = [place.find_kept(command.skill)] if command.skill else store.skills.list_listed()
        limit = f"At most {caps.options.replace('--max-', '')} a night"
        if command.install:
            for role in ("target", "optimizer"):
                models.backend(role)  # raises for one that no night could use
            terminal.note(f"{limit}; nothing is promoted.")
            skill = skills[0].path if command.skill else "all"
            line = _write_line(command, terminal, skill, caps.options)
            if place.redactor.text(line) != line:
                raise BadInput("the line would hold a secret: put it where the backend reads it, and name no key here")
            return _change_crontab(terminal, skill, line)
        if command.dry_run:
            return plan_night(store, skills)
        terminal.note(f"{limit}; nothing is promoted.")
        if asks_real_models(models, ["target", "optimizer"]):
            terminal.ask("Spend up to that much?", yes=command.yes, declined="Nothing was spent.")
        return run_night(store, models, place, skills, str(command.given.get("preferences", "")))


def show_night(result: Night | Scheduled, terminal: Terminal) -> None:
    """Print what a night did, skill by skill, or what became of the crontab."""
    if isinstance(result, Scheduled):
        terminal.say(
            f"{result.status.capitalize()}." if result.status != "unchanged" else "The crontab has it so already."
        )
        return
    for row in result.skills:
        did = ", ".join("an edit was proposed" if each == "propose_edits" else "tested" for each in row.done)
        verdict = {None: "", True: ": accepted", False: ": not accepted"}[row.accepted]
        why = f"; {row.reason.rstrip('.')}" if row.reason else ""
        terminal.say(f"{row.skill}: {did or 'nothing was done'}{verdict}{why}.")
        if row.next_step:
            terminal.say(f"    {row.next_step.as_line(terminal.store)}")
    if not result.skills:
        terminal.say("No skill is tracked.")


def _mark(terminal: Terminal, skill: str) -> str:
    """What ends the line of this skill and this store, and no other; in a crontab % is a new line, even in quotes."""
    store = str(terminal.store_path.absolute())
    return f"# skillopt-mcp nightly {shlex.quote(skill)} {shlex.quote(store)}".replace("%", r"\%")


def _write_line(command: Nightly, terminal: Terminal, skill: str, caps: str) -> str:
    """The line of a crontab, without any variable of this shell but the folders of the programs that it needs."""
    found = [os.path.dirname(path) for name in _HOSTS if (path := shutil.which(name))]
    path = ":".join(dict.fromkeys([*found, "/usr/local/bin", "/usr/bin", "/bin"]))
    script = shutil.which("skillopt-mcp", path=os.path.dirname(sys.executable)) or os.path.abspath(sys.argv[0])
    named = asdict(command)
    options = [word for name in ("target", "optimizer", "judge", "concurrency") if named[name]
               for word in (f"--{name}", str(named[name]))]  # fmt: skip
    if wanted := str(command.given.get("preferences", "")):
        options += ["--preferences", wanted]
    store = terminal.store_path.absolute()
    whose = [skill] if command.skill else []
    words = ["env", f"PATH={path}", script, "replay", *whose, "--nightly", *options, *caps.split(), "--yes"]
    words, log = [*words, "--store", str(store)], shlex.quote(str(store.parent / "nightly.log"))
    line = f"{_AT} {shlex.join(words)} >> {log} 2>&1".replace("%", r"\%") + f" {_mark(terminal, skill)}"
    if not line.isprintable() or len(line) > _MAX_LINE:
        raise BadInput(f"a crontab cannot hold this line, which has over {_MAX_LINE} or strange characters: {line}")
    return line


def _change_crontab(terminal: Terminal, skill: str, line: str) -> Scheduled:
    """Put a line into the person's crontab in the place of the one that has its mark, or take that out ("").

    Raises Refused where no person can agree, BadInput without a crontab, or where it cannot be read; then it stays.
    """
    terminal.require_consent(
        "replay --nightly --install" if line else "replay --nightly --uninstall", is_standing=bool(line)
    )
    mark = _mark(terminal, skill)
    if shutil.which("crontab") is None:
        what = f"have your scheduler run this line:\n{line}" if line else f"take out the line that ends in:\n{mark}"
        raise BadInput(f"there is no program 'crontab' here: {what}")

    def run(*arguments: str, given: bytes = b"") -> tuple[int, bytes, str]:
        environ = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(
            ["crontab", *arguments], input=given, env=environ, capture_output=True, timeout=60, check=False
        )
        return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace").strip()[:300]

    code, listed, error = run("-l")
    if code and "no crontab" not in error:
        raise BadInput(f"the crontab cannot be read ({error}): nothing was changed")
    # What others wrote stays byte for byte.
    before = [] if code else listed.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
    others = [each for each in before if not each.endswith(mark)]
    after = [*others, *([line] if line else [])]
    if sorted(after) == sorted(before):
        return Scheduled(status="unchanged", line=line)
    with terminal.review():
        for each in set(before) - set(after):
            terminal.say(f"- {each}")
        if line:
            terminal.say(f"+ {line}")
        terminal.ask("Change your crontab so?", yes=False)
    code, _, error = run("-", given="".join(f"{each}\n" for each in after).encode("utf-8", "surrogateescape"))
    if code:
        raise BadInput(f"the crontab was not changed ({error})")
    return Scheduled(status="installed" if line else "uninstalled", line=line)
