"""Assertion: judges that give the verdict which promptfoo gives of its own assertions."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import AnyJudge, Attempt, Combined, Judge, Outcome, Score, Unscored, judge
from skillopt_mcp.tasks.judges.base import QUOTED, quoted
from skillopt_mcp.tasks.judges.javascript import compile_javascript
from skillopt_mcp.tasks.judges.kinds.json_value import KEYWORDS, check_values

BLANKS = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
"""What JavaScript trims and splits at."""
_JSON = frozenset({"is-json", "contains-json"})
_LISTS = frozenset({"contains-any", "contains-all", "icontains-any", "icontains-all"})
TYPES = _JSON | _LISTS | {"equals", "contains", "icontains", "starts-with", "regex", "word-count"}
# A field of "a, b": quoted, with what is quoted in it twice or behind a backslash, or as it stands.
_FIELD = re.compile(rf'[{BLANKS},]*+(?:"((?:\\["\\]|""|[^"])*+)"[{BLANKS}]*+(?=,|\Z)|([^",][^,]*)|\Z)')
# What ajv and jsonschema understand alike, in time linear in the answer. The values of these are schemas.
_SCHEMAS = frozenset({"additionalProperties", "items", "not", "if", "then", "else"})
_GROUPS = frozenset({"allOf", "anyOf", "oneOf"})
_KEYWORDS = KEYWORDS - {
    "$schema", "propertyNames", "dependentRequired", "prefixItems", "contains", "minContains", "maxContains",
    "multipleOf", "pattern",
}  # fmt: skip
_DRAFTS = ("http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-07/schema")
# Names that every object of JavaScript has.
_INHERITED = frozenset({
    "__proto__", "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString",
    "toString", "valueOf",
})  # fmt: skip
_MAX_JSON, _MAX_OBJECTS = 100_000, 10_000


@judge("assertion", of_evals=True)
class Assertion(Judge):
    """What promptfoo's assertion says of the whole answer: its `type` (`not-` negates it) and `value`."""

    type: str
    value: JsonValue = None

    @property
    def base(self) -> str:
        """The type without `not-`."""
        return self.type.removeprefix("not-")

    def score(self, attempt: Attempt) -> Outcome:
        try:
            holds = self._holds(attempt.answer) is (self.type == self.base)
        except RecursionError:
            return Unscored("the answer is JSON too deep to compare")
        except BadInput as error:
            return Unscored(str(error))
        text = self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)
        reason = self.type if self.base in _JSON and self.value is None else f"{self.type} {quoted(text, QUOTED)}"
        return Score(holds, float(holds), reason if holds else f"{reason} fails for {quoted(attempt.answer)}")

    def _holds(self, answer: str) -> bool:
        value = self.value
        match self.base:
            case "equals" if value is None or isinstance(value, dict | list):
                return any(_canonical(found) == _canonical(value) for found in parse_json(answer))
            case "equals":
                return show_value(value) == answer
            case "starts-with":
                return answer.startswith(str(value))
            case "regex":
                return compile_javascript(str(value)).search(answer)
            case "is-json":
                return any(not value or _validator(value).is_valid(found) for found in parse_json(answer))
            case "contains-json":
                return self._holds_json(answer)
            case "word-count":
                n = len(re.findall(f"[^{BLANKS}]+", answer))
                least, most = (value.get("min", 0), value.get("max", n)) if isinstance(value, dict) else (value, value)
                return float(least) <= n <= float(most)  # type: ignore[arg-type]
        is_folded = self.base.startswith("i")
        text = answer.lower() if is_folded else answer
        each_in = ((each.lower() if is_folded else each) in text for each in self.texts())
        return any(each_in) if self.base.endswith("-any") else all(each_in)

    def _holds_json(self, answer: str) -> bool:
        """Whether an object stands in the answer, its braces counted in strings, too, and the schema takes it."""
        depth, start, n_found, is_certain = 0, 0, 0, True
        takes = _validator(self.value).is_valid if self.value else None
        for brace in re.finditer("[{}]", answer):
            start = brace.start() if depth == 0 else start
            depth = max(0, depth + (1 if brace[0] == "{" else -1))
            if depth == 0 and brace[0] == "}" and answer[start] == "{":
                found = parse_json(answer[start : brace.end()]) if brace.end() - start < _MAX_JSON else []
                n_found, is_certain = n_found + 1, is_certain and bool(found)
                if found and (takes is None or (is_certain and takes(found[0]))):
                    return True
            if n_found > _MAX_OBJECTS:
                raise BadInput("the answer has too many braces")
        if depth or not is_certain:
            raise BadInput("promptfoo would read braces of the answer that are not JSON as YAML")
        return False

    def texts(self) -> list[str]:
        """The texts that the answer is to contain. Raises BadInput for quotes that do not end."""
        if self.base not in _LISTS or isinstance(self.value, list):
            return [show_value(each) for each in (self.value if isinstance(self.value, list) else [self.value])]
        found, position, text = list[str](), 0, str(self.value)
        while position < len(text):
            if not (field := _FIELD.match(text, position)):
                raise BadInput(f"a quote in {quoted(text)} does not end, or no comma follows it")
            position = field.end()
            if field[1] is not None:
                found.append(re.sub(r'\\(["\\])|""', lambda match: match[1] or '"', field[1]))
            elif field[2]:
                found.append(field[2].strip(BLANKS))
        return found

    def check(self) -> None:
        """Raise BadInput where promptfoo would report an error for every answer, or means what is not known here."""
        if self.base not in TYPES:
            raise BadInput(f"assertion judge: unknown type {quoted(self.type)}; use one of {', '.join(sorted(TYPES))}")
        value = self.value
        check_values("assertion", value)
        is_text, is_number = isinstance(value, str) and value != "", type(value) in (int, float)
        mapping: dict[str, Any] = value if isinstance(value, dict) else {}
        bounds = [mapping[name] for name in ("min", "max") if name in mapping]
        is_good = {
            "contains": is_text or is_number,
            "icontains": is_text or is_number,
            "starts-with": is_text,
            "regex": is_text,
            **dict.fromkeys(_JSON, value is None or isinstance(value, dict)),
            **dict.fromkeys(_LISTS, is_text or isinstance(value, list)),
        }.get(self.base, True)
        if self.base == "word-count" and bounds:
            is_good = all(type(each) in (int, float) for each in bounds) and bounds == sorted(bounds)
        elif self.base == "word-count":
            is_good = is_number or re.fullmatch(r"\s*[0-9]{1,9}(\.[0-9]+)?\s*", str(value)) is not None
        if not is_good:
            raise BadInput(
                f"{self.type} with the value {json.dumps(value)[:80]} is an error in promptfoo, or unknown here"
            )
        if self.base == "regex":
            compile_javascript(str(value))
        elif self.base in _LISTS:
            self.texts()
        elif value and self.base in _JSON:
            _check_schema(value)

    def references(self) -> list[str]:
        if self.type != self.base or self.base in _JSON | {"regex", "word-count"}:
            return []
        is_json = self.base == "equals" and not isinstance(self.value, str | int | float)
        return [json.dumps(self.value)] if is_json else ["\n".join(self.texts())]

    def is_form_only(self) -> bool:
        return self.base == "word-count" or (self.base in _JSON and not self.value)


