"""Models: who answers in which role, opened when first asked, and which caps can hold with them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Mapping, Sequence

from skillopt_mcp.backends.base import Backend, environment_name, no_backend, worst_case
from skillopt_mcp.backends.programs import try_programs
from skillopt_mcp.backends.registry import backend_name, is_spec, open_backend
from skillopt_mcp.backends.resolved import describe_unremembered
from skillopt_mcp.backends.rounds import OnReply
from skillopt_mcp.backends.wrappers import Redacting, judges_for
from skillopt_mcp.core.budgets import NO_CAPS, Caps, Spent, cost_of
from skillopt_mcp.core.calls import Call, Question, Role, Rollout
from skillopt_mcp.core.errors import BackendError, BadInput, Refused
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.store.files import Owner
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.judges.judging import missing_programs
from skillopt_mcp.tasks.judges.kinds.text import Exact
from skillopt_mcp.workspace.place import Place

LEASE_S = 900.0


class Models:
    """Who answers in which role, within which caps, and how many calls at once.

    `specs` are backends by role, made ones or BACKEND:MODEL; only with `hands_out` can one of them be a host. `caps`
    are those of every run and test that is advanced here; `concurrency` calls at once go to each backend, or as many as
    it takes by itself.
    """

    def __init__(
        self, store: Store, place: Place, specs: Mapping[Role, str | Backend | None], *, hands_out: bool = False,
        caps: Caps = NO_CAPS, concurrency: int | None = None,
    ) -> None:  # fmt: skip
        self._store, self._place, self._specs, self._hands_out = store, place, specs, hands_out
        self.caps, self.concurrency = caps, concurrency
        # How long a host's agent may take, in seconds.
        self.lease_s = LEASE_S
        # Who counts what comes in for contests and promotion tests: a person may watch.
        self.on_reply: OnReply | None = None
        self._owner: Owner | None = None
        self._backends: dict[Role, Backend] = {}
        self._lock = threading.RLock()

    @property
    def owner(self) -> Owner:
        """The name that work is handed out under: by it others see whether who did so still runs."""
        with self._lock:
            if self._owner is None:
                self._owner = Owner(self._store.locks_path)
            return self._owner

    def close(self) -> None:
        """What was handed out here is free for others from now on."""
        with self._lock:
            if self._owner:
                self._owner.close()

    def has_backend(self, role: Role) -> bool:
        """Whether a backend was named for a role."""
        return self._specs.get(role) is not None

    def backend(self, role: Role) -> Backend:
        """Return the backend of a role. Raises BackendError when none was named."""
        with self._lock:
            spec = self._specs.get(role)
            if spec is None:
                raise no_backend(role)
            if role not in self._backends:
                if self._place.caller == "agent" and isinstance(spec, str):
                    self.check_remembered(spec)
                opened = open_backend(spec) if isinstance(spec, str) else spec
                if opened.deferred and not self._hands_out:
                    raise BackendError(
                        f"'{opened.name}' answers through the tools of a server alone: ask the agent that it serves, "
                        "or name another backend, for instance 'claude-code:sonnet'"
                    )
                self._backends[role] = Redacting(opened, self._place.redactor)
            return self._backends[role]

    def check_remembered(self, spec: str) -> None:
        """Raise Refused for a backend that an agent may not use; nothing of it is opened."""
        if why := describe_unremembered(self._store, spec):
            raise Refused(why)

    def note_caller(self, scope: str, tasks: Iterable[Task]) -> None:
        """Mark a run or test that a script works on, and whether agents might use all who answer in it."""
        if self._place.caller == "unattended":
            programs = self._store.commands.named(name for task in tasks for name in missing_programs(task.judge, ()))
            remembered = not any(each.unattended for each in programs.values()) and all(
                isinstance(spec, str) and not describe_unremembered(self._store, spec)
                for spec in self._specs.values() if spec is not None
            )  # fmt: skip
            self._store.permissions.note_unattended(scope, remembered=remembered)

    def backends_for(self, tasks: Iterable[Task], *others: Role) -> dict[Role, Backend]:
        """Return who attempts these tasks, who judges them where a judge of theirs has to be asked, and other roles.

        Raises BackendError when one of them was not named, or a command that a task names cannot be run.
        """
        if self._place.caller == "agent":
            tasks = list(tasks)
            named = self._store.commands.named(name for task in tasks for name in missing_programs(task.judge, ()))
            if own := next((each.name for each in named.values() if each.unattended), ""):
                raise Refused(
                    f"a script registered the judge program '{own}', and agents use those of a person alone: a person "
                    f"registers it at a terminal (skillopt-mcp tasks judges add {own} -- PROGRAM)"
                )
        judges = judges_for(
            self._store,
            tasks,
            functools.partial(self.backend, "judge"),
            lambda text: self._place.redactor.text(text),
        )
        target: dict[Role, Backend] = {"target": self.backend("target")}
        backends = {**target, "judge": judges} if judges else target
        return backends | {role: self.backend(role) for role in others}

    def ready_for(self, tasks: Sequence[Task], *others: Role) -> dict[Role, Backend]:
        """`backends_for`, once the judge programs have started, and the caps can hold. Raises BadInput for these."""
        backends = self.backends_for(tasks, *others)
        try_programs(self._store, tasks)
        check_caps(self.caps, backends)
        return backends


_TASK = Task(0, 0, "any", "any", Exact(expected="any"), "train", "any")
_SAMPLES: dict[Role, Call] = {
    "target": Call("target", "rollout", Rollout(SkillFiles(()), _TASK), "any"),
    "optimizer": Call("optimizer", "reflect", Question("any", "any", "patch"), "any"),
    "judge": Call("judge", "judge", Question("any", "any", "rubric"), "any"),
}


# What a store can count to.
_MOST = 1 << 63
_LIMITS = {"claude-code": "write max_usd=N in its spec for a cap on money, or", "scripted": "", "codex": ""}


def check_caps(caps: Caps, backends: Mapping[Role, Backend]) -> None:
    """Raise BadInput for a cap that cannot be used, or that cannot hold because a backend's calls have no limit."""
    for name, cap in (("calls", caps.calls), ("tokens", caps.tokens), ("usd", caps.usd), ("minutes", caps.minutes)):
        given: object = cap
        kinds, what = ((int,), "whole number") if name in ("calls", "tokens") else ((int, float), "number")
        is_number = isinstance(given, kinds) and not isinstance(given, bool)
        if cap is not None and not (is_number and 0 < cap < _MOST):
            raise BadInput(f"--max-{name} must be a {what} above 0, got {given!r}")
    if not caps.bound_each_call:
        return
    for role, backend in backends.items():
        usage = worst_case(backend, _SAMPLES[role])
        if usage is None:
            way = "give it a method 'worst_case(call) -> Usage', or"
            if environment_name(backend):
                way = "give the environment a method 'worst_case() -> Usage', or"
            elif is_spec(backend.name) and backend_name(backend.name)[0] != "plugin":
                way = _LIMITS.get(backend.name.partition(":")[0], "write max_tokens=N in its spec, or")
            way = f"{way} cap the calls (--max-calls)".strip()
            raise BadInput(f"'{backend.name}' has no limit per answer, so caps on tokens or money cannot hold: {way}")
        if caps.tokens is not None and usage.usd != 0.0 and not usage.tokens_in + usage.tokens_out:
            raise BadInput(f"'{backend.name}' limits money, not tokens: cap the money (--max-usd)")
        if caps.usd is not None and usage.usd is None:
            raise BadInput(
                f"the price of '{backend.name}' is unknown: set price_in= and price_out= (dollars per million tokens) "
                "in its spec, add it to SKILLOPT_PRICES, or use --max-tokens"
            )


def is_used_up(caps: Caps, spent: Spent, backends: Mapping[Role, Backend]) -> bool:
    """Whether not even a small call to any of these backends can be sent any more."""
    usages = {
        role: worst_case(backend, _SAMPLES[role]) if caps.bound_each_call else None
        for role, backend in backends.items()
    }
    return all(caps.exceeded(spent.plus(*cost_of(_SAMPLES[role], usage))) for role, usage in usages.items())
