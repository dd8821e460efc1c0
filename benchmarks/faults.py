"""Faults: what many writers, kills, races, full disks, hostile texts and flipped bytes do to a store and a skill.

    python benchmarks/faults.py [--short] [--json] [--only KEY ...] [--scale F]

Every figure is a count of what may not happen, beside how often it was tried. --short takes less than 50 s.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks import drawn_edits, fault_children, flips, promotion_faults, redaction, redteam
from benchmarks.fault_children import Child, Shop
from skillopt_mcp.errors import SkillOptError
from skillopt_mcp.folders import read_skill
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.store.pool import Pool

Figures = dict[str, object]
Measure = Callable[[Path, bool, float], Figures]
KILL_AFTER_S = 0.6
MOST_FLIPS_S = 5.0


def writers(folder: Path, short: bool, scale: float) -> Figures:
    """Return what many processes lose that record into one store at once, while a run trains in it."""
    n, each = (8, 100) if short else (32, max(1, int(1000 * scale)))
    shop = Shop(folder)
    with Workspace(shop.store_path, project=folder, environ={}) as workspace:
        workspace.skill("ledger-clerk")
    alone = _written(shop, n, each, "alone")
    trainer = Child(fault_children.train, shop.store_path, folder)
    beside = _written(shop, n, each, "beside")
    runs = len(trainer.kill())
    return {"processes": n, "writes": each, **alone, "with_replay": {**beside, "replays": runs}}


def _written(shop: Shop, n: int, each: int, name: str) -> Figures:
    children = [Child(fault_children.write, shop.store_path, f"{name}{at}", each) for at in range(n)]
    told = [child.rest()[0] for child in children]
    stored = {row[0] for row in _rows(shop, "select id from trajectory")}
    times = sorted(time_ms for _, times, _ in told for time_ms in times)
    return {
        "errors": sum(len(errors) for _, _, errors in told),
        "lost": n * each - len({id for ids, _, _ in told for id in ids} & stored),
        "p99_ms": round(statistics.quantiles(times, n=100)[-1], 2),
        "worst_ms": round(times[-1], 1),
    }


def kills(folder: Path, short: bool, scale: float) -> Figures:
    """Return what is lost or torn when a process is killed at any moment of a skill's life, and its heirs go on."""
    n = 16 if short else int(1000 * scale)
    shop, chance = Shop(folder), random.Random("kills")
    lost = torn = manual = broken = acknowledged = migrations = 0
    for at in range(n):
        child = Child(fault_children.live, shop.store_path, folder, f"s{at}")
        time.sleep(chance.random() * KILL_AFTER_S)
        said = child.kill()
        found = read_skill(shop.skill).digest
        torn += not _rows(shop, "select 1 from version where id = ?", found)
        acknowledged += len(said)
        lost += sum(not _is_kept(shop, what, value) for what, value in said)
        broken += _rows(shop, "pragma integrity_check") != [("ok",)]
        if at % 10 == 0:  # a store that was killed while it came to be, and the plain command line after it
            migrations += 1
            manual += not _migrates(folder / f"fresh{at}", chance)
            manual += _cli(shop, "skills") != 0 or _cli(shop, "history", "ledger-clerk") != 0
        manual += not _recovers(shop)
    return {
        "n": n, "lost": lost, "torn_files": torn, "manual_steps": manual, "integrity_failures": broken,
        "acknowledged": acknowledged, "migrations": migrations,
    }  # fmt: skip


def _is_kept(shop: Shop, what: str, value: object) -> bool:
    sql = {
        "recorded": "select 1 from trajectory where id = ?",
        "proposed": "select 1 from candidate where id = ?",
        "evaluated": "select 1 from decision d join candidate c on c.version_id = d.version_id where c.id = ?",
        "promoted": "select 1 from promotion where candidate_id = ? and state = 'done'",
    }.get(what)
    return sql is None or bool(_rows(shop, sql, value))


def _recovers(shop: Shop) -> bool:
    """Return whether the next command finds store and file in one state, with nothing to do by hand."""
    try:
        with Workspace(shop.store_path, project=shop.folder, environ={}) as workspace:
            tracked = workspace.skill("ledger-clerk")
            pending = workspace.store.promotions.list_pending()
            return not pending and tracked.live_version == read_skill(shop.skill).digest
    except SkillOptError:
        return False


def _migrates(folder: Path, chance: random.Random) -> bool:
    """Return whether a store opens whose first process was killed while it made the tables."""
    path = folder / "skillopt.db"
    child = Child(_open, path)
    time.sleep(chance.random() * 0.1)
    child.kill()
    try:
        with Workspace(path, project=folder, environ={}) as workspace:
            return workspace.store.skills.list_skills() == []
    except SkillOptError:
        return False