class AssertionPart(BaseModel):
    """A judge and its weight in a set."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    judge: AnyJudge
    weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0


@judge("assertions", of_evals=True)
class AssertionSet(Combined):
    """Every judge in `judges` ({judge, weight}) passes, or their weighted mean is at least `threshold`, as promptfoo.

    One of weight 0 never fails. Soft is the mean.
    """

    judges: list[AssertionPart] = Field(min_length=1, description="[{judge, weight}]")
    threshold: Annotated[float, Field(allow_inf_nan=False)] | None = None

    def parts(self) -> Sequence[Judge]:
        return [part.judge for part in self.judges]

    def combine(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Return the outcome; no score where a part without one could turn it."""
        # Sets count last, so that the sum is rounded as promptfoo's is.
        parts = sorted(
            zip(self.judges, outcomes, strict=True), key=lambda part: isinstance(part[0].judge, AssertionSet)
        )
        least = most = weight = 0.0
        for part, outcome in parts:
            weight += part.weight
            least += part.weight * (outcome.soft if isinstance(outcome, Score) else 0.0)
            most += part.weight * (outcome.soft if isinstance(outcome, Score) else 1.0)
        least, most = (least / weight, most / weight) if weight > 0 else (0.0, 0.0)
        decisive = [each for part, each in parts if part.weight > 0 or isinstance(part.judge, AssertionSet)]
        failed = [each.reason for each in decisive if isinstance(each, Score) and not each.hard]
        unknown = [each.reason for each in decisive if isinstance(each, Unscored)]
        hard = not failed if self.threshold is None else least >= self.threshold
        if unknown and not (failed if self.threshold is None else hard or most < self.threshold):
            return Unscored("; ".join(unknown))
        why = "; ".join(failed) or f"all {len(parts)} judges passed"
        if self.threshold is not None:
            why = f"weighted mean {least:.3f}, {self.threshold:g} passes: {why}"
        return Score(hard, min(1.0, least), why)

    def is_form_only(self) -> bool:
        return all(part.judge.is_form_only() for part in self.judges)


