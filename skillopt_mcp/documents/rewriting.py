"""Rewriting: a whole new main document in the place of the old one, where front matter and protected regions stay."""

from __future__ import annotations

from skillopt_mcp.documents.frontmatter import block_end
from skillopt_mcp.documents.lines import BOM, to_lf
from skillopt_mcp.documents.readable import unreadable
from skillopt_mcp.documents.spans import parse
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles


def rewritten(files: SkillFiles, text: str) -> SkillFiles | str:
    """Return the files with `text` as their main document, or a sentence that says why it may not be.

    Front matter and protected regions have to be in it as they are, whatever the line endings; they keep their bytes.
    """
    old = files.get(files.main_path)
    if old is None:
        return f"the skill has no {MAIN_FILE}"
    body = _body(old.content, text)
    if isinstance(body, str):
        return body
    document = parse(old.content)
    front = old.content[: _front_end(old.content)]
    content = front + (body if document.ending == b"\n" else body.replace(b"\n", document.ending))
    new = _with_regions(content, [old.content[start:end] for start, end in document.protected])
    if new is None:
        return "a protected region is changed, moved, added or left out; copy each one, markers and all, exactly"
    after = files.replaced(SkillFile(old.path, new, old.executable))
    return unreadable(after) or after


def _body(old: bytes, text: str) -> bytes | str:
    """Return the body of the new text with line feeds, or what is wrong with the text."""
    try:
        raw = text.removeprefix("\ufeff").encode()
    except UnicodeEncodeError:
        return "the new text has half a surrogate pair, which is no character"
    if b"\0" in raw:
        return "the new text has a NUL character"
    new = to_lf(raw)
    front = to_lf(old[: _front_end(old)].removeprefix(BOM))
    if block_end(old) is not None:
        new = new.lstrip(b"\n")
    if new[: block_end(new) or 0] != front:
        return "the front matter is changed; copy it exactly"
    body = new[len(front) :]
    if not body.strip():
        return "the new text has no body"
    return body.rstrip(b"\n") + b"\n" * to_lf(old).endswith(b"\n")


def _front_end(content: bytes) -> int:
    return block_end(content) or (len(BOM) if content.startswith(BOM) else 0)


def _with_regions(content: bytes, regions: list[bytes]) -> bytes | None:
    """Return the content with each protected region byte for byte as it was, or None when they are not the same."""
    found = parse(content).protected
    if [_core(content[start:end]) for start, end in found] != [_core(region) for region in regions]:
        return None
    pieces, at = [], 0
    for (start, end), region in zip(found, regions, strict=True):
        pieces += [content[at:start], region]
        at = end
    whole = b"".join((*pieces, content[at:]))
    return whole if [whole[start:end] for start, end in parse(whole).protected] == regions else None


def _core(region: bytes) -> bytes:
    return to_lf(region).rstrip(b"\n")
