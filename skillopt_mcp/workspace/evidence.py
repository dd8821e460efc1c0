"""Evidence: what names its origin, the target's fingerprint and the judges', and what that says of it.

No backend is loaded for that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillopt_mcp.backends.base import Backend
    from skillopt_mcp.core.calls import Role
    from skillopt_mcp.core.evidence import EvidenceKind
    from skillopt_mcp.store.opening import Store

_JUDGED_BY = " judged by "
_NO_COMMANDS = f"+command:{hashlib.sha256().hexdigest()[:16]}"


def evidence_of(backends: Mapping[Role, Backend]) -> str:
    """What names the origin of evidence: the target's fingerprint, and the judges' where one is asked."""
    judge = backends.get("judge")
    return backends["target"].fingerprint + (f"{_JUDGED_BY}{judge.fingerprint}" if judge else "")


def shown_origin(evidence: str) -> str:
    """Return a text of `evidence_of` for people: commands are named only where there are some."""
    return evidence.replace(_NO_COMMANDS, "")


def origins(evidence: str) -> list[str]:
    """Return the fingerprints that a text of `evidence_of` names: the target's, and the judges'."""
    return evidence.split(_JUDGED_BY)


def find_host_roles(evidence: str) -> list[Role]:
    """The roles for which a text of `evidence_of` names a host."""
    target, *judges = (is_host(origin.partition("+")[0]) for origin in origins(evidence))
    return [*["target"] * target, *["judge"] * any(judges)]  # type: ignore[list-item]


def is_simulated(evidence: str) -> bool:
    """Whether a text of `evidence_of` names a simulation or a script: it says nothing about a real model."""
    named = evidence.replace(" against ", _JUDGED_BY)  # two models
    return any(origin.startswith(("simulated", "scripted")) for origin in origins(named))


def kind_of(evidence: str) -> EvidenceKind:
    """Who made the attempts: our own processes ran the target and the judges, or a host's agents did."""
    if is_simulated(evidence):
        return "simulated"
    return "host" if find_host_roles(evidence) else "own"


def kind_of_test(store: Store, test_id: str, evidence: str) -> EvidenceKind:
    """Who made the attempts of a test whose text of `evidence_of` this is; a script's are marked."""
    kind = kind_of(evidence)
    return "unattended" if kind == "own" and store.permissions.find_unattended(test_id) is not None else kind


def is_pasted(evidence: str) -> bool:
    """Whether the target that a text of `evidence_of` names reads the skill in its prompt: vendors and sub-agents."""
    return evidence.startswith(("openai:", "anthropic:")) or "target" in find_host_roles(evidence)


def is_host(name: str) -> bool:
    """Whether the name or fingerprint of a backend is a host's."""
    from skillopt_mcp.core.calls import HOST  # noqa: PLC0415 (listing skills takes no pydantic)

    return name == HOST or name.startswith(f"{HOST}:")
