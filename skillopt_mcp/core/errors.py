"""Errors: the one tree of failures that a caller can act on.

    SkillOptError                 every message names the value in quotes and what to do next
    |-- BadInput                  a value that cannot be used: task, edit, judge, path, setting
    |   `-- BadSkill              a folder that is not a readable skill
    |-- NotFound                  a skill, candidate, version or run that the store does not know
    |-- Refused                   an action that the evidence, the guard or a permission does not allow
    |   |-- NotLoaded             a host does not load the text, or would run by that what no person has seen
    |   `-- Stale                 the live file is not the one that the evidence was gathered against
    |-- Busy                      another process is advancing this run
    |-- Stopped                   a run that stopped before its end, with all that was answered kept: it can be resumed
    |   |-- CapReached            one more call could go above a cap on calls, tokens, money or minutes
    |   |-- Outage                most of the last calls to a backend failed, or it asked to be left alone for long
    |   `-- TurnedDown            a backend turned down a call of a run that has begun; it is a BackendError too
    |-- BackendError              a backend that cannot be used at all: unknown, not configured, not authorised
    |   `-- Unset                 the environment does not say what it needs: a key, an address
    `-- StoreError                the store cannot be opened, read or written
        `-- UnsafeStore           on a network file system, or damaged

A model's unusable reply is a value (`core.calls.Reply`), never one of these. `Waiting` is not a failure: some calls
are left open for a deferred backend to answer.
"""

from __future__ import annotations


class SkillOptError(Exception):
    """A failure with a message that a person or a model can act on."""


class BadInput(SkillOptError):
    """A value given by the caller cannot be used."""


class BadSkill(BadInput):
    """A path is not a readable skill folder."""


class NotFound(SkillOptError):
    """The store knows no such thing."""


class Refused(SkillOptError):
    """Evidence, guard or permission does not allow the action."""


class NotLoaded(Refused):
    """A host does not load a text, or would run something by loading it that no person has seen."""


class Stale(Refused):
    """The live file changed since the evidence was gathered."""


class Busy(SkillOptError):
    """Another process holds the lock of this run."""


class Stopped(SkillOptError):
    """A run stopped before its end; it can be resumed. `run_id` is the id of one that `train` began or went on with."""

    run_id: str | None = None


class CapReached(Stopped):
    """The next call could go above a cap of the run's budget; `higher` are options that let it be sent."""

    def __init__(self, message: str, higher: str = "") -> None:
        super().__init__(message)
        self.higher = higher


class Outage(Stopped):
    """Most of the last calls to a backend failed, or it asked to be left alone for long."""


class BackendError(SkillOptError):
    """A backend cannot be used at all; asking again will not help."""


class Unset(BackendError):
    """A variable of the environment that a backend needs is not set."""


class TurnedDown(Stopped, BackendError):
    """A backend turned down a call for a reason that asking again does not mend: a key, a quota, a model, an option."""


class StoreError(SkillOptError):
    """The store cannot be opened, read or written."""


class UnsafeStore(StoreError):
    """The store cannot be used safely where it is."""


class Waiting(Exception):
    """Replies of a deferred backend are outstanding; run the same code again when they have come."""

    def __init__(self, n_calls: int) -> None:
        super().__init__(f"waiting for {n_calls} replies")
        self.n_calls = n_calls
