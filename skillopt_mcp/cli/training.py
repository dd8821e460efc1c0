"""Training: what the commands take that make evidence: skills, tasks, judges, and whatever asks models."""

from __future__ import annotations

import argparse

from skillopt_mcp.cli.declaring import (
    ALONE,
    OPTIMIZER,
    PROGRAM,
    TARGET,
    Command,
    agreement,
    backends,
    by_batch,
    caps,
    common,
    slots,
    yes,
)
from skillopt_mcp.cli.task_actions import task_actions

_REPLAY_CODES = """exit codes:
  0    the run has finished, whatever its verdict (or, with --dry-run, what it takes was told)
  1    it stopped at a cap or in an outage (--resume goes on, --conclude ends it), was not agreed to, or cannot be run
  2    wrong usage
  130  interrupted (--resume goes on, --conclude ends it)"""


def _serve(parser: argparse.ArgumentParser) -> None:
    backends(parser, "target", "optimizer", "judge")
    parser.add_argument(
        "--require-approval",
        action="store_true",
        help="every change of a live file needs a person, whatever was permitted",
    )
    parser.add_argument(
        "--lease-minutes", type=float, default=15.0, metavar="N",
        help="how long an agent of the host may take for a piece of work (default 15)",
    )  # fmt: skip
    caps(parser)
    http = parser.add_argument_group("streamable HTTP (instead of stdin and stdout; a bearer token is needed)")
    http.add_argument("--http", metavar="[ADDRESS:]PORT", help="listen there, at 127.0.0.1 unless told otherwise")
    for name, shown, text in (
        ("host", "NAME:PORT", "a Host header to let in beside loopback's"),
        ("origin", "URL", "an Origin header to let in"),
    ):
        http.add_argument(
            f"--allow-{name}", metavar=shown, action="append", default=[], help=f"{text} (may be repeated)"
        )


def _demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir", metavar="DIR", help="an empty or new folder to keep the demo in (else a temporary one)"
    )
    parser.add_argument("--seed", type=int, metavar="N", default=0, help="which simulated world (default 0)")
    parser.add_argument("--world", choices=("honest", "placebo"), default="honest", help="placebo: no edit ever helps")


def _replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL", help="a skill's name, or the path of its folder")
    backends(parser, "target", "optimizer", "judge")
    parser.add_argument(
        "--env", metavar="NAME[:OPTIONS]", help="an environment: its tasks are added, for instance qa:FOLDER"
    )
    parser.add_argument("--config", metavar="FILE", help="settings in TOML or YAML, SkillOpt's own files too")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="a setting, for instance train.batch_size=20"
    )
    parser.add_argument("--prompts", metavar="DIR", help="a folder of NAME.md in the place of the shipped prompts")
    parser.add_argument("--out", metavar="DIR", help="write the run there as files: best_skill.md, versions, history")
    from skillopt_mcp.cli.flags import add_settings  # noqa: PLC0415

    add_settings(parser)
    slots(parser)
    by_batch(parser)
    caps(parser)
    parser.add_argument("--memory", metavar="PATH", help="a CLAUDE.md or AGENTS.md that every attempt sees, too")
    parser.add_argument(
        "--document", choices=("skill", "memory", "both"), default="both", help="what to train of them (both, in turn)"
    )
    parser.add_argument(
        "--resume", action="store_true",
        help="go on with the newest unfinished run of the skill (or with run r-... as SKILL), under its caps but for "
        "those that are given anew",
    )  # fmt: skip
    parser.add_argument(
        "--conclude", action="store_true",
        help="end the search of that run after its last finished step, and finish it: its best version becomes the "
        "run's candidate, and the promotion test looks at it",
    )  # fmt: skip
    parser.add_argument(
        "--allow-changed", action="store_true",
        help="with --resume or --conclude: go on even where who answers has changed since (a new version of an agent, "
        "of an environment, of a script), with the run's versions measured anew",
    )  # fmt: skip
    parser.add_argument(
        "--abandon", action="store_true", help="cancel what that run has at a vendor's batch API, and ask nothing more"
    )
    parser.add_argument(
        "--policy", choices=("strict", "fresh", "paired_se", "no_regression", "confirm"),
        help="run nothing: say what this gate would have made of the newest run (or of run r-... as SKILL)",
    )  # fmt: skip
    agreement(parser)
    parser.epilog = f"{parser.epilog}\n\n{_REPLAY_CODES}"


