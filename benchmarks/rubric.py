"""Rubric: does a judge of points like length, does it change its mind, and what does an answer cost?

    python benchmarks/rubric.py [--short] [--json] [--answers N] [--judge BACKEND:MODEL]

Answers are reports, of which it is known by construction which of five points they meet; half of them meet all. Each is
judged as it is, once more, and padded with harmless words: by a rubric of points, and by one of the same text with a
single vote, which is what a rubric was before; either passes where all of it is met. `excess` is how much more often
the padded answer gets the better score than the plain one.

Without --judge a scripted one answers, whose noise is this: it takes a point for its opposite with probability P; one
that is not met it takes for met with probability Q more for every 1,000 characters of the answer; and it makes up a
quote with probability R. With --judge a real model answers, and is paid for: about 11 calls an answer.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from benchmarks.doors import parser, show
from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.core.calls import Ask, Call, Question, Reply
from skillopt_mcp.core.evidence import Attempted
from skillopt_mcp.core.judging import Judge, Score
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.judges.judging import judge_all
from skillopt_mcp.tasks.judges.kinds.rubric import Rubric

P, Q, R = 0.03, 0.03, 0.01
ANSWERS, SHORT, MOST = 2_000, 300, 0.05
# Each point, and the sentence that meets it, or, of the last, that breaks it.
POINTS = {
    "Names the worn seal as the cause": "The cause was a worn seal on pump four.",
    "Says that the valve has to be closed first": "Close the red valve before you touch anything.",
    "Gives the day on which it happened": "It happened on the ninth of March.",
    "Names Ines as the one to call": "If it comes back, call Ines.",
    "Does not promise a date of repair": "It will be repaired by Friday.",
}
SENTENCES = list(POINTS.values())
ABSENT = len(POINTS)
PADDING = (
    "Thank you for asking about this.", "I have gone through it step by step, and here is what I have put together.",
    "As you can imagine, such things are never pleasant, and it is good to look at them calmly.",
    "It is always worth taking a moment before one goes on.", "I hope that this is of help to you.",
    "In short, that is the whole of it, and there is little that one could add.",
    "Please feel free to ask again if anything should be unclear.",
    "All in all it is a matter that comes up now and then in a place like ours.",
)  # fmt: skip
TASK = "Report in a few sentences what happened in the pump room."
_LISTED = re.compile(r"^(?:(\d+)\. )?(.+)$", re.MULTILINE)
_SECTION = re.compile(r"^## (\w+)\n\n(`{3,})\w+\n(.*?)\n\2$", re.MULTILINE | re.DOTALL)


def make_answer(chance: Random) -> tuple[str, str, bool]:
    """An answer, the same one padded, and whether it meets all points; half of them do."""
    meets_all = chance.random() < 0.5
    met = [meets_all or chance.random() < 0.6 for _ in POINTS]
    said = [each for n, each in enumerate(SENTENCES, 1) if met[n - 1] is (n != ABSENT)]
    said = said or ["There is nothing to report."]
    chance.shuffle(said)
    padding = chance.sample(PADDING, len(PADDING))
    return " ".join(said), " ".join([*padding[:3], *said, *padding[3:]]), all(met)


def ask_noisy(calls: Sequence[Call], /) -> list[Reply]:
    """What the scripted judge replies; its chance is the draw's, so that it says the same of the same vote."""
    return [Reply(_reply(call)) for call in calls]


