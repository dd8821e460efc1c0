"""Show: one skill, candidate, promotion test, run, trajectory or version, all of it; or all runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from skillopt_mcp.actions.tasks import note_spread
from skillopt_mcp.cli.command import Arg, Command, Flag, WrongUsage, command
from skillopt_mcp.cli.commands.skills import show_away
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.notes import describe_note
from skillopt_mcp.core.results import cut_prompt
from skillopt_mcp.core.skills import SkillRow
from skillopt_mcp.core.text import counted
from skillopt_mcp.gates.verdicts import by_change
from skillopt_mcp.reports.details import PromotionTest
from skillopt_mcp.reports.export import export_run, export_version
from skillopt_mcp.reports.history import history, series
from skillopt_mcp.reports.inspecting import SHOWN
from skillopt_mcp.reports.lookup import look_up
from skillopt_mcp.reports.run_report import RunFacts, RunList, RunRow, describe_run, figures_of, list_runs
from skillopt_mcp.workspace.costs import price_cell
from skillopt_mcp.workspace.runs import step_row
from skillopt_mcp.workspace.skill_folders import known, version_named

_N_RUNS = 20
_BRIEF = ("run", "began", "status", "best", "verdict", "skill")
# What a column shows where it says nothing: a column of these alone is left out.
_SPARE = {"answered": "all", "settings": "-"}


@command("show", example="show c-0123456789ab", needs_store=True)
class Show(Command):
    """Show a skill with its runs and promotions, or a candidate, test, run, trajectory or version."""

    id: Annotated[
        str | None, Arg("SKILL | c-... | t-... | r-... | trajectory:N | SKILL@VERSION (default: all runs)")
    ] = None
    all: Annotated[bool, Flag("every run, not only the newest 20")] = False
    out: Annotated[str | None, Flag("write a run (best_skill.md, versions, steps) or a version as files", "DIR")] = None

    def run(self, terminal: Terminal) -> Any:
        with terminal.workspace() as workspace:
            if self.id is None:
                if self.out:
                    raise WrongUsage("--out needs the ID of a run or a version")
                return list_runs(workspace.store, workspace.place)
            if self.out:
                folder = Path(self.out).expanduser()
                if version := version_named(known(self.id)):
                    return export_version(workspace.store, workspace.place, *version, folder)
                return export_run(workspace.store, workspace.place, self.id, folder)
            thing = look_up(workspace.store, workspace.place, self.id, None if terminal.is_json else SHOWN)
            if thing.kind == "test":
                terminal.require_viewer(f"show {thing.id}")
            step = thing.next_step(Consent.PERSON)
            found: dict[str, Any] = {"id": self.id, "kind": thing.kind, "text": thing.text, "next_step": step}
            if isinstance(thing.facts, SkillRow):
                self._away = thing.facts.away
                self._past = history(workspace.store, workspace.place, self.id)
                self._runs = list_runs(workspace.store, workspace.place, self.id)
                if terminal.is_watched:
                    workspace.store.promotions.note_seen(workspace.place.find_kept(self.id).id)
                skill = workspace.place.find_kept(self.id)
                # Of held-out tasks, so that a person alone sees it.
                self._series = [] if terminal.is_agents else series(workspace.store, skill)
                self._gaps = note_spread(workspace.store.tasks.list_in_use(skill.id))
                found |= {
                    "series": [each.model_dump(mode="json") for each in self._series],
                    "notes": [each.model_dump(mode="json") for each in self._gaps],
                    "history": self._past.model_dump(mode="json"),
                    "runs": self._runs.model_dump(mode="json")["runs"],
                }
            if isinstance(thing.facts, RunFacts):
                run = thing.facts.run
                if not terminal.is_json:
                    is_open = run.kind == "replay" and run.status != "finished"
                    self._test = None
                    if is_open and run.count_better(workspace.store.runs.list_steps(run.id)):
                        self._test = NextStep(action="evaluate_candidate", arguments={"candidate_id": run.id})
                    return found | {"text": describe_run(workspace.store, workspace.place, thing.facts, terminal.width)}
                steps = [step_row(step).model_dump(mode="json") for step in thing.facts.records]
                answering = [asdict(each) for each in run.answering]
                return found | {"steps": steps, "answering": answering, "run": figures_of(workspace.store, thing.facts)}
            if isinstance(thing.detail, PromotionTest):
                self._units = thing.detail.units
            if thing.detail:
                found[thing.kind] = thing.detail.model_dump(mode="json", exclude={"n_left_out"})
            return found

    def show(self, result: Any, terminal: Terminal) -> None:
        if isinstance(result, RunList):
            self._show_runs(result, terminal)
        elif self.out:
            terminal.say(f"{counted(result.n_files, 'file')} in {result.folder}.")
        else:
            (terminal.diff if result["kind"] == "candidate" else terminal.say)(result["text"])
            if result["kind"] == "test" and self._units:
                rows = [
                    (each.group, _mean(each.before), _mean(each.after), cut_prompt(each.prompt), each.task)
                    for each in sorted(self._units, key=by_change)
                ]
                terminal.table(("", "old", "new", "prompt", "task"), rows, n_long=2)
            if result["kind"] == "skill":
                if self._away:
                    show_away(self.id or "", self._away, terminal)
                for row in self._past.rows:
                    candidate = f", candidate {row.candidate_id}" if row.candidate_id else ""
                    verdict = f", verdict {row.verdict}" if row.verdict else ""
                    terminal.say(
                        f"{row.at}  {row.kind:<8}  {row.previous_version} -> {row.version}{candidate}{verdict}"
                    )
                    terminal.say(f"    by {row.by}", "dim")
                for line in self._past.declined:
                    terminal.say(f"declined: {line}")
                for line in self._past.retired:
                    terminal.say(f"removed: {line}")
                if self._series:
                    terminal.say("solved of held-out tasks, with 95 % intervals:", "bold")
                for point in self._series:
                    terminal.say(str(point))
                for note in self._gaps:
                    terminal.say(f"{describe_note(note)}.")
                self._show_runs(self._runs, terminal)
            terminal.next(result["next_step"])
            if result["kind"] == "run" and self._test:
                terminal.note(f"Or test its best version: {self._test.as_command(terminal.store)}")

    def _show_runs(self, found: RunList, terminal: Terminal) -> None:
        rows = found.runs if self.all else found.runs[:_N_RUNS]
        if rows:
            cells = [_cells(row) for row in rows]
            columns = [name for name in cells[0] if any(row[name] != _SPARE.get(name) for row in cells)]
            table = [[row[name] for name in columns] for row in cells]
            if not terminal.table(columns, table, n_long=2, brief=_BRIEF):
                terminal.note("All of a run: skillopt-mcp show RUN")
        if len(found.runs) > len(rows):
            terminal.note(f"{len(found.runs) - len(rows):,} older: --all shows them")
        # They are of the whole store, whichever skill is shown.
        if found.tests and not self.id:
            terminal.note(f"Promotion tests: {len(found.tests)}; --json lists them")


def _mean(scores: Sequence[float]) -> str:
    """How many attempts of a task passed, or their mean score."""
    return f"{sum(scores):.0f}/{len(scores)}" if {*scores} <= {0, 1} else f"{fmean(scores):.2f}"


def _cells(row: RunRow) -> dict[str, str]:
    settings = (f"{name}={v if isinstance(v, str) else json.dumps(v)}" for name, v in row.config.items())
    return {
        "run": row.id,
        "skill": row.skill,
        "began": row.started_at[:16].replace("T", " "),
        "status": row.status if row.kind == "replay" else f"{row.status} (proposal)",
        "steps": str(row.n_steps),
        "best": "-" if row.best is None else f"{row.best:.3f}",
        "verdict": row.verdict or "-",
        "sent": f"{row.n_sent:,}",
        "answered": "all" if row.n_answered == row.n_sent else f"{row.n_answered:,}",
        "failed": f"{row.n_failed:,}",
        "tokens": f"{row.tokens:,}",
        "usd": price_cell(row),
        "target": row.target,
        "settings": " ".join(settings) or "-",
    }
