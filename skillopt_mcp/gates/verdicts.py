"""Verdicts in words: two lines and a picture of a promotion test, and its mathematics for who asks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from skillopt_mcp.core.evidence import Arm, Decides, Solved, TestReport, Verdict
from skillopt_mcp.core.notes import WITHOUT
from skillopt_mcp.core.results import GROUPS, Foreseen, UnitRow
from skillopt_mcp.core.text import counted, escaped

LABELS: dict[Verdict, str] = {
    "better": "BETTER",
    "not_better": "NOT BETTER",
    "cant_tell": "CAN'T TELL",
    "no_worse": "NO WORSE",
    "worse": "WORSE",
    "better_here": "BETTER ON THESE CASES",
    "worse_here": "WORSE ON THESE CASES",
    "not_tested": "NOT TESTED",
}
CLAIMS: dict[Verdict | None, tuple[str, str]] = {
    "better": ("On tasks like these the new text solves more.", "that every task got better, or that every line helps"),
    "not_better": ("Nothing: the test stopped, as going on would waste runs.", "that the new text is worse"),
    "cant_tell": ("Nothing yet.", "that both texts are equally good"),
    "no_worse": (
        "On these tasks the loss is below the margin.",
        "that the new text is better; anything about other tasks",
    ),
    "worse": ("On tasks like these the new text solves fewer.", "that every task got worse"),
    "worse_here": ("On these tasks the new text solves fewer.", "anything about other tasks"),
    "better_here": ("On these tasks the new text solves more.", "anything about other tasks"),
    "not_tested": ("Nothing: neither text reached the model.", "anything about either text"),
    None: ("Nothing yet: the test has not ended.", "what the figures so far seem to show"),
}
"""What a verdict claims, and what it does not."""
_HERE: dict[Verdict | None, Verdict] = {"better": "better_here", "worse": "worse_here"}
PASTED = "The text was pasted, not loaded by a host: it says nothing about when the skill is opened."
WORN_AFTER = 5
_ARMS: dict[Arm, str] = {"base": "old", "candidate": "new"}
_WIDTH = 24
_HARDLY = 0.05
_VOID = {
    "models": "The two texts were answered by different models ({models}): name a dated model, and test again.",
    "hours": "More than a day lay between attempts that are compared: test again in one go.",
}


def label(report: TestReport, *, is_running: bool = False) -> str:
    """Return the verdict as people read it; without one, whether a process is running the test."""
    return LABELS[report.verdict] if report.verdict else "RUNNING" if is_running else "NOT FINISHED"


def claims_of(report: TestReport) -> tuple[str, str]:
    """What a test claims, and what it does not."""
    return CLAIMS[_HERE.get(report.verdict, report.verdict) if report.on_cases else report.verdict]


def describe(report: TestReport) -> list[str]:
    """A verdict in two or three sentences: what is so, and how sure that is or what to do."""
    units, solved = report.units, report.solved
    seen = f"Seen on {units.seen} of them: {_change(solved)}." if solved else "Nothing was scored."
    if report.void:
        return [_VOID[report.void].format(models=", ".join(report.models))]
    if report.verdict is None:
        return [f"{counted(report.pairs, 'pair')} so far, on {units.seen} of {units.of} tasks."]
    if report.verdict == "not_tested":
        return [
            f"The skill was opened in none of {report.runs.base + report.runs.candidate} attempts: nothing was "
            "compared, and no error rate was used.",
            "Say in its description when it applies, or add tasks that need it.",
        ]
    sure = f"If it changed nothing, fewer than 1 test in {_one_in(report.p_bound)} would say this."
    new = f"with {report.against} the skill" if report.against else "the new text"
    like = f"these {units.of} cases" if report.on_cases else f"tasks like your {units.of}"
    if report.verdict == "better":
        if report.kind and report.elsewhere:
            kind = report.kind
            shown = f"`{kind.tag}`: {_change(kind.solved)} ({counted(kind.units, 'task')})"
            n_rest = counted(units.of - kind.units, "task")
            rest = f"Elsewhere {_change(report.elsewhere)} ({n_rest}), no loss in sight."
            return [f"On {like} {new} solves more, above all {shown}.", rest, sure]
        return [f"On {like} {new} solves more{_likely(report, 'more')}.", seen, sure]
    if report.verdict == "worse":
        on, which = ("Put it back: on", "the live text") if report.live else ("On", new)
        likely = _likely(report, "fewer")
        return [f"{on} {like} {which} solves fewer{likely}.", seen, sure]
    counts = f"{units.better} {'task' if units.better == 1 else 'tasks'} better, {units.worse} worse, {units.same} same"
    if report.verdict == "not_better":
        pilot = f"{counted(report.pilot, 'attempt')} against earlier ones"
        after = pilot if report.pilot else counted(report.pairs, "pair")
        first = f"No gain in sight after {after}: {counts}; stopped."
        then = "Your edit is live, and neither better nor worse in sight." if report.live else "Nothing was changed."
        return [first, then, *_describe_decides(report.decides)]
    if report.verdict == "cant_tell":
        advice = _describe_decides(report.decides) or ["Drop it, or promote it unproven."] * (not report.against)
        return [f"{counts}: not proven{'' if report.live or report.against else ' alone'}.", *advice]
    if report.verdict == "no_worse":
        return [f"On these {units.of} tasks a loss of {_percent(report.margin or 0)} points is ruled out."]
    more = "more" if report.verdict == "better_here" else "fewer"
    sure = f"If it changed nothing, at most 1 test in {_one_in(report.p_bound)} would say this."
    return [
        f"On these {counted(units.of, 'task')} {new} solves {more}: {_change(solved)}.",
        f"{sure} It says nothing about other tasks.",
    ]


def _change(solved: Solved | None) -> str:
    return f"{_percent(solved.before)} % → {_percent(solved.after)} %" if solved else "not seen"


def _likely(report: TestReport, word: Literal["more", "fewer"]) -> str:
    gain = report.gain
    if gain is None or report.on_cases:
        return ""
    ends = (gain.low, gain.high) if word == "more" else (-gain.high, -gain.low)
    return f": likely {_percent(ends[0])} to {_percent(ends[1])} {word} of 100"


def _describe_decides(decides: Decides | None) -> list[str]:
    if decides is None:
        return []
    if decides.tag:
        add = f"add {counted(decides.add, 'task')} of it and " if decides.add else ""
        return [f"The gain is in `{decides.tag}`: {add}test again with --kind {decides.tag} (8 in 10)."]
    if decides.passes:
        return [f"Test again with --passes {decides.passes}: more likely than not that decides."]
    return [f"Add {counted(decides.add, 'task')} and test again: more likely than not that decides."]


def caveats(report: TestReport) -> list[str]:
    """Return what a person should know besides, a line each; mostly none."""
    lost = report.lost
    found = []
    if report.in_part:
        found.append(f"{counted(report.in_part, 'task')} judged in part: graders of their owner are left out.")
    if opened := report.opened:
        found.append(
            f"The skill was opened in {opened.before} of {opened.before_of} attempts with the old text, "
            f"{opened.after} of {opened.after_of} with the new one."
        )
    if rates := report.triggering:
        said = (f"{rates[arm].text} with the {word} text" for arm, word in _ARMS.items() if arm in rates)
        found.append(f"Opened as the tasks ask: {', '.join(said)}.")
    found += [f"Loading the {each}." for each in report.loading]
    if report.pasted:
        found.append(PASTED)
    if report.repeats:
        found.append("The target repeats itself: further attempts would be copies.")
    if report.few_tasks and report.verdict in ("better", "worse", "not_better", "cant_tell"):
        found.append(f"Few tasks ({report.units.of}): large gains only.")
    if report.promotions_here >= WORN_AFTER:
        found.append(f"{report.promotions_here} promotions rest on these tasks: replace half of them.")
    n_runs = report.runs.base + report.runs.candidate
    for each in report.unanswered:
        fault, n, reason = (
            WITHOUT.get(each.fault, "given up"),
            each.base + each.candidate,
            escaped(each.reason).rstrip("."),
        )
        found.append(f"{n} of {n_runs} {fault} (old {each.base}, new {each.candidate}): {reason}.")
    if lost.bounded:
        found.append(f"{counted(lost.bounded, 'attempt')} lost for unknown causes: counted against the new text.")
    return found


def bars(report: TestReport) -> list[str]:
    """Return the units that got better, stayed the same and got worse as three bars."""
    units = report.units
    counts = (("better", units.better), ("same", units.same), ("worse", units.worse))
    most = max(1, *(n for _, n in counts))
    return [f"  {name:<6} {'█' * math.ceil(n * _WIDTH / most):<{_WIDTH}} {n}" for name, n in counts]


def explain(report: TestReport) -> list[str]:
    """Return the mathematics of a test, a line each."""
    units, runs = report.units, report.runs
    place = (
        f"test {report.test_in_release} since the last promotion" if report.test_in_release else "outside the budget"
    )
    lines = [
        f"Test {report.test_id}: {place}, error rate {report.alpha:.2%}.",
        f"{counted(units.seen, 'unit')} of {units.of} seen; a unit is a family of tasks, of which one is drawn.",
        f"{counted(report.pairs, 'pair')} read, up to {report.passes} for each unit; "
        f"{counted(runs.base, 'attempt')} of the old text, {runs.candidate} of the new.",
        f"Lost: {report.lost.target} failed by themselves, {report.lost.asked_again} asked again, "
        f"{report.lost.bounded} counted against the new text.",
    ]
    if report.pilot:
        lines.append(f"The new text's first {report.pilot} attempts were compared with earlier ones of the old text.")
    if report.p_bound is not None:
        lines.append(f"Chance of this verdict if nothing were better: at most {report.p_bound:.4f}.")
    if report.gain:
        gain = report.gain
        lines.append(f"Gain {gain.mean:+.3f}, 95 % interval {gain.low:+.3f} to {gain.high:+.3f}.")
    if report.models:
        lines.append(f"Answered by {', '.join(report.models)}.")
    return lines


def by_change(unit: UnitRow) -> tuple[int, float]:
    """Where a task is listed: worse first, then better, fails with both, same; the largest change first."""
    before, after = unit.scores
    return GROUPS.index(unit.group), -abs(after - before)


def changed_tasks(units: Sequence[UnitRow], outcome: Literal["better", "worse"]) -> list[str]:
    """Return the tasks that got better, or worse, the largest change first, as "name (0.33 → 1.00)"."""
    changed = sorted((each for each in units if each.outcome == outcome), key=by_change)
    return ["{} ({:.2f} → {:.2f})".format(each.task, *each.scores) for each in changed]


def describe_foreseen(foreseen: Foreseen, series: str = "since the last promotion") -> list[str]:
    """What a test could find, what it takes, whether the caps hold that, and what no permission covers."""
    lines = [*_describe_power(foreseen, series), foreseen.reach]
    if foreseen.beyond_permission:
        lines.append(f"No standing permission covers it: {'; '.join(foreseen.beyond_permission)}.")
    return [line for line in lines if line]


def _describe_power(foreseen: Foreseen, series: str) -> list[str]:
    none, *found = foreseen.power
    most = f"at most {foreseen.most_runs:,} runs"
    rounds = f"Rounds of {counted(foreseen.units, 'task')}, once with each text: {most}."
    if foreseen.margin is not None:
        loss, chance = _percent(foreseen.margin), _percent(none.chance)
        return [
            rounds,
            f"It rules out a loss of {loss} points in {chance} % where both are equal ({none.runs:,} runs on average).",
        ]
    chances = ", ".join(f"{_percent(row.gain)} points in {_percent(row.chance)} % ({row.runs:,} runs)" for row in found)
    if not foreseen.test_in_release:
        return [rounds, f"It finds a gain of {chances}, and says nothing of other tasks: 8 or more held-out ones can."]
    lines = [
        f"Test {foreseen.test_in_release} {series}: {counted(foreseen.units, 'task')}, each up to "
        f"{counted(foreseen.passes, 'time')} with each text; {most}, {none.runs:,} on average without a gain.",
        f"It finds an even gain of {chances}.",
    ]
    if foreseen.found_in_half:
        lines.append(f"Half of the tests find {_percent(foreseen.found_in_half)} points.")
    if kind := foreseen.kind:
        lines.append(f"The edit is about `{kind.tag}`: its {counted(kind.units, 'task')} weigh three times.")
    if few := foreseen.few_of_kind:
        short = few.needs - few.units
        lines.append(
            f"The edit is about `{few.tag}`: {counted(few.units, 'task')}, and a test needs {few.needs}. It cannot be "
            f"proven: add {short}, or test these cases alone: --kind {few.tag} --cases."
        )
    if all(row.chance < _HARDLY for row in found):
        return [*lines, "It can hardly find a gain: add tasks first."]
    return [*lines, *(["Few tasks: large gains only."] if foreseen.few_tasks else [])]


def _percent(share: float) -> int:
    return round(100 * share)


def _one_in(p_bound: float | None) -> int:
    return math.floor(1 / p_bound + 1e-9) if p_bound else 0