def _evaluate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate", metavar="CANDIDATE", help="its id, c-...")
    backends(parser, "target", "judge")
    parser.add_argument(
        "--max-pairs", type=int, metavar="N", default=200, help="pause undecided after so many more pairs (default 200)"
    )
    parser.add_argument(
        "--no-worse", type=float, metavar="D",
        help="for a candidate that is 5 %% shorter or more: accept it when a loss above D (at most 0.1) is excluded",
    )  # fmt: skip
    parser.add_argument(
        "--claim", choices=("these", "like_these"),
        help="these (default): better on these held-out tasks; like_these: on tasks like them, each fresh test task "
        "drawn once",
    )  # fmt: skip
    parser.add_argument("--beside", metavar="PATH", help="a skill or memory file that every attempt sees, too")
    slots(parser)
    by_batch(parser)
    caps(parser)
    agreement(parser)


def _calibrate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL", help="a skill's name, or the path of its folder")
    backends(parser, "target", "judge")
    parser.add_argument("--pairs", type=int, metavar="N", default=40, help="pairs of rollouts (default 40)")
    parser.add_argument("--gain", type=float, metavar="G", help="say what this gain would take (else 0.08, 0.16, 0.3)")
    parser.add_argument(
        "--max-pairs", type=int, metavar="N", default=200, help="for a test that pauses after so many (default 200)"
    )
    caps(parser)
    agreement(parser)


def _race(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "candidates", metavar="CANDIDATE", nargs="+", help="candidates of one skill, c-...; or one skill, with controls"
    )
    backends(parser, "target", "optimizer", "judge")
    parser.add_argument(
        "--laps", type=int, metavar="N", default=60, help="shared draws of val tasks at most (default 60)"
    )
    parser.add_argument(
        "--control", action="append", choices=("none", "rewrite"), default=[],
        help="race beside them: no skill at all; or the skill rewritten once, from what was recorded and "
        "rolled out (may be repeated)",
    )  # fmt: skip
    caps(parser)
    agreement(parser)


def _credit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate", metavar="CANDIDATE", help="its id, c-...")
    backends(parser, "target", "judge")
    parser.add_argument("--pairs", type=int, metavar="N", default=60, help="pairs per edit at most (default 60)")
    parser.add_argument("--rescue", action="store_true", help="look for the good part of a rejected bundle instead")
    caps(parser)
    agreement(parser)


