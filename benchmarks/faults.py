"""Faults: many writers, kills, races, full disks, hostile texts and random edits against a store and a skill.

    python benchmarks/faults.py [--short] [--json] [--only KEY ...] [--scale F]

Every figure counts what must not happen, next to how often it was tried. --short makes a few of each, without the red
team and redaction, which have benchmarks of their own.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import pty
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from benchmarks import drawn_edits, redaction, redteam
from benchmarks.doors import StdioHost, add_tasks, command, ours, parser, rows, run, run_as_person, vendor
from benchmarks.simulation import write_skill

Figures = dict[str, object]
Measure = Callable[[Path, bool, float], Figures]
SEED = 3
KILL_AFTER_S = 3.0
RULE = "- Rule "
RIGHT = "4711"
ERRORS = (errno.ENOSPC, errno.EROFS, errno.EACCES)
CALLS = ("open", "write", "fsync", "fchmod", "fchown", "mkdir", "rename", "unlink", "stat")


class Shop:
    """A skill with tasks in a registered root, a store, and a model that is right where it reads a wanted rule."""

    def __init__(self, folder: Path, backend: Callable[[str], str]) -> None:
        self.folder, self.store, self.backend = folder, folder / "skillopt.db", backend
        self.skill = write_skill(folder, SEED)
        self.main = self.skill / "SKILL.md"
        judge = {"kind": "exact", "expected": RIGHT}
        # Of words of their own: tasks that ask nearly the same are one unit of a promotion test.
        digests = [hashlib.sha256(f"task {n}".encode()).hexdigest() for n in range(60)]
        asked = [" ".join(each[at : at + 6] for at in (0, 6, 12, 18)) for each in digests]
        add_tasks(self.store, self.skill, [{"prompt": f"Number {each}.", "judge": judge} for each in asked])
        run(self.store, "skills", "add-root", str(folder / "skills"))

    def server(self, name: str) -> StdioHost:
        """Return a server whose target is right when the skill has the rule that is wanted under this name."""
        return StdioHost(ours(self.store, "--target", self.backend(name)), self.folder)


WANTED: dict[str, str] = {}


@contextmanager
def shop_in(folder: Path) -> Iterator[Shop]:
    """Yield a shop; `WANTED` maps a model to its rule."""
    with vendor(lambda model, text: RIGHT if WANTED.get(model, RULE) in text else "no") as backend:
        yield Shop(folder, backend)


def propose(shop: Shop, host: StdioHost, *edits: dict[str, str]) -> str:
    """Return a candidate with these edits."""
    return str(host.call("propose_edits", {"skill": str(shop.skill), "edits": list(edits)})["candidate_id"])


def is_accepted(host: StdioHost, candidate: str) -> bool:
    """Return whether the promotion test of a candidate accepted it."""
    tested = host.call("evaluate_candidate", {"candidate_id": candidate})
    while tested.get("status") in ("estimate", "running"):
        tested = host.call("evaluate_candidate", {"candidate_id": candidate})
    return bool(tested["accepted"])


def writers(folder: Path, short: bool, scale: float) -> Figures:
    """Return what is lost when many servers record into one store, alone and during a training run."""
    n, each = (3, 10) if short else (32, max(1, int(1000 * scale)))
    with shop_in(folder) as shop:
        alone = _written(shop, n, each, "alone")
        spec = f"simulated:honest,seed={SEED}"
        settings = ["--epochs", "9", "--batch", "10", "--yes"]
        argv = command(shop.store, "replay", str(shop.skill), "--target", spec, "--optimizer", spec, *settings)
        trainer = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        together = _written(shop, n, each, "together")
        trainer.kill()
        trainer.wait()
    return {"processes": n, "writes": each, **alone, "with_replay": together}


def _written(shop: Shop, n: int, each: int, name: str) -> Figures:
    ids, times, errors = list[str](), list[float](), list[str]()

    def write(session: str) -> None:
        with shop.server(session) as host:
            host.call("list_skills", {})
            for index in range(each):
                attempt = {"task": "what?", "answer": f"{session} {index} " * 40, "hard": True}
                started = time.perf_counter()
                answer = host.answer(
                    "record_trajectory", {"skill": str(shop.skill), **attempt, "session_id": session, "index": index}
                )
                times.append((time.perf_counter() - started) * 1000)
                if answer.get("isError"):
                    errors.append(str(answer["content"]))
                else:
                    ids.append(answer["structuredContent"]["trajectory_id"].partition(":")[2])

    _at_once([(write, f"{name}{at}") for at in range(n)])
    stored = {str(row[0]) for row in rows(shop.store, "select id from trajectory")}
    return {
        "errors": len(errors),
        "lost": n * each - len(set(ids) & stored),
        "p99_ms": round(statistics.quantiles(times, n=100)[-1], 2),
        "worst_ms": round(max(times), 1),
    }


def _at_once(jobs: list[tuple[Callable[..., None], str]]) -> None:
    threads = [threading.Thread(target=function, args=[name]) for function, name in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Life:
    """Records, proposes, evaluates, promotes and rolls back until it is killed; `acknowledged` is what was answered."""

    def __init__(self, shop: Shop, name: str) -> None:
        self.shop, self.name = shop, name
        self.acknowledged: list[tuple[str, str]] = []
        self._is_killed = False
        self._process: subprocess.Popen[Any] | None = None
        self._host: StdioHost | None = None
        self._thread = threading.Thread(target=self._live)
        self._thread.start()

    def kill(self) -> None:
        """Kill the server and the command that is running."""
        self._is_killed = True
        for process in (self._host.process if self._host else None, self._process):
            if process:
                process.kill()
        self._thread.join()

    def _live(self) -> None:
        try:
            with self.shop.server(self.name) as self._host:
                for n in range(10_000):
                    self._one(self._host, n)
        except EOFError:
            return

    def _one(self, host: StdioHost, n: int) -> None:
        skill, rule = str(self.shop.skill), f"{RULE}{self.name}.{n}."
        WANTED[self.name] = rule
        attempt = {"task": "what?", "answer": "1", "hard": False, "session_id": self.name, "index": n}
        recorded = host.call("record_trajectory", {"skill": skill, **attempt})["trajectory_id"]
        self.acknowledged.append(("recorded", recorded.partition(":")[2]))
        candidate = propose(self.shop, host, {"op": "append", "content": rule})
        self.acknowledged.append(("proposed", candidate))
        if is_accepted(host, candidate):
            self.acknowledged.append(("evaluated", candidate))
            if self._cli("promote", candidate) == "promoted":
                self.acknowledged.append(("promoted", candidate))
        if n % 2:
            self._cli("rollback", self.shop.skill.name)

    def _cli(self, *arguments: str) -> str:
        argv = command(self.shop.store, *arguments, "--yes", "--json")
        screen, terminal = pty.openpty()
        with subprocess.Popen(argv, stdin=terminal, stdout=subprocess.PIPE, stderr=terminal) as self._process:
            if self._is_killed:
                self._process.kill()
            printed = self._process.communicate()[0]
        os.close(screen)
        os.close(terminal)
        if self._is_killed:
            raise EOFError
        return str(json.loads(printed).get("status", "")) if printed else ""


def kills(folder: Path, short: bool, scale: float) -> Figures:
    """Return what is lost or torn when processes are killed at any moment, and others continue."""
    n, chance = 2 if short else int(1000 * scale), random.Random("kills")
    lost = torn = manual = broken = acknowledged = migrations = 0
    with shop_in(folder) as shop:
        for at in range(n):
            life = Life(shop, f"s{at}")
            time.sleep(0.5 + chance.random() * KILL_AFTER_S)
            life.kill()
            live = _sha(shop.main)
            torn += not rows(shop.store, "select 1 from version_file where sha256 = ?", live)
            acknowledged += len(life.acknowledged)
            lost += sum(not _is_kept(shop, what, value) for what, value in life.acknowledged)
            broken += rows(shop.store, "pragma integrity_check") != [("ok",)]
            if at % 10 == 0:  # a store that was killed during its creation
                migrations += 1
                manual += not _is_created(folder / f"fresh{at}.db", chance)
            manual += not _recovers(shop)
    return {
        "n": n, "lost": lost, "torn_files": torn, "manual_steps": manual, "integrity_failures": broken,
        "acknowledged": acknowledged, "migrations": migrations,
    }  # fmt: skip


def _sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _is_kept(shop: Shop, what: str, value: str) -> bool:
    sql = {
        "recorded": "select 1 from trajectory where id = ?",
        "proposed": "select 1 from candidate where id = ?",
        "evaluated": "select 1 from decision d join candidate c on c.version_id = d.version_id where c.id = ?",
        "promoted": "select 1 from promotion where candidate_id = ? and state = 'done'",
    }[what]
    return bool(rows(shop.store, sql, int(value) if what == "recorded" else value))


def _code(store: Path, *arguments: str) -> int:
    return subprocess.run(command(store, *arguments), capture_output=True, check=False).returncode


def _recovers(shop: Shop) -> bool:
    """Return whether the next command makes store and file agree."""
    if _code(shop.store, "show", shop.skill.name) != 0:
        return False
    pending = rows(shop.store, "select 1 from promotion where state = 'pending'")
    live = rows(
        shop.store,
        "select f.sha256 from skill s join version_file f on f.skill_id = s.id and f.version_id = s.live_version "
        "where f.path = 'SKILL.md'",
    )
    return not pending and live == [(_sha(shop.main),)]


def _is_created(store: Path, chance: random.Random) -> bool:
    """Return whether a store opens whose first process was killed while it made the tables."""
    making = ("skills", "add-root", str(store.parent))
    with subprocess.Popen(command(store, *making), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(chance.random())
        process.kill()
    return _code(store, *making) == 0


def promotions(folder: Path, short: bool, scale: float) -> Figures:
    """Return the updates that are lost when agents promote to one file while a person edits it."""
    n, each = (2, 1) if short else (16, max(1, int(20 * scale)))
    answers, gone = list[tuple[str, str, str]](), set[str]()
    with shop_in(folder) as shop:

        def promote(name: str) -> None:
            with shop.server(name) as host:
                for at in range(each):
                    rule = WANTED[name] = f"{RULE}{name}.{at}."
                    candidate = propose(shop, host, {"op": "append", "content": rule})
                    if not is_accepted(host, candidate):
                        answers.append(("not accepted", rule, "the test did not accept it"))
                        continue
                    done = run(shop.store, "promote", candidate, "--yes", codes=(0, 1))
                    why = f"{done.get('error', '')}{done.get('reason', '')}{done.get('next_step', '')}"
                    answers.append((str(done.get("status", "refused")), rule, why))

        def edit(name: str) -> None:
            """Save the file as an editor does, each time with one more rule, and note which of them are gone."""
            mine: list[str] = []
            for at in range(5 * each):
                text = shop.main.read_text()
                gone.update(rule for rule in mine if rule not in text)
                mine.append(f"{RULE}of a {name}, number {at}.")
                other = shop.main.with_name(".person")
                other.write_text("\n".join([text.rstrip("\n"), mine[-1], ""]))
                os.replace(other, shop.main)
                time.sleep(0.02)
            gone.update(rule for rule in mine if rule not in shop.main.read_text())

        _at_once([(promote, f"a{at}") for at in range(n)])
        text = shop.main.read_text()
        lost = sum(status == "promoted" and rule not in text for status, rule, _ in answers)
        _at_once([*((promote, f"b{at}") for at in range(n)), (edit, "person")])
    return {
        "n": len(answers), "lost_updates": lost + len(gone), "edits_of_a_person": 5 * each,
        "unexplained": sum(status != "promoted" and not why for status, _, why in answers),
        "statuses": dict(Counter(status for status, _, _ in answers)),
    }  # fmt: skip


def edits(folder: Path, short: bool, scale: float) -> Figures:
    """Return how many bytes random patches changed outside their spans."""
    n, outside = 2_000 if short else int(100_000 * scale), 0
    for at in range(n):
        chance = random.Random(f"edit {at}")
        content = drawn_edits.document(chance)
        outside += drawn_edits.changed_outside(content, drawn_edits.patch(chance, content))
    return {"n": n, "bytes_changed_outside": outside}


def calls(folder: Path, short: bool, scale: float) -> Figures:
    """Return what was wrong after a promotion of two files in which each system call failed in turn."""
    n, wrong = 0, list[str]()
    with shop_in(folder) as shop:
        with shop.server("calls") as host:
            WANTED["calls"] = f"{RULE}one."
            added = {"op": "append", "content": "x", "path": "references/a.md"}
            candidate = propose(shop, host, {"op": "append", "content": WANTED["calls"]}, added)
            assert is_accepted(host, candidate)
        before = _sha(shop.main)
        for error in ERRORS[: 1 if short else None]:
            for lasting in (True,) if short else (False, True):
                at, failed = 1, ["first"]
                while failed:
                    failed, result = _promoted_with(shop, candidate, at, error, lasting=lasting)
                    name = f"{errno.errorcode[error]} at call {at} ({', '.join(failed[:3])}{'...' if lasting else ''})"
                    wrong += [f"{name}: {each}" for each in _wrong(shop, before, result)]
                    n += bool(failed)
                    at += 20 if short else 1
    return {"n": n, "wrong": len(wrong), "first": wrong[:5]}


def _promoted_with(shop: Shop, candidate: str, at: int, error: int, *, lasting: bool) -> tuple[list[str], str]:
    """Return which calls of a promotion failed, and what it answered."""
    argv = [sys.executable, __file__, "--failing", f"{at},{error},{int(lasting)},{shop.skill}"]
    done = run_as_person([*argv, "--store", str(shop.store), "promote", candidate, "--yes", "--json"])
    failed: list[str] = json.loads(next(line for line in done.stderr.splitlines()[::-1] if line.startswith("[")))
    return failed, str(json.loads(done.stdout or "{}").get("status", ""))


def promote_failing(at: int, error: int, lasting: bool, skill: str, arguments: list[str]) -> None:
    """Run a command whose `at`-th call into the system fails, and with `lasting` all after it.

    Calls count from the first one on that changes something in the skill's folder. Prints the names of those that
    failed on stderr.
    """
    n_calls, failed = 0, list[str]()

    def is_failing(name: str, values: tuple[object, ...], dir_fd: object = None) -> bool:
        nonlocal n_calls
        if not n_calls and (
            name in ("mkdir", "rename", "unlink") or (name == "open" and int(str(values[1])) & os.O_CREAT)
        ):
            folder = os.readlink(f"/proc/self/fd/{dir_fd}") if dir_fd is not None else ""
            n_calls += f"{folder}/{values[0]}".startswith(skill)
        else:
            n_calls += bool(n_calls)
        if n_calls and (n_calls == at or (lasting and n_calls > at)):
            failed.append(name)
            return True
        return False

    def failing(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def called(*args: object, **kwargs: object) -> object:
            if is_failing(name, args, kwargs.get("dir_fd")):
                raise OSError(error, os.strerror(error))
            return real(*args, **kwargs)

        return called

    class Exchange:
        """The C library's renameat2, as ctypes calls it."""

        def __init__(self, real: Callable[..., int]) -> None:
            self.real = real

        def __call__(self, *args: object) -> int:
            if is_failing("renameat2", args):
                ctypes.set_errno(error)
                return -1
            return self.real(*args)

        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name != "real":
                setattr(self.real, name, value)

    found = ctypes.CDLL.__getattr__

    def looked_up(library: ctypes.CDLL, name: str) -> object:
        return Exchange(found(library, name)) if name == "renameat2" else found(library, name)

    for name in CALLS:
        setattr(os, name, failing(name, getattr(os, name)))
    ctypes.CDLL.__getattr__ = looked_up  # type: ignore[method-assign, assignment]
    [script] = entry_points(group="console_scripts", name="skillopt-mcp")
    sys.argv = ["skillopt-mcp", *arguments]
    try:
        script.load()()
    finally:
        sys.stderr.write(f"\n{json.dumps(failed)}\n")


