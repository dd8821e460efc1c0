"""Jobs: the work of a server in the background, which its calls attach to and wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.training.progress import Notify, Progress, silent

MAX_ITEMS = 24
DEFAULT_ITEMS = MAX_ITEMS
DEFAULT_CHARS = 400_000
T = TypeVar("T")


class Job(Generic[T]):
    """One piece of work in a thread of its own; the thread never keeps the process alive."""

    def __init__(self, name: str, work: Callable[[Notify], T], leaving: Future[None], watcher: Notify) -> None:
        self.progress: Progress | None = None
        self.result: Future[T] = Future()
        self._leaving = leaving
        self._watcher = watcher
        threading.Thread(target=self._run, args=[work], name=name, daemon=True).start()

    def _run(self, work: Callable[[Notify], T]) -> None:
        try:
            self.result.set_result(work(self._notify))
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self.result.set_exception(error)

    def _notify(self, progress: Progress) -> None:
        self.progress = progress
        self._watcher(progress)

    def watch(self, watcher: Notify) -> None:
        """Call `watcher` with the progress from now on, in the thread of the work."""
        self._watcher = watcher

    def wait(self, wait_s: float | None) -> bool:
        """Whether it is done, after `wait_s` seconds at most (None: no limit), or when the server stops."""
        either: list[Future[Any]] = [self.result, self._leaving]
        wait(either, wait_s, FIRST_COMPLETED)
        return self.result.done()


class Jobs:
    """The jobs of a process, one per name at a time; a name is always that of the same work."""

    def __init__(self) -> None:
        # Once it is done, no call waits for a job any more.
        self.leaving: Future[None] = Future()
        self._jobs: dict[str, object] = {}
        self._offered: set[str] = set()
        self._lock = threading.Lock()

    def attach(self, name: str, work: Callable[[Notify], T], watcher: Notify = silent) -> Job[T]:
        """Return the job of that name, started when it is not under way; a finished one is handed out once more.

        `watcher` is called with its progress: of a job that it starts, from the beginning.
        """
        with self._lock:
            if name not in self._jobs:
                self._jobs[name] = Job(name, work, self.leaving, watcher)
            job = cast(Job[T], self._jobs[name])
        job.watch(watcher)
        return job

    def drop(self, name: str, job: Job[T]) -> None:
        """Forget a finished job, so that the next `attach` starts afresh; another one of that name continues."""
        with self._lock:
            if self._jobs.get(name) is job:
                del self._jobs[name]

    def offer(self, name: str) -> None:
        """Remember that the estimate of a piece of work was shown."""
        with self._lock:
            self._offered.add(name)

    def is_offered(self, name: str) -> bool:
        """Whether the estimate of a piece of work was shown."""
        with self._lock:
            return name in self._offered


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much a host takes at once: items (none: it only hands in), and characters of all it is to read for them."""

    items: int = DEFAULT_ITEMS
    chars: int = DEFAULT_CHARS

    def __post_init__(self) -> None:
        if not 0 <= self.items <= MAX_ITEMS:
            raise BadInput(f"max_items must be 0-{MAX_ITEMS}, got {self.items}")
        if self.chars < 1:
            raise BadInput(f"max_chars must be 1 or more, got {self.chars}")


@dataclass(frozen=True, slots=True)
class Wait:
    """How a call waits for a job: for so many seconds (None: to the end), with whom to notify of progress.

    `capacity` is how much of the job's work its host takes now; None where it was not offered any yet.
    """

    jobs: Jobs = field(default_factory=Jobs)
    seconds: float | None = None
    notify: Notify = silent
    capacity: Capacity | None = None
