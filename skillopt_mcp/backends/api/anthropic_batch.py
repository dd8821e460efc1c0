"""Anthropic batch: the Message Batches API: requests go up in one body, results come down as lines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import httpx2
from pydantic_core import to_json

from skillopt_mcp.backends.api.answers import Wire, body_of, parse_body, reply_of
from skillopt_mcp.backends.api.anthropic import AnthropicBackend
from skillopt_mcp.backends.api.anthropic_wire import PATH, MessageBody
from skillopt_mcp.backends.api.batch import DAY_S, MOST_BYTES, expired, lines_of, not_immediate, rejected
from skillopt_mcp.backends.base import Backend, BackendFault
from skillopt_mcp.backends.batches import Found, Item, Result, Standing, Tag
from skillopt_mcp.records.calls import Call, Reply, Usage

_BATCHES = f"{PATH}/batches"
_PAGE = 100
_STATUS = {
    "invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
    "not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429, "api_error": 500,
    "timeout_error": 504, "overloaded_error": 529,
}  # fmt: skip


class _Counts(Wire):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0

    @property
    def n_done(self) -> int:
        return self.succeeded + self.errored + self.canceled + self.expired


class _Batch(Wire):
    id: str
    processing_status: str = "in_progress"
    request_counts: _Counts = _Counts()
    created_at: datetime | None = None
    cancel_initiated_at: datetime | None = None


class _Page(Wire):
    data: list[_Batch]
    has_more: bool = False


class _Error(Wire):
    type: str = ""
    message: str = ""


class _Errored(Wire):
    type: str = ""
    message: str = ""
    error: _Error | None = None


class _Outcome(Wire):
    type: str
    message: object = None
    error: _Errored | None = None


class _Line(Wire):
    custom_id: str
    result: _Outcome


class AnthropicBatch:
    """Has calls answered by Anthropic's Message Batches API, at the price of that.

    A batch has no tag there: the names of its calls carry it, and are only told once it is over.
    """

    deferred = True
    most_calls = 20_000
    most_bytes = MOST_BYTES

    def __init__(self, backend: AnthropicBackend) -> None:
        self.name, self.fingerprint, self.n_slots = backend.name, backend.fingerprint, backend.n_slots
        price = backend.price
        self.discount = price.batch if price else 1.0
        self._price = price.by_batch() if price else None
        self._asked = AnthropicBackend(backend.options, backend.endpoint, self._price)
        self._origin = backend.origin

    async def complete(self, call: Call) -> Reply:
        """Raise BackendFault: a batch API answers nothing at once."""
        raise not_immediate()

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that a call can use, None when nothing limits the answer."""
        return self._asked.worst_case(call)

    def line(self, item: Item) -> bytes:
        """Return a call as one of the requests of a batch."""
        return to_json({"custom_id": item.name, "params": self._asked.request(item.call)})

    async def submit(self, tag: Tag, lines: Sequence[bytes]) -> str:
        """Return the id of a new batch."""
        content = b'{"requests":[' + b",".join(lines) + b"]}"
        async with self._asked.connected() as client:
            response = await client.post(
                _BATCHES,
                content=content,
                options={"headers": {"content-type": "application/json"}},
                cast_to=httpx2.Response,
            )
        return body_of(response, _Batch, self._origin).id

    async def find(self, tag: Tag, known: Collection[str]) -> Found:
        """Return the batch whose calls carry the tag. One of as many calls that is not over may be it, or not."""
        is_certain = True
        for batch in await self._since(tag.opened_at - DAY_S):
            n_calls = batch.request_counts.processing + batch.request_counts.n_done
            if batch.id in known or n_calls != tag.n_calls:
                continue
            if batch.processing_status != "ended":
                is_certain = False
            elif any(name.startswith(f"{tag.id}-") for name in await self.results(batch.id)):
                return Found(batch.id)
        return Found(None, is_certain)

    async def look(self, vendor_id: str) -> Standing:
        """Return how far a batch is."""
        async with self._asked.connected() as client:
            response = await client.get(f"{_BATCHES}/{vendor_id}", cast_to=httpx2.Response)
        batch = body_of(response, _Batch, self._origin)
        is_cancelled = batch.cancel_initiated_at is not None
        return Standing(batch.processing_status == "ended", batch.request_counts.n_done, is_cancelled)

    async def results(self, vendor_id: str) -> Mapping[str, Result]:
        """Return what became of each call."""
        # By its path, not by the URL that the response names: the key goes to our endpoint alone.
        async with self._asked.connected() as client:
            response = await client.get(f"{_BATCHES}/{vendor_id}/results", cast_to=httpx2.Response)
        return {line.custom_id: self._result(line.result) for line in lines_of(response.content, _Line, self._origin)}

    async def cancel(self, vendor_id: str) -> None:
        """Ask for no more answers of a batch."""
        async with self._asked.connected() as client:
            await client.post(f"{_BATCHES}/{vendor_id}/cancel", cast_to=httpx2.Response)

    async def forget(self, vendor_id: str) -> None:
        """Delete a batch that is over: prompts and answers."""
        async with self._asked.connected() as client:
            await client.delete(f"{_BATCHES}/{vendor_id}", cast_to=httpx2.Response)

    async def _since(self, seconds: float) -> list[_Batch]:
        """Return the batches that the vendor began since then, newest first."""
        found: list[_Batch] = []
        after: str | None = None
        while True:
            query = f"?limit={_PAGE}" + (f"&after_id={after}" if after else "")
            async with self._asked.connected() as client:
                response = await client.get(f"{_BATCHES}{query}", cast_to=httpx2.Response)
            page = body_of(response, _Page, self._origin)
            young = [batch for batch in page.data if not batch.created_at or batch.created_at.timestamp() >= seconds]
            found += young
            if not page.data or len(young) < len(page.data) or not page.has_more or page.data[-1].id == after:
                return found
            after = page.data[-1].id

    def _result(self, outcome: _Outcome) -> Result:
        if outcome.type == "canceled":
            return None
        if outcome.type == "expired":
            return expired(self._origin)
        if outcome.type != "succeeded":
            error = (outcome.error and outcome.error.error) or outcome.error or _Error()
            return rejected(_STATUS.get(error.type, 500), error.type, error.message, self._origin)
        try:
            body = parse_body(to_json(outcome.message), "application/json", MessageBody, self._origin)
            return reply_of(body.answer(), self._origin, self._price)
        except BackendFault as fault:
            return fault


def batched(backend: Backend) -> AnthropicBatch | None:
    """Return the backend as its Message Batches API answers for it, None where it is another vendor's."""
    return AnthropicBatch(backend) if isinstance(backend, AnthropicBackend) else None