def _wrong(shop: Shop, before: str, result: str) -> Iterator[str]:
    """Yield what is wrong once the disk works again and a command has opened the store; then roll back."""
    if not _recovers(shop):
        yield "store and file differ, or a promotion is pending"
    if strays := [path.name for path in shop.skill.rglob(".*") if path.is_file()]:
        yield f"left over: {strays}"
    if _sha(shop.main) != before:
        if result in ("refused", "stale"):
            yield "it was refused, but the file changed"
        run(shop.store, "rollback", shop.skill.name, "--yes", codes=(0, 1))
        if _sha(shop.main) != before:
            yield "it cannot be rolled back"


def red_team(folder: Path, short: bool, scale: float) -> Figures:
    """Return how many planted lessons went live, and how many honest ones were held."""
    return {**redteam.figures(short=short)}


def secrets(folder: Path, short: bool, scale: float) -> Figures:
    """Return which share of planted secrets was found, and of ordinary lines changed."""
    found, _, _ = redaction.found(0)
    changed = redaction.changed(redaction.MOST_BYTES // (40 if short else 1))["prose_changed"]
    return {"found": round(found, 4), "prose_changed": round(changed, 6)}


MEASURES: dict[str, Measure] = {
    "writers": writers, "kills": kills, "promotions": promotions, "edits": edits, "calls": calls,
    "redteam": red_team, "redaction": secrets,
}  # fmt: skip


def main() -> None:
    """Print the figures."""
    if sys.argv[1:2] == ["--failing"]:
        at, error, lasting, skill = sys.argv[2].split(",", 3)
        promote_failing(int(at), int(error), lasting == "1", skill, sys.argv[3:])
        return
    flags = parser(__doc__, "a few of each")
    flags.add_argument("--only", nargs="+", choices=list(MEASURES))
    flags.add_argument("--scale", type=float, default=1.0, help="this share of the long sizes")
    options = flags.parse_args()
    result: dict[str, object] = {}
    for name in options.only or (
        name for name in MEASURES if not options.short or name not in ("redteam", "redaction")
    ):
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            result[name] = MEASURES[name](Path(folder).resolve(), options.short, options.scale)
        if not options.json:
            print(f"{name} ({time.monotonic() - started:.1f} s): {json.dumps(result[name])}", flush=True)
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
