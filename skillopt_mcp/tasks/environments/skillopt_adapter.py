"""Skillopt rows: what SkillOpt's adapters take and give, items and result rows, read as tasks and attempts."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Protocol, cast

from skillopt_mcp.core.calls import Message
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import SPLITS, NewTask, Split, Task
from skillopt_mcp.core.text import quoted, storable
from skillopt_mcp.tasks.environments.base import Rolled, RolloutFailed
from skillopt_mcp.tasks.environments.registry import SHOWN, parse_options
from skillopt_mcp.tasks.judges.kinds.reported import ByEnvironment

_ASKING = ("question", "prompt", "instruction", "task_description", "problem", "query")
_BROKEN_OFF = ("error", "timeout")
CONTEXT_CHARACTERS = 6_000


def parse_result(given: object, wanted: str | None, folder: Path) -> Rolled:
    """Return the one attempt that an adapter reports. Raises RolloutFailed when it reports none, or no score."""
    rows = list(given) if isinstance(given, Sequence) else []
    if len(rows) != 1 or not isinstance(rows[0], Mapping):
        raise RolloutFailed(f"the adapter gave {len(rows)} results for one task")
    row = rows[0]
    if wanted is not None and str(row.get("id")) != wanted:
        raise RolloutFailed(f"the adapter gave the result of task '{row.get('id')}' instead of '{wanted}'")
    reason = str(row.get("fail_reason") or "")
    if row.get("agent_ok") is False or row.get("phase") in _BROKEN_OFF:
        raise RolloutFailed(reason or "the agent gave no answer")
    hard, soft = row.get("hard"), row.get("soft")
    # What is neither 0 nor 1 is not a pass mark: partial success belongs into soft.
    if hard not in (0, 1) or not isinstance(soft, int | float) or not 0 <= soft <= 1:
        raise RolloutFailed(f"the adapter scored hard {hard!r} and soft {soft!r}: 0 or 1, and 0 to 1, are scores")
    answer = next((text for name in ("predicted_answer", "response") if (text := row.get(name))), "")
    return Rolled(str(answer), bool(hard), float(soft), reason, tuple(_messages(row, folder)))


def _messages(row: Mapping[str, object], folder: Path) -> Iterator[Message]:
    """Yield the conversation."""
    given = row.get("conversation")
    # The published adapters leave it with their predictions.
    for path in () if given else sorted(folder.glob("predictions/*/conversation.json")):
        with suppress(OSError, ValueError, RecursionError):
            given = json.loads(path.read_text("utf-8"))
            break
    for each in given if isinstance(given, Sequence) else []:
        if isinstance(each, Mapping) and isinstance(each.get("content"), str):
            yield Message(str(each.get("role") or "assistant"), str(each["content"]))


Item = Mapping[str, object]
# What SkillOpt's trainer calls the splits when it asks an adapter for them.
_SPLIT_NAMES: dict[Split, str] = {"train": "train", "val": "valid_seen", "test": "valid_unseen"}
# The others are asked for only where its data are of the kind that needs them.
_METHODS = ("setup", "get_dataloader", "rollout", "get_task_types")
_COUNTS = ("n_train", "n_val", "n_test")
DEFAULT_SEED = 42


class Adapter(Protocol):
    """What is used of a SkillOpt `EnvAdapter`."""

    def setup(self, cfg: dict[str, object]) -> None: ...

    def get_dataloader(self) -> object: ...

    def build_env_from_batch(self, batch: object, **kwargs: object) -> object: ...

    def build_train_env(self, batch_size: int, seed: int, **kwargs: object) -> object: ...

    def build_eval_env(self, env_num: int, split: str, seed: int, **kwargs: object) -> object: ...

    def rollout(self, env_manager: object, skill_content: str, out_dir: str, **kwargs: object) -> object: ...

    def get_task_types(self) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class EnvironmentEpisode:
    """One task of an adapter: an item of its data, or, for a simulator, the seed that the task is built from."""

    split: Split
    id: str
    item: Item | None = None
    seed: int = 0


class SkillOptEnvironment:
    """The tasks of an adapter, each rolled out alone by the adapter itself, which also scores it.

    `options` are the trainer's flat settings, which the adapter reads in `setup`; one without a data set also needs
    n_train, n_val and n_test: how many tasks to build.
    """

    def __init__(self, adapter: Adapter, name: str | None = None, options: Mapping[str, object] | None = None) -> None:
        self._adapter = adapter
        self._options = dict(options or {})
        self._is_set_up = False
        self.name = name or f"skillopt:{type(adapter).__module__}:{type(adapter).__qualname__}"

    @property
    def version(self) -> str:
        """What tasks and scores depend on: the release of SkillOpt, the settings and the data."""
        rows = [[each.split, each.id, each.item, each.seed] for each in self._episodes.values()]
        data = json.dumps([rows, self._options] if self._options else rows, sort_keys=True, default=str)
        release = type(self._adapter).__module__.partition(".")[0]
        with suppress(PackageNotFoundError):
            release = f"{release}-{installed_version(release)}"
        return f"{release}+{hashlib.sha256(data.encode()).hexdigest()[:16]}"

    @property
    def task_types(self) -> list[str]:
        """Return the adapter's own task types."""
        self._set_up()
        return [str(each) for each in self._list_given(self._adapter.get_task_types(), "get_task_types")]

    def tasks(self, split: Split) -> list[NewTask]:
        """Return the adapter's tasks of a split, those to be scored by itself. Raises BadInput when it has none."""
        seen: set[str] = set()
        made = []
        for name, episode in self._episodes.items():
            prompt = f"Episode {episode.id} of {self.name}"
            if item := episode.item:
                asked = [text for key in _ASKING if isinstance(text := item.get(key), str) and text.strip()]
                prompt, context = asked[0] if asked else f"Item {item.get('id')}", item.get("context")
                # Of its other fields only the context, for they may hold what is expected.
                if asked and isinstance(context, str) and context:
                    prompt = f"{prompt}\n\nContext:\n{context[:CONTEXT_CHARACTERS]}"
            if prompt in seen:
                prompt = f"{prompt}\n\n(item {episode.id})"
            seen.add(prompt)
            if episode.split == split:
                kind = str((episode.item or {}).get("task_type") or (self.task_types or ["episode"])[0])
                judge = ByEnvironment(name=self.name)
                made.append(NewTask(storable(prompt), judge, storable(name), split, (storable(kind),)))
        return made

    def rollout(self, task: Task, files: SkillFiles, draw: str) -> Rolled:
        """Return one attempt as the adapter made and scored it. Raises RolloutFailed when it gave no score."""
        episode = self._episodes.get(task.name)
        if episode is None:
            raise RolloutFailed(f"{self.name} has no task {quoted(task.name)}: its data changed since it was added")
        with tempfile.TemporaryDirectory(prefix="skillopt-rollout-") as folder:
            built: object
            if episode.item is None:
                built = self._simulate(episode.split, 1, episode.seed)
            elif self._adapter.get_dataloader() is None:
                built = [dict(episode.item)]
            else:
                seed = int.from_bytes(hashlib.sha256(draw.encode()).digest()[:4], "big") >> 1
                batch_spec = import_module("skillopt.datasets.base").BatchSpec
                phase = "train" if episode.split == "train" else "eval"
                batch = batch_spec(phase, _SPLIT_NAMES[episode.split], seed, 1, [dict(episode.item)])
                built = self._adapter.build_env_from_batch(batch, out_root=folder)
            given = self._adapter.rollout(built, files.text, folder)
            return parse_result(given, episode.id if episode.item else None, Path(folder))

    def _simulate(self, split: Split, n: int, seed: int) -> object:
        if split == "train":
            return self._adapter.build_train_env(batch_size=n, seed=seed)
        return self._adapter.build_eval_env(env_num=n, split=_SPLIT_NAMES[split], seed=seed)

    def _set_up(self) -> None:
        """Set the adapter up, once, with a folder for its own files that stays as long as the environment is there."""
        if self._is_set_up:
            return
        folder = tempfile.mkdtemp(prefix="skillopt-adapter-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        config = {"seed": DEFAULT_SEED, **self._options, "out_root": folder, "env": type(self._adapter).__name__}
        self._adapter.setup(config)
        self._is_set_up = True

    @cached_property
    def _episodes(self) -> dict[str, EnvironmentEpisode]:
        """Return every task by the name that it is stored under."""
        self._set_up()
        found = [episode for split in SPLITS for episode in self._episodes_of(split)]
        episodes = {f"{each.split}/{each.id}": each for each in found}
        if len(episodes) < len(found):
            raise BadInput(f"{self.name} has two items of one id in a split: give each an id of its own")
        return episodes

    def _episodes_of(self, split: Split) -> list[EnvironmentEpisode]:
        loader = self._adapter.get_dataloader()
        items = getattr(loader, "get_split_items", None)
        if items is not None:
            return [_make_episode(split, item) for item in self._list_given(items(split), "get_split_items")]
        count = f"n_{split}"
        if count not in self._options:
            raise BadInput(f"{self.name} has no data set: set {count}=N, the number of {split} tasks to build")
        n, seed = (
            _parse_count(self._options[count], count),
            _parse_count(self._options.get("seed", DEFAULT_SEED), "seed"),
        )
        built = self._simulate(split, n, seed)
        if isinstance(built, Sequence) and built and all(isinstance(each, Mapping) and "id" in each for each in built):
            return [_make_episode(split, item) for item in built]
        first = seed + 1 + SPLITS.index(split) * 1_000_000
        return [EnvironmentEpisode(split, str(each), seed=each) for each in range(first, first + n)]

    def _list_given(self, value: object, method: str) -> list[object]:
        """What a method of the adapter gave as a list. Raises BadInput when it is none."""
        if not isinstance(value, Iterable) or isinstance(value, str):
            raise BadInput(f"{quoted(self.name, SHOWN)}: its method '{method}' gave {type(value).__name__}, not a list")
        return list(value)


def open_skillopt(options: str) -> SkillOptEnvironment:
    """Return the environment of "MODULE:CLASS,name=value,...": the adapter's class, and its settings.

    Raises BadInput when the class cannot be imported, or does not take a setting.
    """
    where, _, rest = options.partition(",")
    made = _import_class(where)
    given = parse_options(rest)
    parameters = inspect.signature(made).parameters
    known = (*parameters, *_COUNTS, "seed")
    for setting in (each for each in given if each not in known):
        near = difflib.get_close_matches(setting, known, n=1, cutoff=0.0)[0]
        raise BadInput(f"unknown setting {quoted(setting)}: did you mean {quoted(near)}?")
    adapter = cast(Adapter, made(**{name: value for name, value in given.items() if name in parameters}))
    return SkillOptEnvironment(adapter, f"skillopt:{options}", given)


def _import_class(where: str) -> type:
    """Return the adapter's class of "MODULE:CLASS". Raises BadInput when it cannot be imported, or is none."""
    module, _, class_name = where.partition(":")
    if "/" in module or module.startswith(".") or module.endswith(".py"):
        raise BadInput(
            f"{quoted(where, SHOWN)} is a path: write skillopt:MODULE:CLASS, as Python imports it, and name the "
            "module's folder in PYTHONPATH"
        )
    try:
        made: object = getattr(import_module(module), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadInput(
            f"{quoted(where, SHOWN)} cannot be imported ({error}): write skillopt:MODULE:CLASS; a module that is not "
            "installed is found in the folders of PYTHONPATH"
        ) from error
    if not inspect.isclass(made):
        raise BadInput(f"{quoted(where, SHOWN)} is not a class: write skillopt:MODULE:CLASS, an EnvAdapter")
    lacking = [name for name in _METHODS if not callable(getattr(made, name, None))]
    if lacking:
        raise BadInput(f"{quoted(where, SHOWN)} is not an EnvAdapter of SkillOpt: it has no method '{lacking[0]}'")
    return made


def _make_episode(split: Split, item: object) -> EnvironmentEpisode:
    if not isinstance(item, Mapping) or item.get("id") in (None, ""):
        raise BadInput(f"an item of the {split} split has no id: SkillOpt's environments need one")
    return EnvironmentEpisode(split, str(item["id"]), item)


def _parse_count(value: object, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31:
        return value
    raise BadInput(f"{name} must be a whole number from 0, got {quoted(str(value))}")
