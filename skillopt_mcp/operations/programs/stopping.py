"""Stopping: a program's call at work, beside a running event loop too, until it is done or somebody stops it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import TypeVar

from skillopt_mcp.errors import BadInput, Stopped
from skillopt_mcp.operations.programs.words import in_python_words
from skillopt_mcp.optimizer.progress import Notify, Progress
from skillopt_mcp.records.calls import Call, Reply

T = TypeVar("T")
OnReply = Callable[[Call, Reply], None]
# How soon a cancellation is seen.
SLICE_S = 0.05


class Stop:
    """Whether a call is to stop: its program says so by the event that it gave, or whoever waits for it does."""

    def __init__(self, asked: threading.Event | None) -> None:
        given: object = asked
        if given is not None and not callable(getattr(given, "is_set", None)):
            raise BadInput(f"the stop is of type {type(given).__name__}: give a threading.Event, and set it to stop")
        self._asked, self._own = asked, threading.Event()

    def set(self) -> None:
        """Ask for the end of this call alone."""
        self._own.set()

    @property
    def is_set(self) -> bool:
        """Return whether it is to stop."""
        return self._own.is_set() or (self._asked is not None and self._asked.is_set())

    def check(self) -> None:
        """Raise Stopped when it is to stop."""
        if self.is_set:
            raise Stopped("interrupted: the same call goes on where it stopped")

    def on_reply(self, _: Call, __: Reply) -> None:
        """End at a reply."""
        self.check()

    def after(self, hear: OnReply | None) -> OnReply:
        """Return what ends at a reply, once it was told."""
        if hear is None:
            return self.on_reply

        def told(call: Call, reply: Reply) -> None:
            hear(call, reply)
            self.check()

        return told

    def before(self, notify: Notify) -> Notify:
        """Return what ends at a stage, too, before it is told."""

        def told(progress: Progress) -> None:
            self.check()
            notify(progress)

        return told


def carried_out(work: Callable[[], T], stop: Stop, *, apart: bool = False) -> T:
    """Return what `work` comes to, its errors in Python's words.

    Within a running event loop, and with `apart`, it is done in a thread: Ctrl-C, and a cancellation of the task that
    waits for it, stop it at its next reply, and end as KeyboardInterrupt and CancelledError with its notes.
    """
    task = _task()
    with in_python_words():
        if task is None and not apart:
            return work()
        with ThreadPoolExecutor(1, thread_name_prefix="skillopt") as thread:
            working = thread.submit(copy_context().run, work)
            try:
                is_cancelled = _waited(working, stop, task)
            except BaseException as error:
                # Ctrl-C comes to this thread alone: the one that works is stopped, and waited for.
                stop.set()
                _note(error, working)
                raise
            if is_cancelled and isinstance(working.exception(), Stopped):
                cancelled = asyncio.CancelledError()
                _note(cancelled, working)
                raise cancelled
            return working.result()


def _task() -> asyncio.Task[object] | asyncio.AbstractEventLoop | None:
    """Return the task that this is called in, the loop where it is in none, and None where no loop runs."""
    try:
        return asyncio.current_task() or asyncio.get_running_loop()
    except RuntimeError:
        return None


def _waited(working: Future[T], stop: Stop, task: asyncio.Task[object] | asyncio.AbstractEventLoop | None) -> bool:
    """Wait for work to end; return whether it was stopped because a task of its loop is being cancelled.

    No other task of the loop runs meanwhile: whoever cancels one now does so from outside, as Ctrl-C does, which asks
    for the main task's end, whichever one waits here.
    """
    loop = task.get_loop() if isinstance(task, asyncio.Task) else task
    before = _cancelling(loop)
    is_cancelled = False
    while not wait([working], SLICE_S).done:
        if not is_cancelled and _cancelling(loop) > before:
            is_cancelled = True
            stop.set()
    return is_cancelled


def _cancelling(loop: asyncio.AbstractEventLoop | None) -> int:
    """Return how often the end of a loop's tasks was asked for."""
    return sum(task.cancelling() for task in asyncio.all_tasks(loop)) if loop else 0


def _note(error: BaseException, working: Future[T]) -> None:
    for note in getattr(working.exception(), "__notes__", ()):
        error.add_note(note)