def _open(tell: Callable[[object], None], path: Path) -> None:
    with Workspace(path, project=path.parent, environ={}) as workspace:
        tell(len(workspace.store.skills.list_skills()))


def promotions(folder: Path, short: bool, scale: float) -> Figures:
    """Return which updates are lost when agents promote to one file at once, and a person edits it meanwhile."""
    n, each = (4, 3) if short else (16, max(1, int(200 * scale)))
    shop = Shop(folder)
    agents = [Child(fault_children.promote, shop.store_path, folder, f"a{at}", each) for at in range(n)]
    said = [answer for agent in agents for answer in agent.rest()]
    text = (shop.skill / "SKILL.md").read_text()
    lost = sum(status == "promoted" and rule not in text for status, rule, _ in said)
    agents = [Child(fault_children.promote, shop.store_path, folder, f"b{at}", each) for at in range(n)]
    person = Child(fault_children.edit, shop.skill / "SKILL.md", 5 * each)
    more = [answer for agent in agents for answer in agent.rest()]
    gone = {rule for rules in person.rest() for rule in rules}
    statuses = Counter(status for status, _, _ in (*said, *more))
    return {
        "n": len(said) + len(more), "lost_updates": lost + len(gone), "edits_of_a_person": 5 * each,
        "unexplained": sum(status != "promoted" and not why for status, _, why in (*said, *more)),
        "statuses": dict(statuses),
    }  # fmt: skip


def edits(folder: Path, short: bool, scale: float) -> Figures:
    """Return how many bytes changed outside of what drawn patches name."""
    n, outside, applied = 10_000 if short else int(100_000 * scale), 0, 0
    for at in range(n):
        chance = random.Random(f"edit {at}")
        content = drawn_edits.document(chance)
        outside += drawn_edits.changed_outside(content, drawn_edits.patch(chance, content))
        applied += 1
    return {"n": applied, "bytes_changed_outside": outside}


def calls(folder: Path, short: bool, scale: float) -> Figures:
    """Return what was wrong after a promotion in which a call into the system failed."""
    found = promotion_faults.measure(folder, errors=promotion_faults.ERRORS[: 1 if short else None])
    return {"n": found.n, "wrong": len(found.wrong), "told": found.wrong[:5]}


def red_team(folder: Path, short: bool, scale: float) -> Figures:
    """Return how many planted lessons went live, and how many honest ones were held."""
    return redteam.figures(short=short)


def secrets(folder: Path, short: bool, scale: float) -> Figures:
    """Return which share of planted secrets was found, and of ordinary lines changed."""
    found, _, _ = redaction.found(0)
    return {"found": round(found, 4), "prose_changed": round(redaction.changed()["prose_changed"], 6)}


def flipped(folder: Path, short: bool, scale: float) -> Figures:
    """Return how many flipped bytes changed what the store says and were noticed by nothing."""
    if not short:
        found = flips.measure(short=scale < 1)
    else:
        sound = flips.make_store(folder).read_bytes()
        offsets = random.Random(0).sample(range(len(sound)), len(sound))
        found = flips.flip(sound, offsets, MOST_FLIPS_S)
    return {"n": found.bytes, "changing": found.flips_changing_dump, "unnoticed": len(found.unnoticed)}


MEASURES: dict[str, Measure] = {
    "writers": writers, "kills": kills, "promotions": promotions, "edits": edits, "calls": calls,
    "redteam": red_team, "redaction": secrets, "flips": flipped,
}  # fmt: skip


def _rows(shop: Shop, sql: str, *values: object) -> list[tuple[object, ...]]:
    pool = Pool(shop.store_path)
    try:
        return [tuple(row) for row in pool.rows(sql, list(values))]  # type: ignore[arg-type]
    finally:
        pool.close()


def _cli(shop: Shop, *arguments: str) -> int:
    program = "from skillopt_mcp.cli.main import main; raise SystemExit(main())"
    command = [sys.executable, "-c", program, "--store", str(shop.store_path), *arguments]
    return subprocess.run(command, capture_output=True, cwd=shop.folder, check=False).returncode


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", nargs="+", choices=list(MEASURES), default=list(MEASURES))
    parser.add_argument("--scale", type=float, default=1.0, help="this share of the long sizes")
    options = parser.parse_args()
    result: dict[str, object] = {}
    for name in options.only:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            result[name] = MEASURES[name](Path(folder).resolve(), options.short, options.scale)
        if not options.json:
            print(f"{name} ({time.monotonic() - started:.1f} s): {json.dumps(result[name])}", flush=True)
    found = result.get("flips")
    if isinstance(found, dict):
        result["bytes_flipped_unnoticed"] = found["unnoticed"]
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
