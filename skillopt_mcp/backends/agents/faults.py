"""Faults: what a command line says when it fails, and how a person mends it. No message holds a secret."""

from __future__ import annotations

import re
from dataclasses import dataclass

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.records.calls import Fault, Usage

MESSAGE_CHARACTERS = 300
_STATUS = re.compile(r"status:? (\d{3})\b|API Error: (\d{3})\b")
_AGAIN = re.compile(r"try again in (\d+(?:\.\d+)?) ?(ms|s)\b")
_BY_STATUS: dict[int, Fault] = {
    401: "auth", 402: "auth", 403: "auth", 404: "model_not_found", 408: "timeout", 413: "context_too_long",
    429: "rate_limit", 503: "overloaded", 529: "overloaded",
}  # fmt: skip
# Tried in this order: what is said in words is nearer to the cause than a status.
_BY_WORDS: tuple[tuple[Fault, str], ...] = (
    ("auth", r"quota exceeded|insufficient_quota|credit balance|billing"),
    ("rate_limit", r"rate limit|usage limit|hit your limit|too many requests"),
    ("auth", r"not logged in|log ?in again|please run /login|sign in|missing environment variable|api key"),
    ("model_not_found", r"\bmodel\b.*(?:not exist|not found|no access|not supported|invalid)|selected model \("),
    ("overloaded", r"overloaded|at capacity|high demand"),
    ("context_too_long", r"context window|context length|too long|request too large"),
    ("truncated", r"max_output_tokens|output token maximum|maximum budget"),
    ("refusal", r"content_filter|usage policy|safeguards|safety|flagged|invalid_prompt|can't help with this"),
    ("unsupported", r"sandbox required|unknown option|unexpected argument|unrecognized|unsupported|effort|thinking"),
    ("malformed", r"malformed response|failed to parse"),
    (
        "connection",
        r"connection (?:failed|refused|reset|error|closed|lost|timed out)|disconnected|stream closed|socket hang up"
        r"|error sending request|fetch failed|network (?:error|is unreachable)|no internet|internet connection"
        r"|(?:can't|cannot|couldn't|could not|unable to) (?:reach|connect)|failed to lookup address|name resolution"
        r"|dns error|\b(?:ECONN[A-Z]+|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EPIPE|ENET[A-Z]+|EHOST[A-Z]+|\w*ERR_SOCKET\w*)\b",
    ),
    ("timeout", r"request timed out"),
)
_FIXES: dict[Fault, str] = {
    "rate_limit": "it is asked again later; raise the account's limits, or send less at once",
    "overloaded": "it is asked again later",
    "timeout": "raise timeout=SECONDS in the spec, or use a faster model",
    "connection": "check the network",
    "server": "it is asked again later",
    "auth": "{login}",
    "model_not_found": "check the model's name in the spec, and that the account may use it",
    "unsupported": "{settings}",
    "context_too_long": "use a model with a larger context, or a shorter task or skill",
    "refusal": "reword the task, or leave it out",
    "truncated": "use a larger max_usd=DOLLARS where one is set, or ask for a shorter answer",
    "malformed": "check that nothing between the program and its model changes the answers",
    "empty": "use another model, or reword the task",
    "internal": "run it by hand to see more",
}


@dataclass(frozen=True, slots=True)
class Program:
    """Which program speaks, and what a person does about its account (`login`) and its options (`settings`)."""

    name: str
    login: str
    settings: str

    def fault(self, fault: Fault, what: str, usage: Usage | None = None) -> BackendFault:
        """Return the fault with a message of one line: who, what, and what to do."""
        said = " ".join(what.split())
        said = said if len(said) <= MESSAGE_CHARACTERS else f"{said[: MESSAGE_CHARACTERS - 3]}..."
        fix = _FIXES[fault].format(login=self.login, settings=self.settings)
        return BackendFault(fault, f"{self.name}: {said.rstrip('.;')}; {fix}", _retry_after_s(what), usage)


def fault_of(text: str, status: int | None = None) -> Fault:
    """Return the fault that a program's words, and the status that its model's server answered with, amount to."""
    found = next((fault for fault, words in _BY_WORDS if re.search(words, text, re.I)), None)
    if found:
        return found
    told = _STATUS.search(text)
    status = status or (int(told[1] or told[2]) if told else None)
    if status is None:
        return "internal"
    return _BY_STATUS.get(status) or ("server" if status >= 500 else "internal")


def _retry_after_s(text: str) -> float | None:
    found = _AGAIN.search(text)
    return float(found[1]) / (1000 if found[2] == "ms" else 1) if found else None
