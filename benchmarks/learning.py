"""Learning: what the parts of the optimizer are worth, on the simulation, compared with the published packages.

    PEERS_PYTHON=.../bin/python python benchmarks/learning.py [--seeds N] [--epochs N] [--noise X] [--helpful X]
        [--harmful X] [--systems NAME;...] [--json]

Every system trains the same skill on the same tasks of the same worlds with the same simulated target and proposer: 40
train and 40 val tasks, batches of 20, 4 epochs. `true_score` is what the world gives its best skill on 40 unseen tasks
(1 minus the noise at most), `live_score` that of the file that the promotion test leaves in place (ours alone has one),
`harmful_lines` those in the best skill, `rollouts` what training took, and `test_rollouts` what the promotion test took
on top. Means over the seeds; `se` is the standard error of `true_score`, and `won` and `lost` count the seeds where it
is above and below that of `ours`. The simulation knows little of what a real model does: it shows the defects of a
loop, no more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import skillopt_mcp
from benchmarks.doors import add_tasks
from benchmarks.simulation import N_TASKS, NOISE, Setting, judged, skill_text, task_rows, write_skill

ROOT = Path(__file__).resolve().parents[1]
OURS: dict[str, dict[str, object]] = {
    "ours": {},
    "ours, slow update off": {"slow_update": False},
    "ours, meta skill off": {"meta_skill": False},
    "ours, step buffer off": {"step_buffer": False},
    "ours, all three off": {"slow_update": False, "meta_skill": False, "step_buffer": False},
    "ours, constant": {"schedule": "constant"},
    "ours, linear": {"schedule": "linear"},
    "ours, autonomous": {"schedule": "autonomous"},
}
# skillopt's own configurations switch both on; its slow update is not gated by default.
PEERS: dict[str, tuple[str, dict[str, object]]] = {
    "skillrl": ("skillrl", {}),
    "skillopt": ("skillopt", {"use_slow_update": True, "use_meta_skill": True}),
    "skillopt, both off": ("skillopt", {"use_slow_update": False, "use_meta_skill": False}),
}


@dataclass(frozen=True, slots=True)
class Learned:
    """What one system made of one world."""

    true_score: float
    live_score: float
    harmful_lines: int
    rollouts: int
    test_rollouts: int


def ours(setting: Setting, options: dict[str, object], folder: Path) -> Learned:
    """Return what our optimizer makes of a world."""
    store, skill = folder / "skillopt.db", write_skill(folder, setting.seed)
    add_tasks(store, skill, task_rows(N_TASKS, setting.seed))
    config = {"epochs": setting.epochs, "batch": setting.batch, **options}
    done = skillopt_mcp.train(skill, config=config, target=setting.spec, optimizer=setting.spec, store=store)
    score, harmful = judged(done.best_skill, setting)
    live, _ = judged(done.best_skill if done.accepted else skill_text(setting.seed), setting)
    n_rollouts = sum(row.n_calls for row in done.usage.stages if row.stage == "rollout" and not row.test)
    runs = done.test.runs if done.test else None
    return Learned(score, live, harmful, n_rollouts, runs.candidate + runs.base if runs else 0)


def peer(setting: Setting, package: str, options: dict[str, object], folder: Path) -> Learned:
    """Return what a published package makes of a world; whatever it calls best is live."""
    request = {"package": package, "setting": asdict(setting), "options": options, "folder": str(folder)}
    done = subprocess.run(
        [os.environ["PEERS_PYTHON"], str(Path(__file__).with_name("peer_worlds.py")), json.dumps(request)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{package} ended with {done.returncode}:\n{done.stderr}")
    made = json.loads(done.stdout)
    score, harmful = judged(made["skill"], setting)
    return Learned(score, score, harmful, made["rollouts"], 0)


def learn(settings: list[Setting], systems: list[str]) -> dict[str, list[Learned]]:
    """Return what every system makes of every world, in the order of the worlds."""
    found: dict[str, list[Learned]] = {name: [] for name in systems}
    for setting in settings:
        for name, learned in found.items():
            with tempfile.TemporaryDirectory() as folder:
                learned.append(_learned(name, setting, Path(folder).resolve()))
    return found


def _learned(name: str, setting: Setting, folder: Path) -> Learned:
    if name in OURS:
        return ours(setting, OURS[name], folder)
    package, options = PEERS[name]
    return peer(setting, package, options, folder)


def table(found: dict[str, list[Learned]]) -> dict[str, dict[str, float]]:
    """Return the means of every system, and how it stands against ours."""
    rows = {}
    for name, all_learned in found.items():
        scores = [learned.true_score for learned in all_learned]
        against = [learned.true_score for learned in found["ours"]]
        spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
        rows[name] = {
            "true_score": round(statistics.fmean(scores), 3),
            "se": round(spread / len(scores) ** 0.5, 3),
            "live_score": round(statistics.fmean(learned.live_score for learned in all_learned), 3),
            "harmful_lines": round(statistics.fmean(learned.harmful_lines for learned in all_learned), 2),
            "rollouts": round(statistics.fmean(learned.rollouts for learned in all_learned), 1),
            "test_rollouts": round(statistics.fmean(learned.test_rollouts for learned in all_learned), 1),
            "won": sum(one > other + 1e-9 for one, other in zip(scores, against, strict=True)),
            "lost": sum(one < other - 1e-9 for one, other in zip(scores, against, strict=True)),
        }
    return rows


def main() -> int:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="how many worlds")
    parser.add_argument("--systems", help="only these, with semicolons between them, next to 'ours'")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--noise", type=float, default=NOISE, help="how often chance decides a task")
    parser.add_argument("--helpful", type=float, default=0.6, help="the share of proposed edits that help")
    parser.add_argument("--harmful", type=float, default=0.1, help="the share that harms")
    parser.add_argument("--short", action="store_true", help="one world, one epoch")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    chosen = options.systems.split(";") if options.systems else [*OURS, *PEERS]
    systems = list(dict.fromkeys(["ours", *(name.strip() for name in chosen)]))
    if strangers := set(systems) - {*OURS, *PEERS}:
        parser.error(f"there is no system {sorted(strangers)[0]!r}; use {'; '.join([*OURS, *PEERS])}")
    if set(systems) & {*PEERS} and not os.environ.get("PEERS_PYTHON"):
        parser.error("PEERS_PYTHON is not set: see benchmarks/peers.py --help")
    n_seeds, n_epochs = (1, 1) if options.short else (options.seeds, options.epochs)
    settings = [
        Setting(seed, n_epochs, noise=options.noise, helpful=options.helpful, harmful=options.harmful)
        for seed in range(n_seeds)
    ]
    rows = table(learn(settings, systems))
    if options.json:
        print(json.dumps(rows))
        return 0
    names = list(next(iter(rows.values())))
    print(f"{'':<24}{''.join(f'{name:>15}' for name in names)}")
    for system, row in rows.items():
        print(f"{system:<24}{''.join(f'{row[name]:>15}' for name in names)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
