"""Looks: the CPU of `skills`, `show`, `report`, `list_skills` and `inspect`; the memory of a server; the demo's store.

    python benchmarks/looks.py [--short] [--json] [--before PROGRAM]

CPU is the median of whole commands, or the mean of a server for a call. Memory is the private part of a server: idle,
after `initialize` and one tool call, next to that of a bare server of the same SDK; and on the large store before and
after 300 large answers. The large store is grown from that of the demo: 500 skills (--short: 50), each with 12
candidates and 600 attempts. PROGRAM is the console script of another build, which is measured on a store of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import statistics
import subprocess
import tempfile
import zlib
from contextlib import closing
from pathlib import Path

from benchmarks.doors import BARE, SCRIPT, StdioHost, ours, parser, show
from skillopt_mcp.core.candidates import candidate_id
from skillopt_mcp.core.skills import files_digest
from skillopt_mcp.store.events import append

N_SKILLS, N_EACH = 500, 12
AT = "2026-01-01T00:00:00.000Z"


def cpu_s(argv: list[str], n: int) -> float:
    """Return the median CPU seconds of a command."""
    return statistics.median(_once(argv) for _ in range(n))


def _once(argv: list[str]) -> float:
    before = os.times()
    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def grow(store: Path, n_skills: int) -> None:
    """Fill the store of a demo with copies of its skill, each with 12 candidates and 600 attempts, tested and recorded.

    What `store verify` checks of them holds.
    """
    folder = store.parent
    with closing(sqlite3.connect(store)) as connection, connection:
        for setting in ("synchronous = off", "cache_size = -200000", "temp_store = memory"):
            connection.execute(f"pragma {setting}")
        connection.create_function("candidate_id", 3, candidate_id)
        accepted, base = connection.execute(
            "select t.id, t.base_version from promotion_test t join decision on scope = t.id where verdict = 'better'"
        ).fetchone()
        [path, main, executable] = connection.execute(
            "select path, content, executable from version_file join blob using (sha256) where version_id = ?", [base]
        ).fetchone()
        main = zlib.decompress(main) if main[:1] == b"x" else main
        (n_tasks, n_calls, n_trials, n_decisions) = (
            connection.execute(f"select max(id) from {table}").fetchone()[0]
            for table in ("task", "call", "trial", "decision")
        )
        connection.execute("create temp table copy(s integer primary key, rest integer)")
        connection.execute("create temp table made(version text, content text)")
        for n in range(2, n_skills + 1):
            connection.execute("insert into copy values (?, ?)", [n, n - 1])
            (folder / "skills" / f"skill-{n:03}").mkdir()
            (folder / "skills" / f"skill-{n:03}" / "SKILL.md").write_bytes(main)
        for n in range(N_EACH - 2):
            content = main + b"- Rule %d: read the whole line first.\n" % n
            sha256 = hashlib.sha256(content).hexdigest()
            version = files_digest([(path, bool(executable), sha256)])
            connection.execute("insert into blob values (?, ?, 'raw', ?)", [sha256, len(content), content])
            connection.execute("insert into version values (1, ?, ?, 'edited', ?)", [version, base, AT])
            connection.execute("insert into version_file values (1, ?, ?, ?, ?)", [version, path, sha256, executable])
            connection.execute("insert into made values (?, ?)", [version, f"- Rule {n}: read the whole line first."])
        connection.execute(
            "insert into skill(id, name, path, live_version, n_seen) select s, printf('skill-%03d', s),"
            " printf('%s/skill-%03d', ?, s), ?, rest * 600 + 300 from copy",
            [str(folder / "skills"), base],
        )

        def copy(table: str, where: str, *values: object, **changed: str) -> None:
            columns = [str(row[1]) for row in connection.execute(f"pragma table_info({table})")]
            chosen = ", ".join(changed.get(column, f"t.{column}") for column in columns)
            connection.execute(
                f"insert into {table} select {chosen} from copy cross join {table} t where {where}", values
            )

        # The test that accepted is copied to the second half of the skills.
        tested = f"(t.{{0}} = ? and s > {n_skills // 2} or t.{{0}} <> ? and t.{{0}} glob 't-*')"
        of_test, asked = (accepted, accepted), "t.call_id in (select id from call where {0})"
        in_copy = "substr({0}, 1, 2) || printf('%04x', s) || substr({0}, 7)"
        call, task = f"t.call_id + rest * {n_calls}", f"rest * {n_tasks}"
        made = "candidate_id(s, t.base_version, t.version_id)"
        copy("version", "skill_id = 1", skill_id="s")
        copy("version_file", "skill_id = 1", skill_id="s")
        copy("task", "skill_id = 1", skill_id="s", id=f"t.id + {task}")
        for table, id in (("reply", "t.call_id"), ("trial", f"t.id + rest * {n_trials}")):
            where = asked.format(tested.format("scope").replace("t.scope", "scope"))
            copy(table, where, *of_test, id=id, call_id=call, task_id=f"t.task_id + {task}")
        copy(
            "call", tested.format("scope"), *of_test, id=f"t.id + rest * {n_calls}", key="randomblob(32)",
            scope=in_copy.format("t.scope"),
        )  # fmt: skip
        copy(
            "promotion_test", tested.format("id"), *of_test, id=in_copy.format("t.id"), skill_id="s",
            tasks=f"(select json_group_array(value + {task}) from json_each(t.tasks))",
        )  # fmt: skip
        copy("test_attempt", tested.format("test_id"), *of_test, test_id=in_copy.format("t.test_id"), call_id=call)
        copy(
            "decision", tested.format("scope"), *of_test, id=f"t.id + rest * {n_decisions}", skill_id="s",
            scope=in_copy.format("t.scope"),
        )  # fmt: skip
        copy("candidate", "origin <> 'step'", id=made, skill_id="s", origin="'host'", run_id="null")
        connection.execute(
            "insert into candidate(id, skill_id, base_version, version_id, origin, reasoning)"
            " select candidate_id(s, ?1, version), s, ?1, version, 'host', '' from copy, made",
            [base],
        )
        connection.execute(
            "insert into edit(candidate_id, n, op, path, content, status, detail) select candidate_id(s, ?1, version),"
            " 0, 'append', 'SKILL.md', content, 'applied', '' from copy, made",
            [base],
        )
        connection.execute(
            "with recursive n(k) as (select 0 union all select k + 1 from n where k < 599)"
            " insert into trajectory(id, skill_id, version_id, session_id, position, prompt, answer, hard, soft,"
            " reason, messages) select 1 + rest * 600 + k, s, ?, 's-' || (k / 20), k % 20, 'Add up receipt ' || k,"
            " 'It is ' || k, iif(k % 10, k % 2, null), iif(k % 10, k % 2, null), '', '[]' from copy, n"
            " where k < 600 - (select count(*) from test_attempt a join promotion_test p on p.id = a.test_id"
            " where p.skill_id = s)",
            [base],
        )
        recorded = {"candidate_made": "candidate", "test_opened": "promotion_test", "decision_taken": "decision"}
        for kind, table in recorded.items():
            for [key] in connection.execute(f"select id from {table} where skill_id > 1").fetchall():
                append(connection, kind, key)
        [n] = connection.execute("select (select count(*) from trajectory) + (select count(*) from test_attempt)")
        assert n[0] >= 600 * (n_skills - 1), n


def private_mb(host: StdioHost) -> float:
    """Return the private memory of a server in MB (Linux; NaN elsewhere)."""
    path = Path(f"/proc/{host.pid}/smaps_rollup")
    lines = path.read_text().splitlines() if path.exists() else []
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith("Private_")]
    return round(sum(kilobytes) / 1024, 1) if kilobytes else float("nan")


def server_cpu_s(host: StdioHost, tool: str, arguments: dict[str, object], n: int = 50) -> float:
    """Return the mean CPU seconds of a server for a call of a tool (Linux)."""

    def used() -> int:
        return sum(map(int, Path(f"/proc/{host.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))

    host.call(tool, arguments)
    before = used()
    for _ in range(n):
        host.call(tool, arguments)
    return (used() - before) / os.sysconf("SC_CLK_TCK") / n


def measure(program: str, folder: Path, n_runs: int, n_skills: int) -> dict[str, float]:
    """Return the figures of one build."""
    folder.mkdir()
    store = folder / "demo" / "skillopt.db"
    demo = [program, "demo", "--dir", str(store.parent), "--json"]
    made = json.loads(subprocess.run(demo, stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout)
    on_store, page = [program, "--store", str(store)], str(folder / "page.html")
    one = cpu_s([*on_store, "skills"], n_runs)
    figures = {
        "skills_one_cpu_s": one,
        "show_cpu_s": cpu_s([*on_store, "show", made["candidate_id"]], n_runs),
        "demo_store_bytes": sum(path.stat().st_size for path in store.parent.glob("skillopt.db*") if path.is_file()),
    }
    grow(store, n_skills)
    figures["skills_cpu_s"] = cpu_s([*on_store, "skills"], n_runs)
    figures["skills_to_one"] = figures["skills_cpu_s"] / one
    figures["report_cpu_s"] = cpu_s([*on_store, "report", "--html", page], n_runs)
    with StdioHost([*on_store, "serve"], folder) as host:
        figures["inspect_cpu_s"] = server_cpu_s(host, "inspect", {"id": "skill-002"}, 200)
        figures["list_skills_cpu_s"] = server_cpu_s(host, "list_skills", {})
        figures["list_skills_to_inspect"] = figures["list_skills_cpu_s"] / figures["inspect_cpu_s"]
        figures["memory_mb"] = private_mb(host)
        for n in range(300):
            host.request("resources/read", {"uri": "ui://skillopt/report" if n % 3 else "skillopt://skills"})
        figures["memory_after_300_mb"] = private_mb(host)
    return {name: round(value, 4) for name, value in figures.items()}


def main() -> None:
    """Print the figures."""
    options = parser(__doc__, "each command once, a smaller store")
    options.add_argument("--before", metavar="PROGRAM", help="the console script of another build")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        builds = {"ours": SCRIPT, **({"before": given.before} if given.before else {})}
        measured = {
            build: measure(program, folder / build, 1 if given.short else 5, 50 if given.short else N_SKILLS)
            for build, program in builds.items()
        }
        figures: dict[str, object] = {
            name: {build: found[name] for build, found in measured.items()} for name in measured["ours"]
        }
        for name, argv, tool in (
            ("server", ours(folder / "idle.db"), "list_skills"),
            ("bare", BARE, "record_trajectory"),
        ):
            with StdioHost(argv, folder) as host:
                host.call_ms(tool, {} if name == "server" else {"skill": "x", "task": "x"})
                figures[f"{name}_private_mb"] = private_mb(host)
    show(
        figures, given.json, skills_to_one="1.5", list_skills_to_inspect="3", report_cpu_s="half of before",
        server_private_mb="55", demo_store_bytes="900,000",
    )  # fmt: skip


if __name__ == "__main__":
    main()
