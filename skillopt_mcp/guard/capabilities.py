"""Capabilities: what an edit lets a skill do that its parent could not: commands, hosts, places, secrets, demands."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

import re2

from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.text import BOM, is_text, quoted
from skillopt_mcp.guard.findings import Passage, comments, disguised, hidden, secrets
from skillopt_mcp.guard.phrases import demands, lost
from skillopt_mcp.records.skills import SkillFile, SkillFiles
from skillopt_mcp.redaction.redacting import NOTHING_KNOWN, KnownSecrets

# Patterns of RE2, each of the beginning of what is found; more of the line is added to it where they are used.
# Behind a blank, a bracket often holds an aside of prose: there it has to hold a text, a shell's variable, or nothing.
CALLED = r"(?:\(|\s+\(\s*[)\"'`$\[{])"
# The same of words that are hardly ones of prose: one name is enough.
CALLED_BY_NAME = r"(?:\(|\s+\(\s*(?:[)(\"'`$\[{]|[\w.]+\s*[)(\[+,]))"
DELETES = (
    r"\b(?:rmtree|removedirs|rmSync|rmdirSync|unlinkSync|unlinkat|rm_rf|rm_r|rimraf|deltree)\s*\(",
    r"\b(?:os|fs|fsp|fsPromises|promises|Deno|shutil|File|FileUtils|Files)\.(?:remove|removeSync|removeAll|rm|rmdir|unlink"
    r"|delete|deleteIfExists|move)\w*\s*\(",
    r"\.(?:unlink|rmdir)\s*\(",
    r"(?i)\bRemove-Item\b|\bdel\s+/[sfq]\b|\brd\s+/s\b",
    r"(?i)\bdelete\s+from\s+[\w\"]+(?:\.[\w\"]+)*\s*(?:where\b|;\s*(?:$|[`'\"]|--|(?:commit|begin|end|select|insert|update"
    r"|delete|drop|truncate|create|alter|vacuum|pragma|with)\b)|['\"`]|$)|\btruncate\s+table\s+\w",
)
SENDS = (
    r"\b(?:requests|httpx|aiohttp|axios|got|session|client|http|https|urllib3?(?:\.request)?)\.(?:post|put|patch|delete"
    r"|request|urlopen|urlretrieve|send)\s*\(",
    r"\b(?:requests|httpx|axios)\.(?:get|head|options|stream|Session|Client|AsyncClient|create)\s*\(",
    r"\b(?:urlopen|urlretrieve|HTTPS?Connection|ClientSession|XMLHttpRequest|WebSocket|sendBeacon|EventSource)\s*\(",
    r"\bfetch\(\s*[\w\"'`$]",
    r"\b(?:create_connection|create_server|open_connection)\s*\(|\bsocket\.socket\s*\(|\bnet\.(?:connect|createConnection)\s*\(",
    r"\b(?:smtplib|ftplib|telnetlib|paramiko|nodemailer|boto3)\b\s*[.(]|\bimport\s+(?:smtplib|ftplib|telnetlib|paramiko)\b",
    r"(?i)\bInvoke-(?:WebRequest|RestMethod)\b|\bStart-BitsTransfer\b",
)
STARTS = (
    r"\b(?:execSync|execFile|execFileSync|spawnSync|spawn[lv]p?e?|posix_spawn|forkpty|startfile)\s*\(",
    rf"\b(?:spawn|fork){CALLED}|\.(?:spawn|fork)\s*\(",
    r"\b(?:import_module|run_path|run_module|CDLL|LoadLibrary)\s*\(",
    r"\bnew\s+Function\s*\(|\bRuntime\.getRuntime\b|\bProcessBuilder\s*\(|(?:^|[^.\w])system\(",
    r"\bcreate_subprocess_(?:exec|shell)\s*\(",
)
SURROUNDINGS = (
    r"\bos\.environ\b|\b(?:os\.)?getenv\s*\(|\bprocess\.env\b|\bDeno\.env\b|\bos\.environb\b|\bEnviron\s*\(\)|\$env:\w",
    r"\b(?:expanduser|expandvars|homedir)\s*\(|\bPath\.home\s*\(|\bos\.homedir\b",
)
# What would be taken for a call, each in a group: a plural as in "the system(s) of", what a call is said to do, what
# only reads columns, and what evaluates nothing.
ASIDES = (
    r"\b(?:the|a|an|any|each|every|other|which|your|our|these|this|both|all|target|build|file|operating|source) "
    r"((?:system|fork)\(s\))(?:[ \t][a-z(]|[.,:!?]|$)",
    r"\b(fetch\(\w*\)) (?:resolves|rejects|throws)\b",
    r"\b(?:df|pd|ne|numexpr|frame|dataframe)\.(eval\()",
    r"\b\w+\.(eval\(\))",
)


# What is found in a text is compared with what was in the parent, so a pattern that runs to the end of the line makes a
# new finding of a changed command, and none of one that only moved.
_LINE_REST = r"[^\n]*"
_RUNS_CODE = (
    r"\b(?:curl|wget|fetch)\b[^\n|]*\|\s*(?:sudo\s+)?(?:ba|z|da|k|fi)?sh\b",
    r"\|\s*(?:sudo\s+)?(?:bash|sh|zsh|python3?|perl|ruby|node)\b(?:\s+-)?[`\s]*$",
    r"\b(?:ba|z|da|k)?sh\s+-c\b",
    r"(?:\b(?:bash|sh|zsh|source)|(?:^|\s)\.)\s+<\(",
    r"\b(?:python3?|perl|ruby|node|php)\s+-[cer]\b",
    rf"""(?:\b\w[\w.?]*\.)?\beval(?:\?\.\(|{CALLED_BY_NAME}|\s+["'$`])""",
    rf"\bexec{CALLED_BY_NAME}",
    r"\b__import__\s*\(",
    r"\b(?:pickle|marshal)\.loads?\s*\(",
    r"\bos\.(?:system|popen|exec[lv]p?e?)\s*\(",
    r"\bsubprocess\.(?:run|call|Popen|check_call|check_output|getoutput|getstatusoutput)\b",
    r"\bshell\s*=\s*True\b",
    r"\bchild_process\b",
    r"(?i)\b(?:Invoke-Expression|iex)\b\s*[($]",
    r"(?i)\bpowershell(?:\.exe)?\s+-(?:e|enc|encodedcommand|c|command)\b",
    r"(?i)\b(?:mshta|rundll32|regsvr32|certutil)(?:\.exe)?\s+[-/\w]",
    r"\bosascript\b",
    r"\bxargs\s[^\n|]*\b(?:(?:ba|z|da|k|fi)?sh|python3?|perl|ruby|node|rm|sudo)\b",
    r"\b(?:ba|z|da|k|fi)?sh\s+(?:-\w+\s+)*[\w./~$-]*\w\.(?:ba|z)?sh\b",
    r"\A#!",
)
_DECODES = (
    r"\bbase64\s+(?:-d|-D|--decode)\b",
    r"\bxxd\s+-r\b",
    r"\bb64decode\s*\(|\batob\s*\(|\bcodecs\.decode\s*\(|\bbytes\.fromhex\s*\(",
    r"\brot[-_ ]?13\b",
    r"(?:\\x[0-9a-fA-F]{2}){6,}|(?:\\u00[0-9a-fA-F]{2}){6,}",
)
_TALKS = (
    r"/dev/(?:tcp|udp)/",
    r"(?:^|[\s`$(;&|])(?:curl|wget)\s+(?:-|[\"'$]|https?:|[\w.-]+\.[a-z]{2,}[/\s`]|[\w.-]+\.[a-z]{2,}$)",
    r"\b(?:nc|ncat|netcat|socat)\s+-?[\w.]",
    r"(?:^|[\s`$(;&|])(?:ssh|sftp|ftp|telnet)\s+(?:-\w|[\w.-]+@)",
    r"(?:^|[\s`$(;&|])(?:scp|rsync)\s+(?:-\w|[^\n]*\w[@:])",
    r"\b(?:nslookup|dig)\s+[^\n]*[$`]",
    r"\bgit\s+(?:remote\s+(?:add|set-url)|config\s+--(?:global|system))\b",
    r"\b(?:sendmail|mailx?)\s+-s\b",
)
_CHANGES_THE_MACHINE = (
    r"(?:^|[\s`;&|($])(?:rm|rmdir|shred|srm)\s+(?:-\w|--\w|[\"'$~*/]|[\w-]*[./*][\w./*-]*[\w*])",
    r"\bfind\s[^\n]*\s-(?:delete|exec|execdir|ok)\b",
    r"\b(?:pkill|killall)\s+\S|\bkill\s+-\w+\s",
    r"\bsudo\s+\S",
    r"\bchmod\s+(?:[ugoa]*\+[rwxst]*x|0?[0-7]*7[0-7]*)\b",
    r"\bcrontab\b|\bsystemctl\s+(?:enable|start)\b|\blaunchctl\s+(?:load|submit)\b|\bnohup\s+\S",
    r"(?:>>?|\btee\s+(?:-a\s+)?)\s*[\"']?(?:~|\$HOME)/",
    r"\b(?:mkfs(?:\.\w+)?|dd\s+if=|shred\s+-)",
    r"\bgit\s+(?:reset\s+--hard|clean\s+-[a-z]*f)",
    r"\bdocker\s+run\s+[^\n]*(?:--privileged|-v\s+/:)",
    r"(?i)\bdrop\s+(?:table|database|schema)\s+\w",
)
_CHANGES_WHAT_OTHERS_USE = (
    r"\bgit\s+(?:-\S+\s+)*push\b",
    r"\b(?:gh|glab)\s+(?:api\b|[a-z]+\s+(?:create|edit|delete|merge|upload|close|reopen|comment|review|sync|fork|set|run)\b)",
    r"\b(?:aws|gcloud|gsutil|az|kubectl|oc|helm|terraform|tofu|pulumi|heroku|flyctl|vercel|netlify|rclone|s3cmd|mc)\s"
    r"[^\n`.;]*\b(?:cp|mv|rm|sync|mb|rb|put(?:-\w+)*|delete(?:-\w+)*|destroy|apply|create(?:-\w+)*|deploy|exec|scale|drain"
    r"|uninstall|invoke|terminate(?:-\w+)*|up)\b",
    r"\b(?:npm|pnpm|yarn|cargo|poetry|uv|flit|hatch|twine|gem)\s+(?:publish|upload|push|unpublish|yank)\b",
    r"\bdocker\s+push\b",
)
_INSTALLS = (
    r"\b(?:pip3?|pipx|uv\s+pip|uv\s+tool|npm|pnpm|yarn|gem|cargo|go|brew|apt|apt-get|dnf|apk)\s+"
    r"(?:install|add|i|get)\s+[-\w@./\"'$]",
    r"\b(?:npx|uvx|bunx|pnpm\s+dlx|yarn\s+dlx)\s+[-\w@./]",
    r"\bclaude\s+(?:mcp\s+add|plugin\s+install)\b|\bcodex\s+mcp\s+add\b",
)
_BYPASSES = (
    r"--dangerously-[\w-]+|--yolo\b|--no-sandbox\b|--allow-all\b|--full-auto\b|--trust-all\b|--auto-approve\b",
    r"(?i)\bbypassPermissions\b|\bacceptEdits\b|\bdangerouslyDisableSandbox\b|\bdanger-full-access\b",
    r"(?i)\bapproval[_-]policy\b\W+never\b|\bsandbox[_-]mode\b",
    r"\ballowed-tools\s*:\s*\S|\bmcpServers\b|\bpermissionMode\b",
    r"--no-verify\b|\bSKIP_[A-Z_]*CHECKS?\s*=\s*1\b|\bNODE_TLS_REJECT_UNAUTHORIZED\b|\bverify\s*=\s*False\b",
)


_NAMED = {
    "a command": (*_RUNS_CODE, *STARTS, *_CHANGES_THE_MACHINE),
    "a command that deletes": DELETES,
    "a command that decodes what a reader cannot": _DECODES,
    "a command that talks to another machine": (*_TALKS, *SENDS),
    "a command that changes what others use": _CHANGES_WHAT_OTHERS_USE,
    "a command that looks at the environment or the home folder": SURROUNDINGS,
    "a command that installs software": _INSTALLS,
    "a way around the host's own checks": _BYPASSES,
}
_KINDS = {
    kind: re2.compile("(?m)(?:" + "|".join(f"(?:{pattern})" for pattern in patterns) + ")" + _LINE_REST)
    for kind, patterns in _NAMED.items()
}
_INLINE_BLOCK = re2.compile(r"!`[^`\n]+`")
_FENCED_BLOCK = re2.compile(r"(?ms)^[ \t>]*(?:```+|~~~+)[ \t]*!.*?(?:^[ \t>]*(?:```+|~~~+)[ \t]*$|\z)")
_ASIDES = tuple(re2.compile(f"(?m){aside}") for aside in ASIDES)
_SHOWN = 60


def commands(text: str) -> Iterator[Passage]:
    """Yield idioms of shells, each with the rest of its line; a continued line is one."""
    # A blank for every character that goes keeps the places.
    joined, ends = text.replace("\\\n", "  "), set[int]()
    calls = _without_asides(joined)
    for kind, pattern in _KINDS.items():
        for found in pattern.finditer(calls):
            if found.end() not in ends:  # every one runs to the end of its line
                ends.add(found.end())
                written = joined[found.start() : found.end()].lstrip()
                line = " ".join(written.split())
                yield Passage(found.end() - len(written), line, f"{kind}, {quoted(line, _SHOWN)}")


def _without_asides(text: str) -> str:
    """Return a text with blanks for the asides of prose, everything else in its place."""
    for pattern in _ASIDES:
        kept, at = list[str](), 0
        for found in pattern.finditer(text):
            kept += [text[at : found.start(1)], " " * (found.end(1) - found.start(1))]
            at = found.end(1)
        text = "".join([*kept, text[at:]])
    return text


def blocks(text: str) -> Iterator[Passage]:
    """Yield the blocks that Claude Code runs before the model reads the skill."""
    for pattern in (_INLINE_BLOCK, _FENCED_BLOCK):
        for found in pattern.finditer(text):
            block = found.group().strip()
            yield Passage(found.start(), block, f"a command block that the host runs, {quoted(block, _SHOWN)}")


_HOST = re2.compile(
    r"""(?i)\b(?:https?|ftps?|wss?|ssh|git|file|data|javascript|vscode)://?(?:[^\s/?#@"'<>]*@)?([^\s/?#"'<>`|)\]},;]+)"""
    r"""|\b(?:www\.)([a-z0-9-]+(?:\.[a-z0-9-]+)+)"""
    r"""|\bgit@([a-z0-9.-]+):"""
    r"""|(?:^|[\s(<"'`])([a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|net|org|io|dev|sh|xyz|ru|cn|top|site|online|app|me|cc|info|example|test))/[\w?]"""
    r"""|\b([\w.+-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)+)\b"""
    r"""|\b((?:\d{1,3}\.){3}\d{1,3}(?::\d+|/\S))"""
)
_DATA_LINK = re2.compile(r"(?i)\b(?:data:[a-z]+/[a-z0-9.+-]+[;,]|javascript:)")
_PLACE = re2.compile(
    r"(?:~|\$HOME|\$\{HOME\}|%USERPROFILE%)[/\\][^\s`\"')]*"
    r"|(?:^|[\s`\"'(=:])/(?:etc|root|home|Users|proc|var/(?:log|run|spool)|dev/(?:mem|sd)|Library)\b[^\s`\"')]*"
    r"|(?:\.\./){2,}[^\s`\"')]*"
    r"|(?:^|[\s`\"'(/])\.(?:ssh|aws|gnupg|kube|docker|netrc|npmrc|pypirc|git-credentials|bashrc|zshrc|profile|bash_profile)\b"
    r"[^\s`\"')]*"
    r"|\b(?:id_rsa|id_ed25519|authorized_keys|known_hosts|credentials\.json|\.env(?:\.\w+)?)\b"
    r"|(?:^|[\s`\"'(/])\.env\b"
    r"|(?:^|[\s`\"'(/])\.(?:(?:claude|codex|agents|cursor|vscode)/|git/(?:hooks|config|info|modules|worktrees)\b)[^\s`\"')]*"
    r"|\b[A-Za-z]:\\[^\s`\"')]*|(?:^|[\s`\"'(=])[A-Za-z]:/[^\s`\"')]+"
    r"|(?:^|[\s`\"'(=:])\\\\[\w.?$-]+\\[^\s`\"')]+"
    r"|\b(?:CLAUDE|AGENTS)\.md\b"
    r"|\bsettings(?:\.local)?\.json\b|\bmcp\.json\b|\.mcp\.json\b"
)
_VARIABLE = re2.compile(
    r"\$\{?[A-Z][A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)[A-Z0-9_]*\}?"
    r"|\b(?:printenv\b|env\s*\|)[^\n]{0,60}"
    r"|\b[A-Z][A-Z0-9_]*_(?:API_KEY|TOKEN|SECRET|PASSWORD|ACCESS_KEY)\b"
)
_BASE64 = re2.compile(r"[A-Za-z0-9+/_-]{200,}|(?:[A-Za-z0-9+/]{60,}\s*\n[ \t]*){3,}(?:[A-Za-z0-9+/]{20,}={0,2})?")
_SHORT_BASE64 = re2.compile(r"\b[A-Za-z0-9+/]{24,199}={0,2}")
_ENCODED_AT_LEAST = 200
_FEWEST_KINDS = 10


def hosts(text: str) -> Iterator[Passage]:
    """Yield every host, and every address of mail, that a text links to, once each: twice is no more than once."""
    seen = set[str]()
    for found in _HOST.finditer(text):
        host = next(group for group in found.groups() if group).casefold().rstrip(".:")
        if host not in seen:
            seen.add(host)
            yield Passage(found.end(), host, f"a link to the host {quoted(host)}")
    for found in _DATA_LINK.finditer(text):
        yield Passage(found.start(), found.group(), f"a link that holds its own content, {quoted(found.group())}")


def places(text: str) -> Iterator[Passage]:
    """Yield places of the machine outside of a project, and files that hold keys or settings of a host."""
    for found in _PLACE.finditer(text):
        written = found.group().lstrip(" \t\n`\"'(=:")
        name = written.rstrip(".,;")
        yield Passage(found.end() - len(written), name, f"a place outside of the project, {quoted(name)}")


def variables(text: str) -> Iterator[Passage]:
    """Yield variables of the environment that hold secrets by their name, and commands that show the environment."""
    for found in _VARIABLE.finditer(text):
        name = found.group().strip()
        yield Passage(found.start(), name, f"a variable that holds a secret, {quoted(name)}")


def encoded(text: str) -> Iterator[Passage]:
    """Yield runs of characters that look like encoded data: long ones, and shorter ones that read as text decoded."""
    for found in _BASE64.finditer(text):
        run = "".join(found.group().split())
        if len(run) >= _ENCODED_AT_LEAST and len(set(run)) >= _FEWEST_KINDS:
            yield Passage(found.start(), run, f"{len(run)} characters that look like encoded data")
    for found in _SHORT_BASE64.finditer(text):
        if said := _said(found.group()):
            yield Passage(found.start(), found.group(), f"encoded text that says {quoted(said)}")


def _said(run: str) -> str:
    """Return what a run says when it is base64 of plain words, else nothing: an identifier or a path says nothing."""
    try:
        plain = base64.b64decode(run + "=" * (-len(run) % 4), validate=True)
    except ValueError:
        return ""
    return plain.decode() if b" " in plain and plain.isascii() and plain.decode().isprintable() else ""


_LOOKS: tuple[Callable[[str], Iterator[Passage]], ...] = (
    hidden, comments, disguised, blocks, hosts, places, variables, commands, encoded, demands,
)  # fmt: skip
_MAX_FOUND = 50
_RESTRAINT_SHOWN = 120
_ByKey = dict[tuple[str, str], list[Passage]]


def findings(before: SkillFiles, after: SkillFiles, known: KnownSecrets = NOTHING_KNOWN) -> tuple[str, ...]:
    """Return one sentence for everything that `after` adds and a person should see before it is used; none is good.

    The values of `known` are secrets whatever they look like.
    """
    if before.digest == after.digest:
        return ()
    looks = (_front_matter_findings, _file_findings, _text_findings, _restraint_findings)
    every = (*(finding for look in looks for finding in look(before, after)), *secrets_added(before, after, known))
    found = tuple(dict.fromkeys(every))
    if len(found) <= _MAX_FOUND:
        return found
    return (*found[:_MAX_FOUND], f"and {len(found) - _MAX_FOUND} more findings")


def secrets_added(before: SkillFiles, after: SkillFiles, known: KnownSecrets = NOTHING_KNOWN) -> tuple[str, ...]:
    """Return those of the findings that are secrets, in texts and in the names of files."""
    new_texts = _texts(after)
    old = {path: _secrets(text, known) for path, text in _texts(before).items()}
    added = _added(old, {path: _secrets(text, known) for path, text in new_texts.items()}, new_texts)
    names = "\n".join(file.path for file in after.files if before.get(file.path) is None)
    return (*added, *(f"the name of a new file holds {each.text}" for each in secrets(names, known)))


def _front_matter_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    old, new = frontmatter.read(before.main), frontmatter.read(after.main)
    if old is None and new is None:
        start, end = frontmatter.block_end(before.main), frontmatter.block_end(after.main)
        if end is not None and (start is None or before.main[:start] != after.main[:end]):
            yield f"{quoted(after.main_path)}: changes front matter that cannot be read"
        return
    if new is None:
        yield f"{quoted(after.main_path)}: the front matter can no longer be read"
        return
    was, now = dict(old.fields if old else ()), dict(new.fields)
    for key in dict.fromkeys((*was, *now)):
        if key == "description" and old is not None:
            continue
        if was.get(key) != now.get(key):
            verb = "removes" if key not in now else "changes" if key in was else "adds"
            yield f"{quoted(after.main_path)}: {verb} the front matter key {quoted(key)}"


def _file_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    for file in after.files:
        old = before.get(file.path)
        if old == file:
            continue
        shown = quoted(file.path)
        if file.path.startswith("scripts/") and (old is None or old.content != file.content):
            yield f"{shown}: {'changes' if old else 'adds'} a script"
        if file.executable and not (old and old.executable):
            yield f"{shown}: becomes executable"
        if (old is None or old.content != file.content) and not is_text(file.content):
            yield f"{shown}: is not text, so it cannot be checked"


def _text_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    old_texts, new_texts = _texts(before), _texts(after)
    for n in range(len(_LOOKS)):
        old = {path: _seen(text)[n] for path, text in old_texts.items()}
        new = {path: _seen(text)[n] for path, text in new_texts.items()}
        yield from _added(old, new, new_texts)


def _added(old: Mapping[str, _ByKey], new: Mapping[str, _ByKey], new_texts: Mapping[str, str]) -> Iterator[str]:
    """Yield what was found more often in the new texts than in the old ones, each by its path."""
    added = _total(new) - _total(old)
    for path, here in new.items():
        was = old.get(path, {})
        for key, founds in here.items():
            # What moved to another file, or stands there already, is nothing that the skill could not do before.
            if key in added and len(founds) > len(was.get(key, ())):
                del added[key]
                line = new_texts[path].count("\n", 0, founds[-1].at) + 1
                yield f"{quoted(path)}: adds {founds[-1].text} (line {line})"


def _restraint_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    for restraint in lost(_texts(before).values(), _texts(after).values()):
        yield f"takes away or changes what was forbidden or had to be asked: {quoted(restraint, _RESTRAINT_SHOWN)}"


@lru_cache(maxsize=32)
def _seen(text: str) -> tuple[_ByKey, ...]:
    """Return what each look finds in a text; kept, for most texts stay, and a new one is the next one's parent."""
    return tuple(_by_key(look(text)) for look in _LOOKS)


@lru_cache(maxsize=32)
def _secrets(text: str, known: KnownSecrets) -> _ByKey:
    return _by_key(secrets(text, known))


def _by_key(found: Iterator[Passage]) -> _ByKey:
    by_key: _ByKey = {}
    for each in found:
        by_key.setdefault((each.text, each.key), []).append(each)
    return by_key


def _texts(files: SkillFiles) -> dict[str, str]:
    return {file.path: _text(file) for file in files.files if is_text(file.content)}


def _text(file: SkillFile) -> str:
    return file.content.removeprefix(BOM).decode().replace("\r\n", "\n").replace("\r", "\n")


def _total(by_path: Mapping[str, _ByKey]) -> Counter[tuple[str, str]]:
    total: Counter[tuple[str, str]] = Counter()
    for by_key in by_path.values():
        total.update({key: len(found) for key, found in by_key.items()})
    return total
