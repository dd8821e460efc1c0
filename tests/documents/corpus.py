"""Corpus: documents of every shape that the tests of this folder run over."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles

_SAMPLES = Path(__file__).parent / "samples"


def _documents() -> dict[str, bytes]:
    found = {path.stem: path.read_bytes() for path in sorted(_SAMPLES.glob("*.md"))}
    kinds = dict(found)
    for name, content in found.items():
        kinds[f"{name}_crlf"] = content.replace(b"\n", b"\r\n")
        kinds[f"{name}_bom"] = b"\xef\xbb\xbf" + content
    kinds["trained_cr"] = found["trained"].replace(b"\n", b"\r")
    kinds["trained_unended"] = found["trained"].rstrip(b"\n")
    return kinds


DOCUMENTS = _documents()

PIECES = st.sampled_from(
    [
        "\n", "\r\n", "\r", " ", "\t", "a", "word", "é", "\U0001f600", "- ", "1. ", "> ", "# T", "```", "````", "~~~",
        "``` py", "    ", "---", "---\n", "name: x\n", "description: d\n", "<!-- SLOW_UPDATE_START -->", "<!-- ",
        "<!-- SLOW_UPDATE_END -->", "<!--APPENDIX_START-->", "<!--\tAPPENDIX_END -->", "SLOW_UPDATE_END -->", "\ufeff",
    ]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=30).map("".join)
BYTES = st.one_of(TEXTS.map(str.encode), st.binary(max_size=60))


def skill(main: bytes | str, **others: bytes) -> SkillFiles:
    """Return a skill with this SKILL.md, and reference files by stem."""
    content = main.encode() if isinstance(main, str) else main
    references = (SkillFile(f"references/{stem}.md", text) for stem, text in others.items())
    return SkillFiles((SkillFile(MAIN_FILE, content), *references))
