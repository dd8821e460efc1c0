"""Bring: what is kept of other tools' evals, whether verdicts equal their owners', and what `check` makes of skills.

    python benchmarks/bring.py [--corpus FOLDER] [--skills FOLDER] [--short] [--json]

Reads the samples of `tests/evals`, and all evals below `--corpus`. `verdicts` are those that the owner's tool gave on
the answers named in the samples. A round trip writes what was kept in its own format, and reads it again: prompts,
judges, files and tags have to be equal, or the writer refuses it by name. `--skills` is a folder of skills that
`check` and skills-ref look at.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from benchmarks.bring_check import measure_check
from benchmarks.doors import parser, show
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Score, judge_json
from skillopt_mcp.core.tasks import NewTask, Task
from skillopt_mcp.tasks.formats.cases import EVAL_FORMATS, EvalOptions, Evals, read_evals
from skillopt_mcp.tasks.judges.judging import score

SAMPLES = Path(__file__).parents[1] / "tests" / "evals"
_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml")


def find_evals(folder: Path) -> Iterator[tuple[Path, Evals]]:
    """All evals below a folder, each once: of nested places the outermost."""
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if each not in (".git", "node_modules", "results"))
        places = [Path(root), *(Path(root, name) for name in sorted(files) if name.endswith(_SUFFIXES))]
        for place in places:
            try:
                evals = read_evals(place, EvalOptions())
                if evals and evals.format == "inspect":  # which names no scorer
                    evals = read_evals(place, EvalOptions(scorer="match"))
            except BadInput:
                continue
            if evals:
                yield place, evals
                if place == Path(root):
                    folders.clear()
                    break


def _as_key(task: NewTask) -> tuple[object, ...]:
    return task.prompt, judge_json(task.judge), task.files, task.tags, task.split


def make_round_trip(form_name: str, tasks: list[NewTask]) -> str:
    """Whether the tasks are "equal" after writing and reading them; "" where the format is only read."""
    form = next(each for each in EVAL_FORMATS if each.name == form_name)
    if not form.write or not tasks:
        return ""
    stored = [
        Task(n, 1, task.name or "", task.prompt, task.judge, task.split or "train", task.digest, task.tags, task.files,
             task.group)
        for n, task in enumerate(tasks)
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "SKILL.md").write_text("---\nname: x\ndescription: y\n---\n")
        target = Path(folder) / "data.jsonl" if form_name == "inspect" else Path(folder)
        try:
            for place, text in form.write(stored, target).items():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text)
        except BadInput:
            return "refused"
        again = read_evals(target, EvalOptions(scorer="match"))
        made = [case.make_task() for case in again.cases] if again else []
    # A split is drawn where the file says none.
    same = [replace(task, split=None) if not task.split else task for task in tasks]
    read = [replace(task, split=own.split) for task, own in zip(filter(None, made), same, strict=False)]
    is_equal = len(made) == len(tasks) and list(map(_as_key, read)) == list(map(_as_key, same))
    return "equal" if is_equal else "different"


def measure_verdicts() -> dict[str, dict[str, int]]:
    """How many of the owners' verdicts in the samples are equal to ours."""
    found = dict[str, dict[str, int]]()
    for sample in sorted(SAMPLES.glob("*/*/expected.json")):
        expected = json.loads(sample.read_text())
        files = [each for each in sample.parent.iterdir() if each != sample]
        place = files[0] if expected["format"] == "inspect" else sample.parent / expected.get("path", "")
        evals = read_evals(place, EvalOptions(scorer=expected.get("scorer", "")))
        cases = {case.id: case for case in evals.cases} if evals else {}
        counts = found.setdefault(expected["format"], {"tried": 0, "equal_to_owner": 0})
        for task in expected.get("tasks", ()):
            for answer, passes in task.get("verdicts", ()):
                judge = cases[task["id"]].judge
                outcome = score(judge, answer) if judge else None
                counts["tried"] += 1
                counts["equal_to_owner"] += (outcome.hard if isinstance(outcome, Score) else None) is passes
    return found


def measure_formats(folders: Iterable[Path]) -> dict[str, dict[str, object]]:
    """What is read of the evals below these folders, by format."""
    counts, lost, trips = (defaultdict[str, Counter[str]](Counter) for _ in range(3))
    for folder in folders:
        for _, evals in find_evals(folder):
            tasks = list[NewTask]()
            for case in evals.cases:
                lost[evals.format].update(each.reason for each in case.lost if each.decides)
                with suppress(BadInput):
                    tasks += filter(None, [case.make_task()])
            counts[evals.format].update(files=1, cases=len(evals.cases), kept=len(tasks))
            trips[evals.format].update(filter(None, [make_round_trip(evals.format, tasks)]))
    return {name: {**row, "lost_by_reason": lost[name], "round_trips": trips[name]} for name, row in counts.items()}


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "the samples alone")
    flags.add_argument("--corpus", type=Path, help="a folder with evals of other people")
    flags.add_argument("--skills", type=Path, help="a folder with skills of other people")
    options = flags.parse_args()
    samples = [each.parent for each in sorted(SAMPLES.glob("*/*/expected.json"))]
    verdicts = measure_verdicts()
    figures: dict[str, object] = {
        "formats": measure_formats([*samples, *filter(None, [options.corpus])]), "verdicts": verdicts,
    }  # fmt: skip
    if options.skills:
        figures["check"] = measure_check(options.skills)
    show(figures, options.json, verdicts="every verdict equal")
    if any(each["tried"] != each["equal_to_owner"] for each in verdicts.values()):
        raise SystemExit("a verdict differs from its owner's")


if __name__ == "__main__":
    main()