def _reply(call: Call) -> str:
    assert isinstance(call.request, Question)
    chance = Random(f"{call.draw}{call.request.evidence}")
    sections = {name: text for name, _, text in _SECTION.findall(call.request.evidence)}
    answer, rows = sections["Answer"], list[dict[str, object]]()
    for number, text in _LISTED.findall(sections.get("Points") or sections["Rubric"]):
        n = list(POINTS).index(text) + 1
        holds = (SENTENCES[n - 1] in answer) is (n != ABSENT)
        if chance.random() < P:
            holds = not holds
        elif not holds and chance.random() < Q * len(answer) / 1_000:
            holds = True
        # What it takes for a proof are words of the answer, but for those that it makes up.
        found = SENTENCES[n - 1] if SENTENCES[n - 1] in answer else answer.partition(".")[0]
        quote = "It is said at the end." if chance.random() < R else found
        rows.append({"point": int(number or n), "quote": quote, "absence": n == ABSENT, "holds": holds})
    if "Points" in sections:
        return json.dumps({"points": rows})
    share = sum(row["holds"] is True for row in rows) / len(rows)
    grade = (
        "all" if share == 1 else "most" if share >= 0.75 else "half" if share >= 0.4 else "little" if share else "none"
    )
    return json.dumps({"reasoning": f"{share:.0%} of it", "grade": grade})


def measure(ask: Ask, judge: Judge, n_answers: int) -> dict[str, float | None]:
    """How a judge judges so many answers: each as it is, once more, and padded."""
    chance, n_calls = Random(1), 0
    answers = [make_answer(chance) for _ in range(n_answers)]

    def count(calls: Sequence[Call], /) -> list[Reply]:
        nonlocal n_calls
        n_calls += len(calls)
        return ask(calls)

    task = Task(0, 0, "report", TASK, judge, "train", "report")
    attempts = [
        Attempted(task, padded if name == "padded" else plain, (), f"{judge.kind}/{n}/{name}")
        for n, (plain, padded, _) in enumerate(answers)
        for name in ("plain", "again", "padded")
    ]
    outcomes = judge_all(count, attempts)
    rows = [outcomes[n : n + 3] for n in range(0, len(outcomes), 3)]
    scored = [
        (plain, again, padded, truth)
        for (plain, again, padded), (_, _, truth) in zip(rows, answers, strict=True)
        if isinstance(plain, Score) and isinstance(again, Score) and isinstance(padded, Score)
    ]

    def share(n: int) -> float | None:
        return round(n / len(scored), 4) if scored else None

    more = sum(padded.soft > plain.soft for plain, _, padded, _ in scored)
    less = sum(padded.soft < plain.soft for plain, _, padded, _ in scored)
    return {
        "excess": share(more - less),
        "flips": share(sum(plain.hard is not again.hard for plain, again, _, _ in scored)),
        "scores_changed": share(sum(plain.soft != again.soft for plain, again, _, _ in scored)),
        "wrong": share(sum(plain.hard is not truth for plain, _, _, truth in scored)),
        "calls_an_answer": round(n_calls / len(attempts), 2),
        "unscored": sum(not isinstance(each, Score) for each in outcomes),
        "answers": len(answers),
    }


def measure_both(ask: Ask, n_answers: int) -> dict[str, float | None]:
    """The figures of points, and of the same text with a single vote, by name."""
    points, text = Rubric(points=list(POINTS)), Rubric(rubric="\n".join(POINTS), threshold=1.0)
    found = [("points", measure(ask, points, n_answers)), ("single_vote", measure(ask, text, n_answers))]
    return {f"{form}_{name}": value for form, figures in found for name, value in figures.items()}


def main() -> None:
    flags = parser(__doc__, f"{SHORT} answers")
    flags.add_argument("--answers", type=int, help=f"how many answers ({ANSWERS:,}; with --judge 40)")
    flags.add_argument("--judge", metavar="BACKEND:MODEL", help="a real model that judges, and is paid for")
    options = flags.parse_args()
    if options.judge:
        with (
            tempfile.TemporaryDirectory() as folder,
            Store(Path(folder) / "store.db") as store,
            Asker(store, {"judge": open_backend(options.judge)}, "rubric") as asker,
        ):
            figures = measure_both(asker, options.answers or 40)
    else:
        figures = measure_both(ask_noisy, options.answers or (SHORT if options.short else ANSWERS))
    show(figures, options.json, points_excess=f"at most {MOST}", points_flips=f"at most {MOST}", points_unscored="0")
    found = (figures["points_excess"], figures["points_flips"])
    sys.exit(any(each is None or each > MOST for each in found))


if __name__ == "__main__":
    main()
