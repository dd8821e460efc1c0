"""Commands: what in a text runs something, or teaches how: command blocks of a host, and idioms of shells."""

from __future__ import annotations

from collections.abc import Iterator

import re2

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.guard.calls import ASIDES, CALLED_BY_NAME, DELETES, SENDS, STARTS, SURROUNDINGS
from skillopt_mcp.guard.found import Found

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


def commands(text: str) -> Iterator[Found]:
    """Yield idioms of shells, each with the rest of its line; a continued line is one."""
    # A blank for every character that goes keeps the places.
    joined, told = text.replace("\\\n", "  "), set[int]()
    calls = _without_asides(joined)
    for kind, pattern in _KINDS.items():
        for found in pattern.finditer(calls):
            if found.end() not in told:  # every one runs to the end of its line
                told.add(found.end())
                written = joined[found.start() : found.end()].lstrip()
                line = " ".join(written.split())
                yield Found(found.end() - len(written), line, f"{kind}, {quoted(line, _SHOWN)}")


def _without_asides(text: str) -> str:
    """Return a text with blanks for the asides of prose, everything else in its place."""
    for pattern in _ASIDES:
        kept, at = list[str](), 0
        for found in pattern.finditer(text):
            kept += [text[at : found.start(1)], " " * (found.end(1) - found.start(1))]
            at = found.end(1)
        text = "".join([*kept, text[at:]])
    return text


def blocks(text: str) -> Iterator[Found]:
    """Yield the blocks that Claude Code runs before the model reads the skill."""
    for pattern in (_INLINE_BLOCK, _FENCED_BLOCK):
        for found in pattern.finditer(text):
            block = found.group().strip()
            yield Found(found.start(), block, f"a command block that the host runs, {quoted(block, _SHOWN)}")
