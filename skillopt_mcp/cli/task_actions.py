"""Task actions: what the command that lists, adds, checks and retires tasks takes."""

from __future__ import annotations

import argparse

from skillopt_mcp.cli.declaring import common, yes

_ROWS = """a row of FILE (it needs prompt and judge, or question and answers; the columns of a CSV have these names):
  {"id": "q1", "prompt": "What is 2 + 5?", "judge": {"kind": "exact", "expected": "7"}, "split": "val"}

judge kinds ('skillopt-mcp guide tasks' has more of each):
  exact, contains, regex, numeric, choice, f1, anls, json, table, tool_called, command, rubric, length, heading,
  environment, host, all, weighted

Rows without a split join the one that is furthest below its share: 1:1:1, or what --split-mode ratio says."""


def task_actions(parser: argparse.ArgumentParser) -> None:
    """Declare what 'tasks' takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    for name, aliases, text, file in (
        ("list", (), "show the tasks of a skill", None),
        (
            "add",
            ("import",),
            "add tasks, or questions with answers, from a file",
            "JSON list, JSON lines or CSV of {prompt, judge, ...} or {question, answers, ...}; - reads standard input",
        ),
        ("export", (), "write the tasks as JSON lines", "where to write (else the terminal)"),
        ("rotate", (), "move test tasks that many promotion tests have drawn into train", None),
        ("check", (), "say what is wrong with stored tasks, or with a file before it is added", "a file of tasks"),
        ("retire", (), "take tasks with a wrong answer key out of use; corrected ones may have their ids", None),
    ):
        action = actions.add_parser(name, aliases=aliases, help=text)
        action.add_argument("skill", metavar="SKILL")
        if name == "list":
            action.add_argument("--all", dest="retired", action="store_true", help="retired ones, too")
        if name == "retire":
            _retire(action)
        if file:
            action.add_argument("file", metavar="FILE", nargs=None if name == "add" else "?", help=file)
        if name == "export":
            action.add_argument("--force", action="store_true", help="write over FILE where it is there")
        if name == "rotate":
            action.add_argument(
                "--looks", type=int, metavar="N", default=10, help="drawn by so many promotion tests (default 10)"
            )
            yes(action)
        if name in ("add", "check"):
            _rows(action)
        common(action)


def _rows(parser: argparse.ArgumentParser) -> None:
    parser.epilog, parser.formatter_class = _ROWS, argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--split-mode", choices=("ratio", "split_dir"),
        help="ratio: draw the splits by --ratio; split_dir: FILE is a folder of train, val and test",
    )  # fmt: skip
    parser.add_argument(
        "--ratio", metavar="A:B:C", help="shares of train, val and test, with --split-mode ratio (2:1:7)"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of that draw (42)")


def _retire(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Take tasks out of use that are wrong. Nothing that begins later draws them; what is under way keeps them, and "
        "no verdict changes. Retiring what a candidate has failed would cheat its promotion test: so this is for a "
        "person at a terminal alone, it cannot be taken back, and history and every later verdict tell of it."
    )
    parser.add_argument("ids", metavar="ID", nargs="+", help="the id of a task, as 'tasks list' shows it")
    parser.add_argument("--reason", metavar="TEXT", default="", help="what is wrong with them, for the record")
    yes(parser)
