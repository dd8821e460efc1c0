"""Calls: what code of any language says to have a program deleted, sent, started, or told of its surroundings."""

from __future__ import annotations

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
