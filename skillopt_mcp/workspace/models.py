"""Models: who answers in which role, within which caps, and what of that has changed since a run began."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from skillopt_mcp import __version__
from skillopt_mcp.backends.asking import Asker, Outstanding, run_or_wait
from skillopt_mcp.backends.base import Backend, Loading, environment_name, no_backend, worst_case
from skillopt_mcp.backends.programs import CommandRunner, try_programs
from skillopt_mcp.backends.registry import backend_name, is_spec, without_options
from skillopt_mcp.backends.resolved import describe_unremembered
from skillopt_mcp.backends.rounds import OnPause, OnReply
from skillopt_mcp.backends.spending import Budget
from skillopt_mcp.backends.wrappers import Judges, Redacting, judges_for, open_models
from skillopt_mcp.core.budgets import NO_CAPS, Caps, Spent, cost_of
from skillopt_mcp.core.calls import Ask, Call, Question, RayOptions, Reply, Role, Rollout
from skillopt_mcp.core.errors import BackendError, BadInput, Busy, Refused, Waiting
from skillopt_mcp.core.runs import Answering, Run
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.store.files import Lock, Owner, lock_run
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.judges.judging import asks_opening, environment_of, missing_programs
from skillopt_mcp.tasks.judges.kinds.text import Exact
from skillopt_mcp.workspace.evidence import evidence_of, is_pasted, is_simulated
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.runs import ChangedBackend, describe_changed, list_changes, tasks_of

if TYPE_CHECKING:
    from skillopt_mcp.backends.cluster import Cluster

LEASE_S = 900.0
ALLOWED = "--allow-changed"
T = TypeVar("T")


class Names(NamedTuple):
    """How target, optimizer and judge model of a run are spelled; the judge is empty where none is needed."""

    target: str
    optimizer: str
    judge: str

    @classmethod
    def of(cls, backends: Mapping[Role, Backend]) -> Names:
        """The names of backends."""
        judges = backends.get("judge")
        judge = judges.model_name if isinstance(judges, Judges) else ""
        return cls(backends["target"].name, backends["optimizer"].name, judge)

    def fit(self, run: Run) -> bool:
        """Whether a run was begun with the same models, however they are asked; fingerprints show the rest."""
        begun = (run.target, run.optimizer, run.judge)
        return all(without_options(one) == without_options(other) for one, other in zip(begun, self, strict=True))


class Models:
    """Who answers in which role, within which caps, and how many calls at once.

    `specs` are backends by role, made ones or BACKEND:MODEL; only with `hands_out` can one of them be a host. `caps`
    are those of every run and test that is advanced here; `concurrency` calls at once go to each backend, or as many as
    it takes by itself. With `ray`, a target named by its spec makes its attempts on that cluster.
    """

    def __init__(
        self, store: Store, place: Place, specs: Mapping[Role, str | Backend | None], *, hands_out: bool = False,
        caps: Caps = NO_CAPS, concurrency: int | None = None, ray: RayOptions | None = None,
    ) -> None:  # fmt: skip
        self._store, self._place, self._specs, self._hands_out = store, place, specs, hands_out
        self._ray = ray
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
            if cluster := self.__dict__.get("cluster"):
                cluster.close()

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
                opened = open_models(spec) if isinstance(spec, str) else spec
                if opened.deferred and not self._hands_out:
                    raise BackendError(
                        f"'{opened.name}' answers through the tools of a server alone: ask the agent that it serves, "
                        "or name another backend, for instance 'claude-code:sonnet'"
                    )
                if role == "target" and self.cluster and isinstance(spec, str):
                    opened = self.cluster.spread(spec, opened)
                self._backends[role] = Redacting(opened, self._place.redactor)
            return self._backends[role]

    @functools.cached_property
    def cluster(self) -> Cluster | None:
        """The Ray cluster that attempts and judge programs are sent to, connected now; None where none is named.

        Raises Refused where an agent names one that is not its own machine, BackendError where it cannot be used.
        """
        if self._ray is None:
            return None
        if self._place.caller == "agent" and self._ray.address != "local":
            raise Refused("agents use --ray local alone: who answers on a cluster is for a person to say")
        try:
            from skillopt_mcp.backends.cluster import Cluster  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise BackendError("--ray needs Ray: pip install 'skillopt-mcp[ray]'") from error
        return Cluster(self._ray)

    def check_remembered(self, spec: str) -> None:
        """Raise Refused for a backend that an agent may not use; nothing of it is opened."""
        if why := describe_unremembered(self._store, spec):
            raise Refused(why)

    def note_caller(self, scope: str, tasks: Iterable[Task]) -> None:
        """Mark a run or test that a script works on, and whether agents might use all who answer in it."""
        if self._place.caller == "unattended":
            programs = self._store.commands.find_named(
                name for task in tasks for name in missing_programs(task.judge, ())
            )
            is_elsewhere = self._ray is not None and self._ray.address != "local"
            remembered = not (is_elsewhere or any(each.unattended for each in programs.values())) and all(
                isinstance(spec, str) and not describe_unremembered(self._store, spec)
                for spec in self._specs.values() if spec is not None
            )  # fmt: skip
            self._store.permissions.note_unattended(scope, remembered=remembered)

    def backends_for(self, tasks: Iterable[Task], *others: Role) -> dict[Role, Backend]:
        """Who attempts these tasks, who judges them where a judge of theirs has to be asked, and other roles.

        Raises BackendError when one of them was not named, or a command that a task names cannot be run.
        """
        if self._place.caller == "agent":
            tasks = list(tasks)
            named = self._store.commands.find_named(name for task in tasks for name in missing_programs(task.judge, ()))
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
            self.cluster.runner if self.cluster else CommandRunner,
        )
        target: dict[Role, Backend] = {"target": self.backend("target")}
        backends = {**target, "judge": judges} if judges else target
        return backends | {role: self.backend(role) for role in others}

    def list_tasks(self, skill_id: int) -> list[Task]:
        """The tasks in use of a skill that the target can get a score for. Raises BackendError without a target."""
        own = environment_name(self.backend("target"))  # an environment scores its own tasks, others all the rest
        found = [task for task in self._store.tasks.list_in_use(skill_id) if environment_of(task.judge) == own]
        return [task for task in found if self._can_open() or not asks_opening(task.judge)]

    def describe_left_out(self, skill_id: int) -> str:
        """How many tasks of a skill ask whether it opens, where the target has no way to open one; "" elsewhere."""
        n = 0 if self._can_open() else sum(asks_opening(each.judge) for each in self._store.tasks.list_in_use(skill_id))
        which = f"task{'s' * (n > 1)} on whether the skill opens, which '{self.backend('target').name}' cannot show"
        return f"left out: {n} {which}; name --target claude-code or codex" if n else ""

    def _can_open(self) -> bool:
        target = self.backend("target")
        is_blind = is_pasted(target.fingerprint) or target.fingerprint.startswith("simulated")
        return not is_blind or (isinstance(target, Loading) and target.loads)

    def ready_for(self, tasks: Sequence[Task], *others: Role) -> dict[Role, Backend]:
        """`backends_for`, once the judge programs have started, and the caps can hold. Raises BadInput for these."""
        backends = self.backends_for(tasks, *others)
        try_programs(self._store, tasks)
        self.check_caps(backends)
        return backends

    def is_simulated(self, tasks: Iterable[Task], *others: Role) -> bool:
        """Whether those that attempt and judge these tasks are a simulation or a script."""
        return is_simulated(evidence_of(self.backends_for(tasks, *others)))

    # Caps

    def caps_of(self, run: Run) -> Caps:
        """The caps that a run resumes under: those that it was given last, replaced by the ones here."""
        return run.caps.replace_given(self.caps)

    def check_caps(self, backends: Mapping[Role, Backend]) -> None:
        """Raise BadInput for a cap that cannot be used, or that cannot hold because a backend's calls have no limit."""
        check_caps(self.caps, backends)

    def has_used_up(self, run: Run) -> bool:
        """Whether a run has so little left of its caps that not even a small call can be sent any more."""
        backends = self.backends_for(tasks_of(self._store, run), "optimizer")
        return is_used_up(self.caps_of(run), self._store.budgets.get_spent(run.id), backends)

    # A run, and who answers in it

    def lock_run(self, run: Run) -> Lock:
        """The held lock of a run. Raises Busy when another process or thread holds it."""
        lock = lock_run(self._store.locks_path, run.id)
        if lock is None and run.kind == "proposal":
            raise Busy(f"another process runs the proposal '{run.id}': call again to see its result")
        if lock is None:
            raise Busy(f"run '{run.id}' is locked by another process or thread: wait for it, or stop it")
        return lock

    def backends_of(self, run: Run) -> dict[Role, Backend]:
        """The backends that answer in a run. Raises Refused when it was begun with other models."""
        backends = self.backends_for(tasks_of(self._store, run), "optimizer")
        if not Names.of(backends).fit(run):
            judge = f" and judge '{run.judge}'" if run.judge else ""
            raise Refused(
                f"run '{run.id}' has target '{run.target}' and optimizer '{run.optimizer}'{judge}: resume it with these"
            )
        return backends

    def list_changed(self, run: Run, now: Answering | None = None) -> list[ChangedBackend]:
        """The roles whose backends (those that answer `now`, or else here) have changed since the run so far.

        A change after which no step was finished does not count: nothing of it stays.
        """
        now = now or identify(self.backends_for(tasks_of(self._store, run), "optimizer"))
        others = list_changes(run.answering[-1], now)
        if not others or run.status == "finished":
            return others
        return others if list_changes(self._list_lasting(run)[-1], now) else []

    def check_unchanged(self, run: Run, command: str = f"the same command with --resume {ALLOWED}") -> None:
        """Raise Refused when a backend of a run has changed; `command` is how a person allows that."""
        if others := self.list_changed(run):
            then = "continue it and measure its versions again"
            if run.status == "finished":
                then = "take its outcome as it is"
            raise Refused(f"{describe_changed(run, others)}: start a new run, or {then}: {command}")

    def take_up(self, run: Run, *, allow_changed: bool) -> tuple[Run, dict[Role, Backend]]:
        """A run whose lock is held, once it is stored who answers from now on and within which caps; its backends.

        After a change no answer of before is used: the current and the best version are measured again. Changes without
        a finished step after them are forgotten. Raises Refused for a change without `allow_changed`, BadInput where a
        judge program does not start or a cap cannot hold.
        """
        backends, tasks, runs = self.backends_of(run), tasks_of(self._store, run), self._store.runs
        if not allow_changed:
            self.check_unchanged(run)
        try_programs(self._store, tasks)
        caps = self.caps_of(run)
        check_caps(caps, backends)
        lasting = self._list_lasting(run)
        now = identify(backends, len(runs.list_steps(run.id)))
        noted, names = lasting if not list_changes(lasting[-1], now) else (*lasting, now), Names.of(backends)
        taken_up = replace(run, caps=caps, answering=noted, **names._asdict())
        if (caps, noted, names) != (run.caps, run.answering, (run.target, run.optimizer, run.judge)):
            runs.update_run(taken_up)
        self.note_caller(run.id, tasks)
        return taken_up, backends

    def _list_lasting(self, run: Run) -> tuple[Answering, ...]:
        """Who answered first, and then in finished steps of a run, the latest last."""
        n_steps = len(self._store.runs.list_steps(run.id)) if len(run.answering) > 1 else 0
        return run.answering[:1] + tuple(each for each in run.answering[1:] if each.after < n_steps)

    # Asking

    def ask_or_wait(
        self, scope: str, backends: Mapping[Role, Backend], work: Callable[[Asker], T], *,
        payer: Run | None = None, on_pause: OnPause | None = None,
    ) -> T | Outstanding:  # fmt: skip
        """The result of `work` with the `Ask` of a scope (a run, a test), or what is outstanding for a host.

        A run that is the `payer` pays within its caps; else the scope pays by itself, within the caps here.
        """
        budget = Budget(payer.id, payer.caps) if payer else Budget(scope, self.caps)
        with Asker(
            self._store, backends, scope, concurrency=self.concurrency, on_reply=self.on_reply,
            budget=budget, on_pause=on_pause,
        ) as ask:  # fmt: skip
            return run_or_wait(ask, self._store, lambda: work(ask))

    def ask(
        self, scope: str, backends: Mapping[Role, Backend], work: Callable[[Asker], T], *,
        payer: Run | None = None, on_pause: OnPause | None = None,
    ) -> T:  # fmt: skip
        """The result of `ask_or_wait` where no host answers. Raises BackendError where one would have to."""
        outcome = self.ask_or_wait(scope, backends, work, payer=payer, on_pause=on_pause)
        if isinstance(outcome, Outstanding):
            raise BackendError("a host answers through the tools of a server alone: name another backend")
        return outcome

    def stored_ask(self, run: Run) -> Ask:
        """The `Ask` of a run by the replies in the store: it asks no model, and raises Waiting without all of them."""
        backends = self.backends_for(tasks_of(self._store, run), "optimizer")

        def ask(calls: Sequence[Call], /) -> list[Reply]:
            keys = [call.key(backends[call.role].fingerprint) for call in calls]
            replies = self._store.calls.get_replies(keys)
            if len(replies) < len(set(keys)):
                raise Waiting(len(set(keys)) - len(replies))
            return [replies[key] for key in keys]

        return ask


def identify(backends: Mapping[Role, Backend], after: int = 0) -> Answering:
    """Who answers in a run from now on, when so many of its steps are finished."""
    return Answering(after, {role: backend.fingerprint for role, backend in sorted(backends.items())}, __version__)


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