def show_value(value: object) -> str:
    """The text that JavaScript makes of a decoded value."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return ",".join("" if each is None else show_value(each) for each in value)
    if not isinstance(value, int | float):
        return value if isinstance(value, str) else "[object Object]"
    text = repr(float(repr(value)))
    if 1e-6 <= abs(float(text)) < 1e21:
        text = f"{Decimal(text):f}"
    text = re.sub(r"e([+-])0*", r"e\1", text.removesuffix(".0"))
    return {"-0": "0", "inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(text, text)


def parse_json(text: str) -> list[Any]:
    """The value of a text that JSON.parse accepts, in a list; else an empty one. All numbers are floats."""
    try:
        return [json.loads(text, parse_int=float, parse_constant=int)]
    except ValueError:
        return []


def _canonical(value: object) -> str:
    return json.dumps(json.loads(json.dumps(value), parse_int=float), sort_keys=True)


def _validator(schema: JsonValue) -> Any:
    # Loaded when a schema is met: it costs a tenth of the start.
    return importlib.import_module("jsonschema").Draft7Validator(schema)


def _check_schema(schema: JsonValue) -> None:
    """Raise BadInput for a schema that ajv refuses, or may understand otherwise."""
    validator = _validator(schema)
    for error in type(validator)(validator.META_SCHEMA).iter_errors(schema):
        raise BadInput(f"the schema is not valid ({quoted(error.message)})")
    schemas: list[Any] = [schema]
    for part in schemas:
        if not isinstance(part, dict):
            continue
        for name, inner in part.items():
            is_odd = name == "items" and isinstance(inner, list)
            is_odd |= name == "enum" and len({*map(_canonical, inner)}) < len(inner)
            is_odd |= name in ("required", "properties") and not _INHERITED.isdisjoint(inner)
            if (name == "$schema" and inner in _DRAFTS) or (name in _KEYWORDS and not is_odd and inner != []):
                schemas += inner.values() if name == "properties" else inner if name in _GROUPS else []
                schemas += [inner] if name in _SCHEMAS else []
            else:
                raise BadInput(f"the schema's {quoted(name)} may mean something else here")
        if ("if" in part) is part.keys().isdisjoint({"then", "else"}):
            raise BadInput('the schema has "if" without "then" or "else", or one of these without "if"')
