"""JavaScript: its regular expressions as RE2 patterns that mean the same, or what of them has no equal in RE2.

Every character and class is written as ranges of what JavaScript compares: UTF-16 units, or code points under u. So no
rule of RE2 on case, `.`, `\\s` or escapes applies. Surrogates, which UTF-8 lacks, are moved to plane 16, and so are
U+017F and U+212A, which RE2 takes for s and k where `[Ss]` or `[Kk]` stands in an alternative. Under m each end of a
line T is written "\\nT\\n" in the text, since RE2 knows "\\n" alone.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby

import re2

from skillopt_mcp.core.errors import BadInput

MAX_PATTERN_CHARS = 2_000
_MAX_PROGRAM, _MAX_REPEAT = 20_000, 1_000
Ranges = tuple[tuple[int, int], ...]
_DIGITS: Ranges = ((48, 57),)
_WORDS: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_ENDS: Ranges = ((10, 10), (13, 13), (0x2028, 0x2029))
_SPACES: Ranges = (
    (9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip
_CONTROLS = {"b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_MOVED, _UNITS = 0x102000, "[\u017f\u212a\ud800-\udfff\U00010000-\U0010ffff]"
_PARTS = (
    (0, 0x17E, 0), (0x17F, 0x17F, _MOVED), (0x180, 0x2129, 0), (0x212A, 0x212A, _MOVED), (0x212B, 0xD7FF, 0),
    (0xD800, 0xDFFF, _MOVED), (0xE000, 0x101FFF, 0),
)  # fmt: skip
_ANY, _NOTHING = "(?s:.)", r"[^\x00-\x{10FFFF}]"
_UNIT_OF_LINES = r"(?:[^\n]|\n[\n\r\x{2028}\x{2029}]\n)"
_UNIT_BYTES = rb"(?s:.)[\x80-\xbf]*"
_QUANTIFIER = re.compile(r"[*+?]|\{([0-9]+)(,([0-9]*))?\}")
_GROUPS = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]?|(\((?!\?))|(\(\?<(?![=!]))", re.S)


class BadPattern(BadInput):
    """JavaScript refuses the pattern, too."""


class NoEqualPattern(BadInput):
    """The pattern uses what has no equal in RE2; the message names it."""


class JavaScriptPattern:
    """A pattern that matches what JavaScript's does: read by ECMAScript's grammar with its annex B, written for RE2.

    `compile_javascript` makes it. `is_countable`: matches of nothing are counted as JavaScript counts them.
    """

    def __init__(self, pattern: str, flags: str) -> None:
        if len(set(flags)) < len(flags) or set(flags) - set("dgimsuvy") or {"u", "v"} <= set(flags):
            raise BadPattern(f"no flags of a regular expression: {flags}")
        if "v" in flags:
            raise NoEqualPattern("flag v")
        if len(pattern) > MAX_PATTERN_CHARS:
            raise NoEqualPattern(f"a pattern of more than {MAX_PATTERN_CHARS:,} characters")
        self.flags, self.is_unicode = flags, "u" in flags
        self.text = _join_pairs(pattern) if self.is_unicode else "".join(map(chr, _split_units(pattern)))
        groups = [match for match in _GROUPS.finditer(self.text) if match[1] or match[2]]
        self.n_groups, self.has_names = len(groups), any(match[2] for match in groups)
        self.at, self.names, self.lost = 0, list[str](), list[str]()
        self.needs_cases, self.needs_words, self.is_countable = "i" in flags, False, True
        self.last = 0x10FFFF if self.is_unicode else 0xFFFF
        folded = self.is_unicode and "i" in flags
        self.words = _merge([*_WORDS, (0x17F, 0x17F), (0x212A, 0x212A)]) if folded else _WORDS
        try:
            body, _ = self.disjunction()
        except RecursionError as error:
            raise NoEqualPattern("groups nested too deep") from error
        if self.at < len(self.text):
            raise BadPattern("unmatched )")
        if len(set(self.names)) < len(self.names):
            self.lost.append("groups of one name")
        if self.lost:
            raise NoEqualPattern(", ".join(dict.fromkeys(self.lost)))
        options = re2.Options()
        options.log_errors = False
        before = "" if "y" in flags else f"{_UNIT_OF_LINES if 'm' in flags else _ANY}*?"
        try:
            self.program = re2.compile(f"{before}({body})", options)
        except re2.error as error:
            raise NoEqualPattern("a pattern this large, or repetitions of more than 1,000 in all") from error
        if self.program.programsize > _MAX_PROGRAM:
            raise NoEqualPattern("a pattern this large")

    def search(self, text: str) -> bool:
        """Whether the pattern is found in the whole text. Raises BadInput for a text of which that is not certain."""
        return self.program.match(self._encode(text)) is not None

    def count(self, text: str, most: int) -> int:
        """How many matches that do not overlap the text has, up to `most`. Raises BadInput like `search`."""
        data, start, n = self._encode(text), 0, 0
        unit = re.compile(rb"\n" + _UNIT_BYTES + rb"\n|" + _UNIT_BYTES if "m" in self.flags else _UNIT_BYTES)
        while n < most and (match := self.program.match(data, start)):
            n, (begin, start) = n + 1, match.span(1)
            if begin == start:
                if not (passed := unit.match(data, start)):
                    break
                start = passed.end()
        return n

    def _encode(self, text: str) -> bytes:
        """The text as the program reads it."""
        if not text.isascii():
            if self.is_unicode:
                text = _join_pairs(text)
            characters = set(text)
            if self.is_unicode and max(characters) >= "\U00102000":
                raise BadInput("the text holds characters for private use above U+101FFF")
            if self.needs_words and not characters.isdisjoint("\u017f\u212a"):
                raise BadInput("the text holds U+017F or U+212A, which \\b takes for letters under i and u")
            # U+0295 went from one category to another.
            vague = {each for each in characters if each == "\u0295" or unicodedata.category(each) == "Cn"}
            if self.needs_cases and min(vague, default="\U0010ffff") <= ("\U0010fffe" if self.is_unicode else "\uffff"):
                raise BadInput("the text holds characters that are not the same in all versions of Unicode")
            moved = "[\u017f\u212a\ud800-\udfff]" if self.is_unicode else _UNITS
            text = re.sub(moved, lambda found: "".join(chr(unit + _MOVED) for unit in _split_units(found[0])), text)
        if "m" in self.flags:
            text = re.sub("[\n\r\u2028\u2029]", "\n\\g<0>\n", text)
        return text.encode()

    def take(self, expected: str) -> bool:
        found = self.text.startswith(expected, self.at)
        self.at += len(expected) * found
        return found

    def match(self, pattern: str) -> re.Match[str] | None:
        found = re.compile(pattern).match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def disjunction(self) -> tuple[str, bool]:
        """RE2's text for alternatives, and whether they can match nothing."""
        branches, nullable = list[str](), False
        while True:
            terms, is_empty = list[str](), True
            while self.at < len(self.text) and self.text[self.at] not in "|)":
                term, can_be_empty = self.term()
                terms.append(term)
                is_empty &= can_be_empty
            branches.append("".join(terms))
            nullable |= is_empty
            if not self.take("|"):
                return f"(?:{'|'.join(branches)})", nullable

    def term(self) -> tuple[str, bool]:
        char, is_empty, is_repeatable = self.text[self.at], False, True
        self.at += 1
        if char in "^$":
            lines = {"^": "(?m:^)", "$": "(?m:$)"} if "m" in self.flags else {"^": r"\A", "$": r"\z"}
            atom, is_empty, is_repeatable = lines[char], True, False
        elif char == "(":
            atom, is_empty, is_repeatable = self.group()
        elif char == ".":
            atom = self.write(((0, self.last),) if "s" in self.flags else self.negate(_ENDS))
        elif char == "[":
            atom = self.write_class()
        elif char == "\\" and (found := self.match("[bB]")):
            atom, is_empty, is_repeatable = rf"\{found[0]}", True, False
            self.needs_words |= self.is_unicode and "i" in self.flags
        elif char == "\\" and self.refers():
            atom, is_empty = "", True
        elif char == "\\":
            atom = self.write(self.escape(in_class=False)[0])
        elif char in "*+?" or (char == "{" and (self.is_unicode or _QUANTIFIER.match(self.text, self.at - 1))):
            raise BadPattern("nothing to repeat")
        elif char in "]}" and self.is_unicode:
            raise BadPattern(f"lone {char}")
        else:
            atom = self.write(((ord(char), ord(char)),))
        found = _QUANTIFIER.match(self.text, self.at)
        if not found:
            if self.is_unicode and self.text.startswith("{", self.at):
                raise BadPattern("incomplete quantifier")
            return atom, is_empty
        if not is_repeatable:
            raise BadPattern("nothing to repeat")
        self.at = found.end()
        lazy = "?" if self.take("?") else ""
        if not found[1]:
            self.is_countable &= not is_empty
            return atom + found[0] + lazy, is_empty or found[0] != "+"
        low, high = int(found[1][:9]), int((found[3] or "0")[:9]) if found[2] else int(found[1][:9])
        if found[3] and high < low:
            raise BadPattern("numbers out of order in a quantifier")
        if max(low, high) > _MAX_REPEAT:
            self.lost.append("repetition over 1000")
        self.is_countable &= not is_empty or (not found[2]) or found[1] == found[3]
        return atom + found[0] + lazy, is_empty or low == 0

    def group(self) -> tuple[str, bool, bool]:
        is_repeatable, is_look = True, False
        if found := self.match(r"\?(<?)[=!]"):
            self.lost.append("lookbehind" if found[1] else "lookahead")
            is_look, is_repeatable = True, not (found[1] or self.is_unicode)
        elif self.take("?<"):
            self.names.append(self.name())
        elif self.match(r"\?(?:[ims]+(?:-[ims]*)?|-[ims]+):"):
            self.lost.append("inline flags")
        elif not self.take("?:") and self.take("?"):
            raise BadPattern("invalid group")
        body, is_empty = self.disjunction()
        if not self.take(")"):
            raise BadPattern("a group is not closed")
        return body, is_empty or is_look, is_repeatable

    def name(self) -> str:
        if not (found := self.match(r"([A-Za-z_$][A-Za-z_$0-9]*)>")):
            raise NoEqualPattern("a group's name that is not of ASCII letters")
        return found[1]

    def refers(self) -> bool:
        """Take what stands after a backslash if it refers to a group."""
        if (self.is_unicode or self.has_names) and self.take("k"):
            if not self.take("<"):
                raise BadPattern("invalid reference to a group")
            self.name()
        elif (found := re.compile("[1-9][0-9]*").match(self.text, self.at)) and int(found[0][:9]) <= self.n_groups:
            self.at = found.end()
        else:
            return False
        self.lost.append("backreference")
        return True

    def write_class(self) -> str:
        is_negated, ranges = self.take("^"), list[tuple[int, int]]()
        while not self.take("]"):
            first, is_char = self.class_atom()
            if not self.text.startswith("-", self.at) or self.text.startswith("-]", self.at):
                ranges += first
                continue
            self.at += 1
            last, is_also = self.class_atom()
            if is_char and is_also:
                if first[0][0] > last[0][0]:
                    raise BadPattern("a range of a class is out of order")
                ranges.append((first[0][0], last[0][0]))
            elif self.is_unicode:
                raise BadPattern("invalid range of a class")
            else:
                ranges += [*first, *last, (45, 45)]
        found = self.fold(_merge(ranges))
        return self.write(self.negate(found) if is_negated else found)

    def class_atom(self) -> tuple[Ranges, bool]:
        """Characters that stand in a class, and whether they are one that may begin or end a range."""
        if self.at >= len(self.text):
            raise BadPattern("a class is not closed")
        char = self.text[self.at]
        self.at += 1
        if char == "\\":
            return self.escape(in_class=True)
        return ((ord(char), ord(char)),), True

    def escape(self, *, in_class: bool) -> tuple[Ranges, bool]:
        """What an escape stands for, whose backslash is taken, and whether it is one character."""
        if self.at >= len(self.text):
            raise BadPattern("\\ at the end of the pattern")
        if found := self.match("[dDwWsS]"):
            ranges = {"d": _DIGITS, "w": self.words, "s": _SPACES}[found[0].lower()]
            return (ranges if found[0].islower() else self.negate(ranges)), False
        if self.is_unicode and (kind := self.match("[pP]")):
            if not (found := self.match(r"\{(?:(?:gc|General_Category)=)?([\w=]+)\}")):
                raise BadPattern("invalid property of Unicode")
            ranges, self.needs_cases = _find_category(found[1]), True
            if not ranges:
                self.lost.append(rf"\p{{{found[1]}}}")
            return (ranges if kind[0] == "p" else self.negate(ranges)), False
        if found := self.match("x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})"):
            code = int(found[1] or found[2], 16)
            if self.is_unicode and 0xD800 <= code < 0xDC00 and (low := self.match(r"\\u([dD][c-fC-F][0-9A-Fa-f]{2})")):
                code = 0x10000 + (code - 0xD800) * 0x400 + int(low[1], 16) - 0xDC00
        elif self.is_unicode and (found := self.match(r"u\{0*([0-9A-Fa-f]{1,6})\}")):
            code = int(found[1], 16)
            if code > self.last:
                raise BadPattern("no such code point")
        elif found := self.match("c([A-Za-z0-9_])" if in_class and not self.is_unicode else "c([A-Za-z])"):
            code = ord(found[1]) % 32
        elif not self.is_unicode and self.text.startswith("c", self.at):
            code = 92  # the backslash itself: the c is read next
        elif found := self.match("0(?![0-9])" if self.is_unicode else "[0-3][0-7]{0,2}|[4-7][0-7]?"):
            code = int(found[0], 8)
        elif found := self.match("[bfnrtv]"):
            code = _CONTROLS[found[0]]
        else:
            char = self.text[self.at]
            self.at += 1
            is_syntax = char in "^$\\.*+?()[]{}|/" or (in_class and char == "-")
            if (self.is_unicode and not is_syntax) or (char == "k" and self.has_names):
                raise BadPattern(f"invalid escape \\{char}")
            code = ord(char)
        return ((code, code),), True

    def negate(self, ranges: Ranges) -> Ranges:
        edges = [-1, *(edge for low, high in ranges for edge in (low, high)), self.last + 1]
        return tuple((edges[n] + 1, edges[n + 1] - 1) for n in range(0, len(edges), 2) if edges[n + 1] - edges[n] > 1)

    def fold(self, ranges: Ranges) -> Ranges:
        """The ranges and every character that is equal to one of them under i."""
        return _fold(ranges, is_unicode=self.is_unicode) if "i" in self.flags else ranges

    def write(self, ranges: Ranges) -> str:
        ranges = self.fold(ranges)
        ends = "".join(
            f"\\x{{{code:X}}}" for code in (10, 13, 0x2028, 0x2029) if any(a <= code <= b for a, b in ranges)
        )
        if "m" in self.flags and ends:
            rest = self.negate(_merge([*self.negate(ranges), *_ENDS]))
            return f"(?:\\n[{ends}]\\n|{self.write(rest)})" if rest else f"(?:\\n[{ends}]\\n)"
        others = self.negate(ranges)
        if len(others) < len(ranges) and "m" not in self.flags:
            return f"[^{_write(others)}]" if others else _ANY
        return f"[{_write(ranges)}]" if ranges else _NOTHING


