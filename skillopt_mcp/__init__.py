"""skillopt-mcp: train the skill files of coding agents.

The Python API is `train`, its `Config` and `Caps`, what is asked about candidates and skills (`evaluate`, `race`,
`credit`, `calibrate`), what an environment is made of (`Environment`, `RollsOut`, `NewTask`, `Rolled`), what a backend
is made of (`Backend`, `Call`, `Reply`), the types that their signatures name, and what `train` raises (`Stopped`,
`CapReached`, `Outage`, `BadInput`, all of them `SkillOptError`); `dir(skillopt_mcp)` lists it, and `help` of each name
tells how it is used. Importing the package loads none of it.
"""

from importlib import import_module

__version__ = "0.1.0"
_PUBLIC = {
    "train": "operations.programs.training",
    "Trained": "operations.programs.training",
    "UsedRow": "operations.spending.charging",
    "SplitCounts": "operations.results",
    "evaluate": "operations.programs.testing",
    "Evaluated": "operations.results",
    "Arm": "operations.results",
    "race": "operations.programs.testing",
    "Raced": "operations.testing.racing",
    "Control": "operations.testing.controls",
    "RaceRow": "operations.testing.racing",
    "credit": "operations.programs.testing",
    "Credited": "operations.testing.crediting",
    "CreditRow": "operations.testing.crediting",
    "calibrate": "operations.programs.testing",
    "Calibrated": "operations.testing.calibrating",
    "Used": "operations.spending.using",
    "GainRow": "operations.testing.calibrating",
    "StepRow": "operations.results",
    "Config": "optimizer.config",
    "Claim": "records.evidence",
    "Metric": "records.evidence",
    "Caps": "records.budgets",
    "Progress": "optimizer.progress",
    "Enough": "optimizer.progress",
    "StageName": "operations.programs.hearing",
    "Callback": "operations.programs.hearing",
    "OnRollout": "operations.programs.hearing",
    "Environment": "environments.base",
    "RollsOut": "environments.base",
    "Rolled": "environments.base",
    "RolloutFailed": "environments.base",
    "SkillOptEnvironment": "environments.skillopt_adapter",
    "NewTask": "records.tasks",
    "Task": "records.tasks",
    "TaskFile": "records.tasks",
    "Split": "records.tasks",
    "SkillFiles": "records.skills",
    "SkillFile": "records.skills",
    "Backend": "backends.base",
    "BackendFault": "backends.base",
    "Fault": "records.calls",
    "Call": "records.calls",
    "Stage": "records.calls",
    "Role": "records.calls",
    "Rollout": "records.calls",
    "Question": "records.calls",
    "Reply": "records.calls",
    "Message": "records.calls",
    "Usage": "records.calls",
    "parse_judge": "judges.specs",
    "JudgeSpec": "records.judging",
    "SkillOptError": "errors",
    "BadInput": "errors",
    "NotFound": "errors",
    "Refused": "errors",
    "Busy": "errors",
    "Stopped": "errors",
    "CapReached": "errors",
    "Outage": "errors",
    "TurnedDown": "errors",
    "BackendError": "errors",
    "StoreError": "errors",
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'skillopt_mcp' has no attribute '{name}'")
    return getattr(import_module(f"skillopt_mcp.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
