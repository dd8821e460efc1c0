"""Jobs: long work that goes on in the background of a server, which calls attach to for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Generic, TypeVar, cast

from skillopt_mcp.optimizer.progress import Notify, Progress, silent

T = TypeVar("T")


class Job(Generic[T]):
    """One piece of work in a thread of its own; the thread never keeps the process alive."""

    def __init__(self, name: str, work: Callable[[Notify], T], leaving: Future[None] | None = None) -> None:
        self.progress: Progress | None = None
        self.result: Future[T] = Future()
        self._leaving = leaving or Future()
        self._watcher: Notify = silent
        threading.Thread(target=self._run, args=[work], name=name, daemon=True).start()

    def _run(self, work: Callable[[Notify], T]) -> None:
        try:
            self.result.set_result(work(self._notify))
        except BaseException as error:  # noqa: BLE001 - carried to whoever waits for the result
            self.result.set_exception(error)

    def _notify(self, progress: Progress) -> None:
        self.progress = progress
        self._watcher(progress)

    def watch(self, watcher: Notify) -> None:
        """Tell `watcher` what happens from now on, in the thread of the work."""
        self._watcher = watcher

    def wait(self, wait_s: float | None) -> bool:
        """Return whether it is done, after `wait_s` seconds at most (None: to the end), or when nobody is to wait."""
        either: list[Future[Any]] = [self.result, self._leaving]
        wait(either, wait_s, FIRST_COMPLETED)
        return self.result.done()


class Jobs:
    """The jobs of a process, one per name at a time; a name is always that of the same work."""

    def __init__(self) -> None:
        # Once it is done, nobody waits for a job any more.
        self.leaving: Future[None] = Future()
        self._jobs: dict[str, object] = {}
        self._offered: set[str] = set()
        self._lock = threading.Lock()

    def attach(self, name: str, work: Callable[[Notify], T]) -> Job[T]:
        """Return the job of that name, started when it is not under way; a finished one is handed out once more."""
        with self._lock:
            if name not in self._jobs:
                self._jobs[name] = Job(name, work, self.leaving)
            return cast(Job[T], self._jobs[name])

    def drop(self, name: str, job: Job[T]) -> None:
        """Forget a finished job, so that the next `attach` starts afresh; another one of that name goes on."""
        with self._lock:
            if self._jobs.get(name) is job:
                del self._jobs[name]

    def offer(self, name: str) -> None:
        """Keep that somebody was told here what a piece of work takes."""
        with self._lock:
            self._offered.add(name)

    def is_offered(self, name: str) -> bool:
        """Return whether somebody was told here what a piece of work takes."""
        with self._lock:
            return name in self._offered