@lru_cache(maxsize=256)
def compile_javascript(pattern: str, flags: str = "") -> JavaScriptPattern:
    """Compile `new RegExp(pattern, flags)`. Raises BadPattern where JavaScript does, else NoEqualPattern."""
    return JavaScriptPattern(pattern, flags)


def _split_units(text: str) -> list[int]:
    """The UTF-16 units of a text."""
    data = text.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(data[n : n + 2], "little") for n in range(0, len(data), 2)]


def _join_pairs(text: str) -> str:
    """The text with each pair of surrogates made one character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _write(ranges: Ranges) -> str:
    """Ranges of RE2, as the text is encoded."""
    return "".join(
        f"\\x{{{max(low, first) + by:X}}}-\\x{{{min(high, last) + by:X}}}"
        for low, high in ranges
        for first, last, by in _PARTS
        if max(low, first) <= min(high, last)
    )


def _merge(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged = list[tuple[int, int]]()
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


@lru_cache(maxsize=1_000)
def _fold(ranges: Ranges, *, is_unicode: bool) -> Ranges:
    lows = [low for low, _ in ranges]
    same = list[tuple[int, int]]()
    for code, group in _find_equals(is_unicode).items():
        at = bisect_right(lows, code) - 1
        if at >= 0 and code <= ranges[at][1]:
            same += [(each, each) for each in group]
    return _merge([*ranges, *same])


@lru_cache(maxsize=64)
def _find_category(name: str) -> Ranges:
    """The characters of a general category of one or two letters; none for what is no such category."""
    if len(name) > 2:
        return ()
    runs = groupby(range(0x110000), lambda code: unicodedata.category(chr(code)).startswith(name))
    return tuple((codes[0], codes[-1]) for inside, run in runs if inside and (codes := list(run)))


@lru_cache(maxsize=2)
def _find_equals(is_unicode: bool) -> dict[int, list[int]]:
    """Of each character that has others equal to it under i: all of them."""
    groups = dict[str, list[int]]()
    for code in range(0x20000 if is_unicode else 0x10000):
        char = chr(code)
        if is_unicode:
            # Simple case folding: Python has the full one.
            folded = next((each for each in (char.casefold(), char.lower()) if len(each) == 1), char)
            folded = {"\ufb05": "\ufb06", "\u1fd3": "\u0390", "\u1fe3": "\u03b0"}.get(folded, folded)
        else:
            folded = char.upper()
            if len(folded) != 1 or (code > 127 and folded.isascii()):
                folded = char
        groups.setdefault(folded, []).append(code)
    return {code: group for group in groups.values() if len(group) > 1 for code in group}
