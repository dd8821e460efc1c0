"""Splits: which tasks the optimizer sees and which are held out, and the order in which an epoch takes them."""

from __future__ import annotations

import hashlib
import json
import math
import random
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.tasks import SPLITS, NewTask, Split, Task

DEFAULT_SHARES: dict[Split, float] = {"train": 1.0, "test": 2.0}


class StoredTask(NamedTuple):
    """What of a stored task, in use or removed, binds those that come later; `files` and `tags` as JSON."""

    id: int
    name: str
    prompt: str
    files: str
    split: Split
    digest: str
    group: str
    is_removed: bool
    waits: bool = False
    is_drawn: bool = False  # of one that waits: a run has it, so it stays in train
    tags: str = "[]"


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a new task goes: into `split`, unless it is there already or `fault` says why it cannot be added.

    `same` is the id of the stored one that it repeats.
    """

    split: Split
    fault: str = ""
    is_duplicate: bool = False
    same: int | None = None

    @property
    def is_new(self) -> bool:
        """Whether the task is to be stored."""
        return not (self.fault or self.is_duplicate)


def place_tasks(
    new: Iterable[NewTask], stored: Iterable[StoredTask], shares: Mapping[Split, float], *, waits: bool = False
) -> list[Placed]:
    """Return where each new task goes, in order.

    A split is frozen: no prompt and no group is in two splits, and a task that corrects a removed one, by its prompt or
    its name, joins the split of that. New tasks that `waits` go to train, whatever split they ask for; stored ones
    that wait bind no other task. Where nothing binds a task, its tags are spread over the splits.
    """
    by_digest: dict[str, StoredTask | None] = {}
    taken, removed, removed_names = set[str](), dict[str, Split](), dict[str, Split]()
    split_of: dict[tuple[str, str], Split] = {}
    group_splits: dict[str, Split] = {}
    counts, tagged = Counter[Split](), dict[str, Counter[Split]]()
    for each in stored:
        by_digest[each.digest] = each
        prompt = each.prompt.strip(string.whitespace)
        if not each.is_removed:
            taken.add(each.name)
        if each.waits:
            continue
        group_splits.setdefault(each.group, each.split)
        if not each.is_removed:
            split_of[prompt, each.files] = each.split
            counts[each.split] += 1
            for tag in json.loads(each.tags):
                tagged.setdefault(tag, Counter())[each.split] += 1
        elif not waits:
            removed_names[each.name] = removed[prompt] = each.split

    def bind(task: NewTask, split: Split) -> None:
        by_digest[task.digest] = None
        split_of[task.prompt.strip(string.whitespace), files_json(task)] = split
        group_splits.setdefault(task.group, split)
        counts[split] += 1
        for tag in task.tags:
            tagged.setdefault(tag, Counter())[split] += 1

    placed = []
    for task in new:
        digest, name, prompt = task.digest, default_name(task), task.prompt.strip(string.whitespace)
        bound = split_of.get((prompt, files_json(task))) or removed.get(prompt)
        there = by_digest.get(digest)
        of_group = group_splits.get(task.group) if task.group else None
        split = task.split or bound or of_group or removed_names.get(name)
        if split is None:
            split = assign_split(counts, shares, digest, [tagged.get(tag, Counter()) for tag in task.tags])
        if waits or (there and there.is_drawn):
            split = there.split if there else "train"
        if waits and (bound or of_group) and digest not in by_digest:
            placed.append(Placed(split, "another task has this prompt or group: a person has to add it at a terminal"))
        elif bound and split != bound:
            placed.append(Placed(split, f"split must be {bound}, where the same prompt is, got {split}"))
        elif of_group and split != of_group:
            placed.append(Placed(split, f'split must be {of_group}, where the group "{task.group}" is, got {split}'))
        elif there and not there.is_removed and task.group != there.group and (task.group or there.waits):
            placed.append(Placed(split, f'this task is stored with the group "{there.group}", which never changes'))
        elif there and there.is_removed:
            placed.append(Placed(split, "this task was removed: change its prompt, judge or files"))
        elif digest in by_digest:
            same = there.id if there and task.group == there.group else None
            placed.append(Placed(split, is_duplicate=True, same=same))
            if there and there.waits and not waits:
                bind(task, split)
        elif name in taken:
            placed.append(Placed(split, f'id "{name}" is taken by another task: choose another, or remove that one'))
        else:
            placed.append(Placed(split))
            taken.add(name)
            by_digest[digest] = None
            if not waits:
                bind(task, split)
    return placed


def default_name(task: NewTask) -> str:
    """Return the name of a task, made from its digest where its author gave none."""
    return task.name or f"task-{task.digest[:8]}"


def make_unstored(id: int, task: NewTask, split: Split) -> Task:
    """A task as it would be stored, of no skill yet."""
    facts = (task.prompt, task.judge, split, task.digest, task.tags, task.files, task.group)
    return Task(id, 0, default_name(task), *facts)


def files_json(task: NewTask | Task) -> str:
    """Return the files of a task as the store keeps them."""
    return json.dumps([[file.path, file.content] for file in task.files])


def assign_split(
    counts: Mapping[Split, int], shares: Mapping[Split, float], key: str, tags: Sequence[Mapping[Split, int]] = ()
) -> Split:
    """The split that a new task joins: the one furthest below its share, ties by the sha256 of `key`.

    Furthest below means the fewest tasks per unit of share (Adams' apportionment): an empty split comes before any
    other, so none that has a share stays empty. `tags` are the counts of the task's own tags: of those splits that have
    not had their shares of the present round (the tasks that make one of the smallest), that one comes first which is
    furthest below its share of the first tag; and before these a split that lacks a tag. Shares need not add up to 1; a
    split without one gets nothing. Raises BadInput when the shares cannot be used.
    """
    for split, share in shares.items():
        if split not in SPLITS:
            raise BadInput(f'unknown split "{split}"; use {", ".join(SPLITS)}')
        if not math.isfinite(share) or share < 0:
            raise BadInput(f'share "{share}" of split "{split}" is not possible; use a number >= 0')
    open_splits = [split for split in SPLITS if shares.get(split, 0) > 0]
    if not open_splits:
        raise BadInput("no split has a share; give at least one a number above 0, such as train=1, test=2")
    rounds = {split: counts.get(split, 0) * min(shares[each] for each in open_splits) / shares[split]
              for split in open_splits}  # fmt: skip
    n_rounds = math.floor(min(rounds.values()))
    filled = {
        split: (
            counts.get(split, 0) > 0,
            sum(each.get(split, 0) > 0 for each in tags),
            rounds[split] >= n_rounds + 1,
            tags[0].get(split, 0) / shares[split] if tags else 0,
            rounds[split],
        )
        for split in open_splits
    }
    least = min(filled.values())
    tied = [split for split, found in filled.items() if found == least]
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return tied[int.from_bytes(digest, "big") % len(tied)]


def order_epoch(n: int, seed: int, epoch: int) -> list[int]:
    """Return the positions 0..n-1 in the order in which this epoch visits them; another epoch has another order."""
    order = list(range(n))
    random.Random(f"epoch order {seed} {epoch}").shuffle(order)
    return order


def cut_batches(order: Sequence[int], size: int) -> list[list[int]]:
    """Return `order` cut into batches of `size`; the last may be shorter. Raises BadInput when size < 1."""
    if size < 1:
        raise BadInput(f'batch size "{size}" is not possible; use 1 or more')
    return [list(order[start : start + size]) for start in range(0, len(order), size)]


def stratified(kinds: Sequence[str], n: int, key: str) -> list[int]:
    """Return `n` of the positions of `kinds`, in order, each kind in its share, chosen by the chance of `key`.

    All of them where there are no more than `n`. Shares are rounded by largest remainder, ties go to the rarer kind.
    """
    if n >= len(kinds):
        return list(range(len(kinds)))
    by_kind: dict[str, list[int]] = {}
    for at, kind in enumerate(kinds):
        by_kind.setdefault(kind, []).append(at)
    counts = {kind: n * len(places) // len(kinds) for kind, places in by_kind.items()}
    rest = sorted(by_kind, key=lambda kind: (-(n * len(by_kind[kind]) % len(kinds)), len(by_kind[kind]), kind))
    for kind in rest[: n - sum(counts.values())]:
        counts[kind] += 1
    chosen = [
        at for kind, places in by_kind.items() for at in random.Random(f"{key}/{kind}").sample(places, counts[kind])
    ]
    return sorted(chosen)


def shuffle(digests: Sequence[str], seed: int) -> list[int]:
    """Return the positions of `digests` in an order that the seed and the digests decide, not the order given."""
    return sorted(range(len(digests)), key=lambda at: hashlib.sha256(f"{seed}/{digests[at]}".encode()).digest())