def _skills(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions (without one: list the skills)")
    parser.add_argument("--long", action="store_true", help="all that is known of each, however many there are")
    root = actions.add_parser("add-root", help="allow promotions into the skills of a folder")
    root.add_argument("name", metavar="PATH", help="the folder that holds the skill folders")
    track = actions.add_parser("track", help="begin to record what a skill is used for; its files stay as they are")
    track.add_argument(
        "name", metavar="SKILL", help="its folder, or its name where it lies in a skill folder of a host"
    )
    permit = actions.add_parser(
        "permit", help="let an agent promote small, clean, accepted edits of words (no code) without asking",
        description="Let an agent promote accepted candidates of a skill without asking: those in which the guard "
        "found nothing, and which change a few lines of words of the main file. An edit that touches code or a "
        "command (a block that is fenced or indented; in backticks more than a name) is asked about each time.",
    )  # fmt: skip
    permit.add_argument("name", metavar="SKILL")
    permit.add_argument("--simulated", action="store_true", help="evidence of a simulation is enough")
    permit.add_argument(
        "--host-run", action="store_true",
        help="so is what the host's own agents judged, or attempted in a session that had seen the tasks",
    )  # fmt: skip
    yes(permit)
    revoke = actions.add_parser("revoke", help="take that permission back")
    revoke.add_argument("name", metavar="SKILL")
    move = actions.add_parser("move", help="say that a skill's folder was renamed or moved: its history goes with it")
    move.add_argument("name", metavar="OLD", help="the skill's name, the path where it was, or a folder of skills")
    move.add_argument("to", metavar="NEW", help="the path where it is now, or its folder's new name")
    yes(move)
    forget = actions.add_parser("forget", help="list a skill no more whose folder is gone; nothing is deleted")
    forget.add_argument("name", metavar="SKILL")
    for action in (root, track, permit, revoke, move, forget):
        common(action)


def _judges(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions (without one: list the commands)")
    listing = actions.add_parser("list", help="show the programs that may judge")
    add = actions.add_parser(
        "add",
        help="register a program: exit code 0 passes an answer",
        usage=f"{PROGRAM} judges add [-h] [--time S] [--memory MB] [--reads PATH] [--require-sandbox] [--yes] NAME -- "
        "PROGRAM ARGS...",
    )
    add.add_argument("name", metavar="NAME", help="what tasks call it: a to z, digits, hyphens")
    add.add_argument("--time", type=float, metavar="S", help="seconds that one check may take (60)")
    add.add_argument("--memory", type=int, metavar="MB", help="memory that it may use (2048)")
    add.add_argument("--reads", action="append", default=[], metavar="PATH", help="a path that it may read too")
    add.add_argument("--require-sandbox", action="store_true", help="never run it where nothing can confine it")
    yes(add)
    remove = actions.add_parser("remove", help="forget a program: tasks that name it cannot be judged any more")
    remove.add_argument("name", metavar="NAME")
    yes(remove)
    for action in (listing, add, remove):
        common(action)


TRAINING: dict[str, Command] = {
    "demo": Command("train a skill in a simulated world, in a second", "demo --seed 7", _demo),
    "serve": Command("serve MCP over stdin and stdout, for an agent's host", f"serve --target {TARGET}", _serve),
    "skills": Command(
        "list the skills, and say where they are and which may be written",
        "skills add-root ~/work/skills",
        _skills,
        needs_store=frozenset({"", "move", "forget"}),
    ),
    "tasks": Command(
        "list, add, export or check the tasks of a skill",
        "tasks add my-skill tasks.jsonl",
        task_actions,
        needs_store=frozenset({"list", "export", "rotate", "retire"}),
    ),
    "judges": Command(
        "list and register the programs that may judge answers",
        "judges add unit-tests -- /usr/bin/python3 /home/me/check.py",
        _judges,
        takes_line=True,
        needs_store=frozenset({"", "list", "remove"}),
    ),
    "replay": Command(
        "train a skill offline on its stored tasks",
        f"replay my-skill --target {TARGET} --optimizer {OPTIMIZER}",
        _replay,
    ),
    "evaluate": Command(
        "test a candidate against the live version on held-out tasks",
        f"evaluate c-0123456789ab --target {TARGET}",
        _evaluate,
        needs_store=ALONE,
    ),
    "calibrate": Command(
        "measure what a promotion test of a skill can find, before paying for one",
        f"calibrate my-skill --target {TARGET}",
        _calibrate,
        needs_store=ALONE,
    ),
    "race": Command(
        "run candidates of one skill, and controls, on shared val tasks and drop the hopeless",
        f"race c-0123456789ab c-ba9876543210 --target {TARGET}",
        _race,
        needs_store=ALONE,
    ),
    "credit": Command(
        "tell which edits of a candidate carry its gain, and which do harm",
        f"credit c-0123456789ab --target {TARGET}",
        _credit,
        needs_store=ALONE,
    ),
}
