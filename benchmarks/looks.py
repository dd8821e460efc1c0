"""Looks: the CPU of `skills`, `show`, `list_skills`; the memory of an idle server; the bytes of the demo's store.

    python benchmarks/looks.py [--short] [--json]

CPU is the median of whole commands. Memory is the private part of a server after `initialize` and one tool call, next
to that of a bare server of the same SDK. The large store has 500 skills (--short: 100) with 12 candidates each; there
the CPU of a server for a first page of `list_skills` is compared with that for an `inspect` of one skill.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path

from benchmarks.doors import BARE, StdioHost, command, ours, parser, run, show

N_SKILLS, N_EACH = 500, 12
SKILL = "---\nname: {name}\ndescription: Fix tests.\n---\n\nRead the error first.\n"


def cpu_s(argv: list[str], n: int) -> float:
    """Return the median CPU seconds of a command."""
    return statistics.median(_once(argv) for _ in range(n))


def _once(argv: list[str]) -> float:
    before = os.times()
    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def large_store(folder: Path, n_skills: int) -> Path:
    """Return a store with many skills and candidates."""
    store, skills = folder / "large.db", folder / "skills"
    for n in range(n_skills):
        (skills / f"skill-{n:03}").mkdir(parents=True)
        (skills / f"skill-{n:03}" / "SKILL.md").write_text(SKILL.format(name=f"skill-{n:03}"))
    with StdioHost(ours(store), folder) as host:
        edits = [{"op": "append", "content": "- Then read the test."}]
        host.call("propose_edits", {"skill": str(skills / "skill-000"), "edits": edits})
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.row_factory = sqlite3.Row
        tables = ("skill", "version", "version_file", "candidate", "edit")
        made = {table: [dict(row) for row in connection.execute(f"select * from {table}")] for table in tables}
        for n in range(n_skills * N_EACH):
            skill, copy = divmod(n, N_EACH)
            name, version = f"skill-{skill:03}", made["candidate"][0]["version_id"]
            ids = {"skill_id": made["skill"][0]["id"] + skill, "id": f"c-{n:012x}", "candidate_id": f"c-{n:012x}"}
            for table in tables if skill or copy else ():
                for row in made[table]:
                    new = {**row, **{column: ids[column] for column in ids if column in row}}
                    if table == "skill":
                        new |= {"id": ids["skill_id"], "name": name, "path": str(skills / name)}
                    elif table == "version":
                        new["id"] = row["id"]
                    for column in ("id", "version_id") if copy else ():
                        new[column] = f"{version}-{copy}" if new.get(column) == version else new.get(column)
                    _insert(connection, table, {column: new[column] for column in row})
        assert connection.execute("select count(*) from candidate").fetchone()[0] == n_skills * N_EACH
    return store


def _insert(connection: sqlite3.Connection, table: str, row: dict[str, object]) -> None:
    places = ", ".join("?" * len(row))
    connection.execute(f"insert or ignore into {table} ({', '.join(row)}) values ({places})", tuple(row.values()))


def private_mb(argv: list[str], folder: Path) -> float:
    """Return the private memory of an idle server in MB (Linux; NaN elsewhere)."""
    with StdioHost(argv, folder) as host:
        tool = "list_skills" if argv is not BARE else "record_trajectory"
        host.call_ms(tool, {} if argv is not BARE else {"skill": "x", "task": "x"})
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


def measure(n_runs: int, n_skills: int) -> dict[str, float]:
    """Return all figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        demo = run(None, "demo", "--dir", str(folder / "demo"))
        small = Path(demo["store_path"])
        figures = {
            "skills_cpu_s": cpu_s(command(small, "skills"), n_runs),
            "show_cpu_s": cpu_s(command(small, "show", demo["candidate_id"]), n_runs),
            "demo_store_bytes": sum(
                path.stat().st_size for path in small.parent.glob(f"{small.name}*") if path.is_file()
            ),
        }
        large = large_store(folder, n_skills)
        assert len(run(large, "skills")["skills"]) == n_skills
        figures["large_skills_cpu_s"] = cpu_s(command(large, "skills"), n_runs)
        with StdioHost(ours(large), folder) as host:
            one = server_cpu_s(host, "inspect", {"id": "skill-000"})
            figures["list_skills_to_inspect"] = server_cpu_s(host, "list_skills", {}) / one
        figures["server_private_mb"] = private_mb(ours(folder / "idle.db"), folder)
        figures["bare_private_mb"] = private_mb(BARE, folder)
    return {name: round(value, 3) for name, value in figures.items()}


def main() -> None:
    """Print the figures."""
    options = parser(__doc__, "each command once, a smaller store").parse_args()
    figures = measure(1 if options.short else 5, 100 if options.short else N_SKILLS)
    show(
        figures, options.json, skills_cpu_s="0.25", show_cpu_s="0.25", large_skills_cpu_s="0.6",
        list_skills_to_inspect="3", server_private_mb="55", demo_store_bytes="900,000",
    )  # fmt: skip


if __name__ == "__main__":
    main()
