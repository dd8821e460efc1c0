"""Openai batch: the Batch API: a file of requests goes up, and files of responses and errors come down."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import httpx2
from pydantic_core import to_json

from skillopt_mcp.backends.api.answers import Wire, body_of
from skillopt_mcp.backends.api.batch import DAY_S, MOST_BYTES, expired, lines_of, not_immediate, rejected
from skillopt_mcp.backends.api.faults import Origin, rejection
from skillopt_mcp.backends.api.openai import OpenAIBackend
from skillopt_mcp.backends.base import Backend, BackendFault
from skillopt_mcp.backends.batches import Found, Item, Result, Standing, Tag
from skillopt_mcp.errors import BackendError
from skillopt_mcp.records.calls import Call, Reply, Usage

TAG = "skillopt_batch"
_PATH = "/batches"
_PAGE = 100
_OVER = frozenset({"completed", "expired", "cancelled", "failed"})
_TOO_MUCH = "token_limit"


class _Counts(Wire):
    completed: int = 0
    failed: int = 0


class _Error(Wire):
    code: str | int | None = None
    message: str | None = None

    def fault(self, status: int, origin: Origin) -> BackendFault:
        return rejected(status, str(self.code or ""), self.message or "", origin)


class _Errors(Wire):
    data: list[_Error] | None = None


class _Batch(Wire):
    id: str
    status: str = ""
    created_at: float | None = None
    metadata: dict[str, str] | None = None
    request_counts: _Counts | None = None
    input_file_id: str | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _Errors | None = None


class _Page(Wire):
    data: list[_Batch]
    has_more: bool = False


class _Response(Wire):
    status_code: int = 200
    body: object = None


class _Line(Wire):
    custom_id: str
    response: _Response | None = None
    error: _Error | None = None


class OpenAIBatch:
    """Has calls answered by OpenAI's Batch API, on the endpoint that the backend is set to, at the price of that."""

    deferred = True
    most_calls = 20_000
    most_bytes = MOST_BYTES

    def __init__(self, backend: OpenAIBackend) -> None:
        self.name, self.fingerprint, self.n_slots = backend.name, backend.fingerprint, backend.n_slots
        price = backend.price
        self.discount = price.batch if price else 1.0
        self._asked = OpenAIBackend(backend.options, backend.endpoint, price.by_batch() if price else None)
        self._origin = backend.origin

    async def complete(self, call: Call) -> Reply:
        """Raise BackendFault: a batch API answers nothing at once."""
        raise not_immediate()

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that a call can use, None when nothing limits the answer."""
        return self._asked.worst_case(call)

    def line(self, item: Item) -> bytes:
        """Return a call as a line of the file that goes up."""
        manner, body = self._asked.request(item.call)
        return to_json({"custom_id": item.name, "method": "POST", "url": f"/v1{manner.path}", "body": body})

    async def submit(self, tag: Tag, lines: Sequence[bytes]) -> str:
        """Return the id of a new batch, which carries the tag."""
        async with self._asked.connected() as client:
            file = await client.files.create(file=(f"{tag.id}.jsonl", b"\n".join(lines) + b"\n"), purpose="batch")
            body = {
                "input_file_id": file.id,
                "endpoint": f"/v1{self._asked.manner.path}",
                "completion_window": "24h",
                "metadata": {TAG: tag.id},
            }
            response = await client.post(_PATH, body=body, cast_to=httpx2.Response)
        return body_of(response, _Batch, self._origin).id

    async def find(self, tag: Tag, known: Collection[str]) -> Found:
        """Return the batch that carries the tag: among the newest ones, for it was sent since the tag was made."""
        after: str | None = None
        while True:
            query = f"?limit={_PAGE}" + (f"&after={after}" if after else "")
            async with self._asked.connected() as client:
                response = await client.get(f"{_PATH}{query}", cast_to=httpx2.Response)
            page = body_of(response, _Page, self._origin)
            for batch in page.data:
                if (batch.metadata or {}).get(TAG) == tag.id:
                    return Found(batch.id)
            last = page.data[-1] if page.data else None
            if last is None or not page.has_more or last.id == after:
                return Found(None)
            if last.created_at is not None and last.created_at < tag.opened_at - DAY_S:
                return Found(None)
            after = last.id

    async def look(self, vendor_id: str) -> Standing:
        """Return how far a batch is."""
        batch = await self._get(vendor_id)
        counts = batch.request_counts or _Counts()
        refused = self._refused(batch) if batch.status == "failed" else None
        return Standing(batch.status in _OVER, counts.completed + counts.failed, batch.status == "cancelled", refused)

    async def results(self, vendor_id: str) -> Mapping[str, Result]:
        """Return what became of each call, from the files of responses and of errors."""
        batch = await self._get(vendor_id)
        found: dict[str, Result] = {}
        for file_id in (batch.output_file_id, batch.error_file_id):
            if file_id:
                async with self._asked.connected() as client:
                    response = await client.get(f"/files/{file_id}/content", cast_to=httpx2.Response)
                found |= {
                    line.custom_id: self._result(line) for line in lines_of(response.content, _Line, self._origin)
                }
        return found

    async def cancel(self, vendor_id: str) -> None:
        """Ask for no more answers of a batch."""
        async with self._asked.connected() as client:
            await client.post(f"{_PATH}/{vendor_id}/cancel", cast_to=httpx2.Response)

    async def forget(self, vendor_id: str) -> None:
        """Delete the files of a batch: prompts and answers."""
        batch = await self._get(vendor_id)
        for file_id in (batch.input_file_id, batch.output_file_id, batch.error_file_id):
            if file_id:
                async with self._asked.connected() as client:
                    await client.delete(f"/files/{file_id}", cast_to=httpx2.Response)

    async def _get(self, vendor_id: str) -> _Batch:
        async with self._asked.connected() as client:
            response = await client.get(f"{_PATH}/{vendor_id}", cast_to=httpx2.Response)
        return body_of(response, _Batch, self._origin)

    def _refused(self, batch: _Batch) -> BackendFault:
        errors = (batch.errors.data if batch.errors else None) or [_Error()]
        # So many tokens may wait in the queue: later there is room again.
        return errors[0].fault(429 if _TOO_MUCH in str(errors[0].code) else 400, self._origin)

    def _result(self, line: _Line) -> Result:
        error = line.error
        if error and error.code == "batch_cancelled":
            return None
        if error and error.code == "batch_expired":
            return expired(self._origin)
        answered = line.response
        if answered is None:
            return (error or _Error()).fault(500, self._origin)
        if answered.status_code != 200:
            return _error_in(answered.body).fault(answered.status_code, self._origin)
        try:
            return self._asked.reply_in(to_json(answered.body), "application/json", self._asked.manner)
        except BackendFault as fault:
            return fault


def _error_in(body: object) -> _Error:
    found = rejection(0, body, {})
    return _Error(code=found.code, message=found.message)


def batched(backend: Backend) -> OpenAIBatch | None:
    """Return the backend as its Batch API answers for it. Raises BackendError where that API is another one."""
    if not isinstance(backend, OpenAIBackend):
        return None
    if backend.options.azure:
        raise BackendError(
            f"'{backend.name}' is a deployment of Azure's, whose batches are others: leave out --by-batch"
        )
    return OpenAIBatch(backend)
