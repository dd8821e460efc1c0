"""Keeping: what the commands take that change live files, look at what is there, connect hosts and keep the store."""

from __future__ import annotations

import argparse

from skillopt_mcp.cli.declaring import ALONE, Command, backends, simulated, yes

HOSTS = ("claude-code", "claude-desktop", "codex", "cursor", "vscode")


def _show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="c-... | t-... | r-... | trajectory:N | SKILL | SKILL@VERSION")
    parser.add_argument(
        "--out", metavar="DIR", help="write a run (best_skill.md, versions, history, steps) or a version as files"
    )


def _check(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "paths", metavar="PATH", nargs="*", default=[],
        help="a skill's folder or a file in it, a folder of skills, a memory file, or the name of a known skill",
    )  # fmt: skip
    which.add_argument("--changed", metavar="BASE", help="the skills that changed, by git, since the branch left BASE")
    parser.add_argument("--strict", action="store_true", help="advice counts, too: exit with 1 for it")


def _rebase(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate", metavar="CANDIDATE", help="the one that is stale")


def _guide(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("page", metavar="PAGE", nargs="?", help="which page (else all are listed)")


def _runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL", nargs="?", help="only this skill's")
    parser.add_argument("--all", action="store_true", help="every run, not the newest 20 alone (--json has every one)")


def _diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL")
    parser.add_argument("old", metavar="OLD", nargs="?", help="a version (else the one before the last change)")
    parser.add_argument("new", metavar="NEW", nargs="?", help="a version (else what is live)")


def _history(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL")


def _promote(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate", metavar="CANDIDATE", help="its id, c-...")
    yes(parser)
    simulated(parser)
    parser.add_argument(
        "--unproven", action="store_true", help="adopt an undecided candidate; it stays labelled unproven"
    )


def _approve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate", metavar="CANDIDATE", help="its id, c-...")
    simulated(parser)
    parser.add_argument("--withdraw", action="store_true", help="take an unused approval back")


def _rollback(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL")
    parser.add_argument("version", metavar="VERSION", nargs="?", help="a version (else the one before the last change)")
    parser.add_argument(
        "--over-edit", action="store_true", help="go back though somebody has edited the files since; the edit is kept"
    )
    yes(parser)


def _doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend", metavar="BACKEND:MODEL", action="append", default=[],
        help="ask this backend one short call (may be repeated)",
    )  # fmt: skip


def _harvest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", help="transcripts, or folders of them (else all that the hosts keep)"
    )
    parser.add_argument("--dry-run", action="store_true", help="count them, and record nothing")


def _capture(parser: argparse.ArgumentParser) -> None:
    """Declare nothing: the event comes on standard input."""


def _install(parser: argparse.ArgumentParser) -> None:
    _placed(parser, does="add")
    backends(parser, "target", "optimizer", "judge")


def _uninstall(parser: argparse.ArgumentParser) -> None:
    _placed(parser, does="remove")


def _placed(parser: argparse.ArgumentParser, *, does: str) -> None:
    parser.add_argument("host", choices=HOSTS, metavar="HOST", help=" | ".join(HOSTS))
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--user", action="store_true", help="for all your projects (the default)")
    scope.add_argument("--project", action="store_true", help="for the project in the current folder")
    parser.add_argument(
        "--hooks", action="store_true", help=f"{does} the hooks that record sessions by themselves, too"
    )
    parser.add_argument(
        "--skill",
        action="store_true",
        help=f"{does} the skill that teaches an agent the loop, too, and in Claude Code what its work may do unasked",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the change, and change nothing")
    yes(parser)


def _verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--holds", metavar="HASH", help="the chain of events had this hash once: see that it still has")


def _backup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file that is not there yet")
    parser.add_argument("--unsound", action="store_true", help="write it though the check finds faults in the store")


def _restore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a backup; end all that has the store open first (hosts, replays)")
    parser.add_argument("--unsound", action="store_true", help="put it in place though the check finds faults in it")
    yes(parser)


def _erase(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", metavar="WHAT", nargs="+", help="trajectory:N (several, if you like); or a SKILL, with one of these:"
    )
    parser.add_argument("--session", metavar="ID", help="the skill's attempts of this session of a host")
    parser.add_argument("--before", metavar="DATE", help="those recorded before a day (2026-08-01, UTC), or 90d ago")
    parser.add_argument(
        "--containing", metavar="TEXT",
        help="those that hold this text ('-': it is read from standard input, so that no history of a shell keeps it)",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="all attempts of the skill")
    parser.add_argument("--dry-run", action="store_true", help="show what would go and what would stay, and stop")
    yes(parser)


def _export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL")
    parser.add_argument("file", metavar="FILE", help="a file that is not there yet")


def _import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what 'export' wrote")
    parser.add_argument("--skill", metavar="SKILL", help="the skill that takes it in (else the one of its name)")
    parser.add_argument("--keep-mine", action="store_true", help="leave out what contradicts what is here")
    parser.add_argument("--other-skill", action="store_true", help="take in the history of another skill than that")


KEEPING: dict[str, Command] = {
    "promote": Command(
        "write an accepted candidate over the live skill", "promote c-0123456789ab", _promote, needs_store=ALONE
    ),
    "approve": Command(
        "let an agent promote one candidate, after a look at it", "approve c-0123456789ab", _approve, needs_store=ALONE
    ),
    "rollback": Command("restore an earlier version of a skill", "rollback my-skill", _rollback, needs_store=ALONE),
    "check": Command("check skills by the Agent Skills specification", "check .claude/skills", _check),
    "rebase": Command(
        "make a candidate again on top of an edit that somebody made meanwhile",
        "rebase c-0123456789ab",
        _rebase,
        needs_store=ALONE,
    ),
    "runs": Command("list the runs of a skill, or of all", "runs my-skill", _runs, needs_store=ALONE),
    "show": Command(
        "show a candidate, promotion test, run, trajectory, version or skill",
        "show c-0123456789ab",
        _show,
        needs_store=ALONE,
    ),
    "diff": Command("show what differs between two versions of a skill", "diff my-skill", _diff, needs_store=ALONE),
    "history": Command("show the promotions and rollbacks of a skill", "history my-skill", _history, needs_store=ALONE),
    "install": Command(
        "add the server to a host, and what records and teaches beside it",
        "install claude-code --hooks --skill",
        _install,
    ),
    "uninstall": Command("take out of a host what install put there", "uninstall claude-code --hooks", _uninstall),
    "harvest": Command("record attempts out of past sessions of Claude Code and Codex", "harvest --dry-run", _harvest),
    "capture": Command("record a session, as a host's hook tells of it", "capture < event.json", _capture),
    "verify": Command(
        "check that the store holds what was written, and recompute its verdicts", "verify", _verify, needs_store=ALONE
    ),
    "backup": Command(
        "write the store to a file while it is in use, and check that",
        "backup store-copy.db",
        _backup,
        needs_store=ALONE,
    ),
    "restore": Command(
        "put a backup in the place of the store, which is kept beside it", "restore store-copy.db", _restore
    ),
    "erase": Command(
        "take recorded attempts out of the store for good", "erase trajectory:7 --dry-run", _erase, needs_store=ALONE
    ),
    "export": Command(
        "write a skill's whole history to a file", "export my-skill my-skill.history", _export, needs_store=ALONE
    ),
    "import": Command("take in a skill's history from another store", "import my-skill.history", _import),
    "doctor": Command("check the installation, the store, the skill folders and backends", "doctor", _doctor),
    "guide": Command("read the guide: how things work, a page a subject", "guide evidence", _guide),
}
