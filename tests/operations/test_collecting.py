"""Collecting: what the calls of a batch cost that failed stands with their attempts, and once."""

from __future__ import annotations

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.calls.rounds import Breaker
from skillopt_mcp.dispatch import Ended, name_of, outcome_of
from skillopt_mcp.records.budgets import Cost
from skillopt_mcp.records.calls import Reply, Usage
from skillopt_mcp.redaction.redacting import Redactor
from skillopt_mcp.store.batches import Batch

BATCH = Batch("b" * 16, "r-1", "target", "openai:m", "batch_1", "running", 0.0, 4)
USED = Usage(60, 40, 0.25)


def test_what_a_call_of_a_batch_used_that_failed_stands_with_its_attempt_and_once() -> None:
    results = {
        1: Reply("42", usage=USED),
        2: BackendFault("truncated", "cut off", usage=USED),
        3: BackendFault("malformed", "no JSON"),
        4: BackendFault("server", "503"),
    }
    named = {name_of(BATCH.id, call_id): result for call_id, result in results.items()}
    charged = {call_id: Cost(1, 200, 0.5) for call_id in results}
    outcome = outcome_of(Ended(BATCH, charged, {}, named), {}, Redactor(), Breaker())
    assert [(each.call_id, each.usage) for each in outcome.attempts] == [(2, USED), (3, Usage()), (4, Usage(usd=0.0))]
    assert [(reply.id, reply.fault, reply.usage) for reply in outcome.replies] == [
        (1, None, USED),
        (2, "truncated", Usage(usd=0.0)),
    ]
    # The third may have been paid, and stays charged at its most.
    assert outcome.change[:3] == (0, -400, -1.0)
