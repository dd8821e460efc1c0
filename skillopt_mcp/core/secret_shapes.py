"""Shapes: whether a value is drawn at random or written by a person, and secrets that their shape shows."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from functools import cache
from operator import sub
from typing import NamedTuple

import re2

_LOWER, _UPPER, _DIGIT, _OTHER = b"luds"
_CLASSES = bytes(
    _LOWER if 97 <= byte <= 122 else _UPPER if 65 <= byte <= 90 else _DIGIT if 48 <= byte <= 57 else _OTHER
    for byte in range(256)
)
# A capital before a small letter begins a word; every other change of class is what chance does and people avoid.
_TURNS = (b"lu", b"ld", b"dl", b"ud", b"du")
_SYMBOLS = frozenset(b"!@#$%^&*?~+")
_STAND_IN = re2.compile(
    r"(?i)\A(?:[<{#&]|\$[a-z_]\w*\z|\$2[aby]\$|\[redacted:|[au]rn:|none\b|null\b|true\b|false\b|test)"
    r"|\$\(|\$\{|\$\$|\{\w*\}|\{\{|%[sd(]|%[A-Z_]+%|<[a-z]|\*\*\*|\.\.\.|0{8}|xxxx|a-zA-Z|A-Za-z|\[0-9|\[a-z"
    r"|example|change[_-]?me|place[_-]?holder|your[_-]|\bmy[_-]|dummy|fake|sample|redacted|foobar"
    r"|\A[^A-Za-z]*(?:my|the|your|db|user|new|old|super|admin|root|api|client|app|some|a)?[^A-Za-z0-9]*"
    r"(?:pass(?:word|wd|phrase)?|secret|token|key|pw|pwd|admin|root|postgres|guest)[^A-Za-z]{0,6}\z"
)
_KIND_OF_VALUE = re.compile(rb"(?i)(?:secret)?string|bytes|optional|required|object|hidden|prompt|value|option|unset")
_BEGINNING = 64
_NAMES = re.compile(rb"[A-Z]?[a-z]{4,}")
_ADDRESS = re.compile(rb"\A[\w.+-]+@[\w-]+\.[\w.-]+\Z")
_CODE = re2.compile(
    r"\A\W*[A-Za-z_]\w*(?:\??\.[A-Za-z_]|->|::|\(|\[)|\A!{1,2}[A-Za-z_]+\z|\(.*\)|\[.*\]|[<>|\\]|://|\A[./~]"
)


def is_stand_in(value: bytes) -> bool:
    """Whether people write such a value where a secret goes: a variable, an example, a mark of redaction."""
    return is_written_for_one(value) or len(set(value)) < 5 or _counts_up(value)


def is_written_for_one(value: bytes) -> bool:
    """Whether a value says itself that a secret goes there, as one that only counts up does not."""
    return _STAND_IN.search(value) is not None or len(set(value)) < 3


def is_drawn(value: bytes) -> bool:
    """Whether the rest of a key after its prefix can be real: no example, no row of letters or digits."""
    return len(set(value)) >= 4 and b"EXAMPLE" not in value and b"xxxx" not in value.lower() and not _counts_up(value)


def is_random(value: bytes, n_least: int = 16, n_a_turn: int = 5) -> bool:
    """Whether a value of at least `n_least` bytes changes between letters and digits as no name does.

    It changes at least once in `n_a_turn` bytes.
    """
    if len(value) < n_least or len(set(value)) < 8:
        return False
    classes = value.translate(_CLASSES)
    enough = _DIGIT in classes and _count_turns(classes) >= max(4, len(value) / n_a_turn)
    return enough and not _counts_up(value) and not reads_as_names(value)


def is_password(value: bytes) -> bool:
    """Whether a value of 8 bytes or more mixes letters, digits and symbols as a password does."""
    if not 8 <= len(value) <= 128 or _ADDRESS.search(value):
        return False
    classes = value.translate(_CLASSES)
    kinds = [_LOWER in classes, _UPPER in classes, _DIGIT in classes, not _SYMBOLS.isdisjoint(value)]
    return (sum(kinds) >= 3 or (len(value) >= 12 and _count_turns(classes) >= 3)) and (kinds[2] or kinds[3])


def is_memorable(value: bytes) -> bool:
    """Whether a value of 8 bytes or more is of letters and digits alone, as "hunter2secret" is."""
    if not (8 <= len(value) <= 64 and value.isalnum()):
        return False
    return not (value.isalpha() or value.isdigit() or reads_as_names(value))


def is_wrapped(before: bytes, after: bytes) -> bool:
    """Whether the end of one line and the beginning of the next are one value, drawn at random."""
    goes_on = len(after) >= 8 and after != after.lower() and not reads_as_names(after)
    if not (goes_on and _HINT.match(before, 0, len(before))):
        n_turns = _count_turns(after.translate(_CLASSES))
        if n_turns < max(2, len(after) / 5) or not is_random(before + after[:_BEGINNING], 20):
            return False
        if _TOKEN_PREFIX.match(after):
            return False
    return not _HINT.match(after, 0, len(after))


def reads_as_names(value: bytes) -> bool:
    """Whether two fifths of a value in both cases are words, as in "PKCS7PrivateKey"."""
    return value != value.lower() and sum(map(len, _NAMES.findall(value))) * 5 >= len(value) * 2


def is_kind_of_value(value: bytes) -> bool:
    """Whether a value only says of what kind one is to be, as a type or a help text does."""
    return _KIND_OF_VALUE.fullmatch(value) is not None


def is_expression(value: bytes) -> bool:
    """Whether an unquoted value reads as an expression, a path or an address."""
    return _CODE.search(value) is not None


def is_code(value: bytes) -> bool:
    """Whether an unquoted value reads as an expression, a path or an address, or as a name in code."""
    return is_expression(value) or (value.replace(b"_", b"").isalnum() and reads_as_names(value))


def _count_turns(classes: bytes) -> int:
    return sum(classes.count(turn) for turn in _TURNS)


def _counts_up(value: bytes) -> bool:
    """Whether half of the bytes follow the one before, as in "abcdef" and "456789", or repeat it."""
    begin = value[:_BEGINNING]
    steps = list(map(sub, begin[1:], begin))
    return (steps.count(0) + steps.count(1)) * 2 > len(begin)


class SecretSpan(NamedTuple):
    """A secret: where it starts and ends, in bytes, and its kind."""

    start: int
    end: int
    kind: str


SecretPattern = re.Pattern[bytes]  # as RE2 compiles it
UTF8, LATIN1 = re2.Options(), re2.Options()
# That a pattern outgrows its memory on a hostile text, and goes on more slowly, is no news for a person's screen.
UTF8.log_errors = LATIN1.log_errors = False
LATIN1.encoding = re2.Options.Encoding.LATIN1
_WORD = "[A-Za-z0-9]"
_URL64 = "[A-Za-z0-9_-]"
_HEX = "[0-9a-f]"
# Kind, the prefixes, and what follows one of them.
_PREFIXED: tuple[tuple[str, str, str], ...] = (
    ("anthropic-key", "sk-ant-", _URL64 + "{20,}"),
    ("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", _URL64 + "{20,}"),
    ("openrouter-key", "sk-or-v1-", _HEX + "{32,}"),
    ("langfuse-key", "sk-lf-", "[0-9a-f-]{36}"),
    ("groq-key", "gsk_", _WORD + "{40,}"),
    ("xai-key", "xai-", _WORD + "{40,}"),
    ("perplexity-key", "pplx-", _WORD + "{32,}"),
    ("replicate-key", "r8_", _WORD + "{32,}"),
    ("huggingface-token", "hf_ api_org_", _WORD + "{30,}"),
    ("tavily-key", "tvly-", _URL64 + "{20,}"),
    ("langsmith-key", "lsv2_pt_ lsv2_sk_", "[0-9a-f_]{32,}"),
    ("google-key", "AIza AQ.A", _URL64 + "{35,}"),
    ("google-secret", "GOCSPX-", _URL64 + "{20,}"),
    ("google-token", "ya29. 1//0", _URL64 + "{30,}"),
    ("aws-key", "AKIA ASIA ABIA ACCA", "[A-Z0-9]{16}"),
    ("aws-token", "FwoGZXIvYXdz IQoJb3JpZ2lu ABSK", "[A-Za-z0-9+/]{60,}={0,2}"),
    ("alibaba-key", "LTAI", _WORD + "{16,20}"),
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", "[A-Za-z0-9_]{36,}"),
    ("gitlab-token", "glpat- gldt- glrt- glcbt- glptt- glsoat- glimt- glagent- gloas- glft-", "[A-Za-z0-9_.-]{20,}"),
    ("bitbucket-token", "ATBB", _WORD + "{28,}"),
    ("atlassian-token", "ATATT3 ATCTT3", "[A-Za-z0-9_=-]{50,}"),
    ("slack-token", "xoxb- xoxp- xoxa- xoxe- xoxe.xoxp- xoxr- xoxs- xoxo- xoxc- xoxd- xapp-", "[A-Za-z0-9%-]{16,}"),
    ("slack-webhook", "hooks.slack.com/services/ hooks.slack.com/workflows/", "[A-Za-z0-9/]{30,}"),
    ("discord-webhook", "discord.com/api/ discordapp.com/api/", r"(?:v\d{1,2}/)?webhooks/\d{15,21}/[A-Za-z0-9_-]{50,}"),
    ("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_", "[A-Za-z0-9+/]{16,}"),
    ("square-token", "sq0atp- sq0csp- EAAAE EAAAl", _URL64 + "{22,}"),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_", "[0-9a-fA-F]{32}"),
    ("sendgrid-key", "SG.", _URL64 + r"{20,24}\.[A-Za-z0-9_-]{39,50}"),
    ("mailgun-key", "key-", _HEX + "{32}"),
    ("brevo-key", "xkeysib- xsmtpsib-", _HEX + "{40,64}-[A-Za-z0-9]{12,20}"),
    ("resend-key", "re_", "[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    ("twilio-key", "SK", _HEX + "{32}"),
    ("npm-token", "npm_", _WORD + "{36,}"),
    ("pypi-token", "pypi-AgE", _URL64 + "{40,}"),
    ("docker-token", "dckr_pat_ dckr_oat_", _URL64 + "{24,}"),
    ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", _HEX + "{64}"),
    ("heroku-key", "HRKU-", _URL64 + "{36,}"),
    ("vault-token", "hvs. hvb. hvr.", _URL64 + "{20,}"),
    ("doppler-token", "dp.pt. dp.ct. dp.sa. dp.scim. dp.audit. dp.st.", "[A-Za-z0-9._-]{40,}"),
    ("databricks-token", "dapi dose", _HEX + "{32}(?:-[0-9])?"),
    ("api-key", "bkua_ crsr_ ctx7sk- e2b_ fc- packagist_ort_ packagist_out_ packagist_uut_ pul-", _HEX + "{32,}"),
    ("api-key", "rootly_ rubygems_ sgp_ sqa_ sqp_ squ_ zpka_", "[0-9a-f_]{32,}"),
    ("nuget-key", "oy2", "[a-z0-9]{43}"),
    ("snyk-token", "snyk_uat. snyk_sat.", _HEX + r"{8}\.[A-Za-z0-9_-]{40,}"),
    ("linear-key", "lin_api_ lin_oauth_", _WORD + "{32,}"),
    ("notion-token", "ntn_ secret_", _WORD + "{40,}"),
    ("figma-token", "figd_ figo_ figu_", _URL64 + "{38,}"),
    ("airtable-token", "pat", r"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("postman-key", "PMAK-", _HEX + "{24}-[0-9a-f]{34}"),
    ("newrelic-key", "NRAK- NRJS- NRII- NRIQ-", _URL64 + "{19,}"),
    ("grafana-token", "glsa_ glc_", "[A-Za-z0-9+/_=]{32,}"),
    ("sentry-token", "sntrys_ sntryu_", "[A-Za-z0-9+/_=]{40,}"),
    ("dynatrace-token", "dt0c01.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[A-Za-z0-9_=.-]{32,}"),
    ("supabase-key", "sbp_ sb_secret_", _URL64 + "{20,}"),
    ("age-key", "AGE-SECRET-KEY-1", "[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    ("onepassword-token", "ops_eyJ", "[A-Za-z0-9+/_=-]{60,}"),
    ("onepassword-key", "A3-", "[A-Z0-9]{6}(?:-[A-Z0-9]{5,11}){3,5}"),
    ("openshift-token", "sha256~", _URL64 + "{43}"),
    ("cloudflare-key", "v1.0-", _HEX + "{24}-[0-9a-f]{146}"),
    ("mapbox-token", "sk.eyJ", r"[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}"),
    ("facebook-token", "EAA", _WORD + "{100,}"),
    ("tailscale-key", "tskey-", "[a-z]{3,9}-[A-Za-z0-9]{8,}-[A-Za-z0-9]{20,}"),
    ("circleci-token", "CCIPAT_ CCIPRJ_", "[A-Za-z0-9_]{40,}"),
    ("artifactory-key", "AKCp", _WORD + "{60,}"),
    ("adobe-secret", "p8e-", _URL64 + "{32}"),
    ("fly-token", "FlyV1_ fm1_ fm2_ fo1_", "[A-Za-z0-9+/_=,-]{40,}"),
    ("typeform-token", "tfp_", "[A-Za-z0-9_.=-]{59,}"),
    ("easypost-key", "EZAK EZTK", _WORD + "{54}"),
    ("jwt", "eyJ", r"[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{10,}"),
    ("jwe", "eyJ", r"[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{16,}"),
    ("secret-key", "sk- pk- fw_", _URL64 + "{20,}"),
)
# Their prefixes begin ordinary names too: what follows must look random, not only drawn.
_COMMON = frozenset({"secret-key", "google-token", "grafana-token", "fly-token"})
_LONGEST = 400
_LONGEST_OF = {"jwt": 8192, "jwe": 8192, "onepassword-token": 2048, "aws-token": 2048, "google-token": 2048}
_RULES: dict[bytes, list[tuple[str, str]]] = {}
for _kind, _prefixes, _rest in _PREFIXED:
    for _prefix in _prefixes.split():
        _RULES.setdefault(_prefix.encode(), []).append((_kind, _rest))
# Secrets without a prefix of their own.
_WHOLE: tuple[tuple[str, str], ...] = (
    ("telegram-token", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    ("discord-token", r"\b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}"),
    ("mailchimp-key", r"\b[0-9a-f]{32}-us[0-9]{1,2}"),
    ("azure-secret", r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    ("terraform-token", r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,70}"),
)
VENDOR_KINDS = {kind for kind, *_ in (*_PREFIXED, *_WHOLE)} - _COMMON - {"api-key", "jwt", "jwe"}
"""Kinds that say whose key it is."""
# Prefixes that are rare only with what follows.
_LONGER_HINT = {b"pat": r"pat[A-Za-z0-9]{14}\.", b"SK": "SK[0-9a-f]{8}", b"EAA": "EAA[A-Za-z0-9]{12}"}
_LONGER_PREFIX = {prefix[:2]: prefix for prefix in _LONGER_HINT}
_HINTS = (_LONGER_HINT.get(prefix, re2.escape(prefix.decode())) for prefix in sorted(_RULES, key=len, reverse=True))
_HINT: SecretPattern = re2.compile("|".join((*(pattern for _, pattern in _WHOLE), rf"(?:\b|_)(?:{'|'.join(_HINTS)})")))
_LONG_RUN: SecretPattern = re2.compile(rb"(?:\A|[^A-Za-z0-9+/_-])[A-Za-z0-9+/]{32,}[_-]?", LATIN1)
_KIND_OF_LENGTH = {32: "api-key", 40: "aws-secret", 88: "azure-key"}
_DASH = re.compile(rb"[-_]")
# What stands before a run that is a digest, a public key, a piece of an address, or the end of a block of base64.
_PUBLIC = re.compile(rb"(?:[/#.]|(?i:sha)\d{1,3}[-=:]|ssh-rsa |[A-Za-z0-9+/]{60}\s{1,8})\Z")
_AFTER_PUBLIC = re.compile(rb"[/=]|\.\w")
# A token of any vendor after its prefix: at most two more parts, and a run that looks drawn at random.
_TOKEN: SecretPattern = re2.compile(r"[-_][A-Za-z0-9+/_-]{24,}={0,2}(?:[.][A-Za-z0-9_-]{16,}={0,2}){0,3}", UTF8)
_ANY_DIGIT = re.compile(rb"[0-9]")
_BEFORE_TOKEN = re.compile(rb"[A-Za-z0-9]{2,17}\Z")
_TOKEN_PREFIX = re.compile(
    rb"(?:(?:[a-z]{1,16}\d{0,2}[a-z]{0,4}|[A-Z]{2,16}\d?|[A-Za-z][a-z]{2,11}(?:[A-Z][a-z]{1,11})?\d?)[-_]){1,3}"
)
_TOKEN_PARTS = re.compile(rb"[-_+/.=]+")
_BEFORE_NO_TOKEN = re.compile(rb"(?:[\w+.\\-]|sha\d{1,3}=)\Z")
_LONGEST_TOKEN, _SHORTEST_RUN = 256, 24
# The names of things before their ids, in protocols and in files, and of digests and public keys.
_ID_PREFIXES = frozenset(
    b"""account acct agent agt aitxt assistant asst bash batch boundary build cache call ch chat chatcmpl checkpoint
    chunk ci cl client cmp cmpl cntr commit completion container conv conversation cp cron cs ctc ctco cus
    customer dataset deployment diff doc eval evalrun event evt exec fc file fp fs ft ftjob functions gen group
    grp hook id ig image img index inv invite invoice item job layer lsh mcp mcpc mcpl mcpr mcptoolu message modr
    mrk msg msgbatch node nonce obj object order org organization part pi plan pm price proj project prompt py pyd
    rec record ref req request resp response result rev rlg role rollout rs run sched sess session seti shell
    skill snap snapshot span src srvtoolu step sthr sub subscription task team temp thread tmp tool toolu tooluse
    trace trigger turn txn uid upload user usr vcrd vector vs vsf vsfb worker workspace wrkspc ws""".split()
)
_NO_TOKENS = frozenset(b"sha sha1 sha2 sha224 sha256 sha384 sha512 md5 blake2b blake3 public pub publishable".split())
_KEY_WORDS = (b"sk", b"pat", b"tok", b"live")
_KEY_ENDS = (b"signkey", b"apikey", b"token", b"secret")
_STAGES = frozenset(b"apikey key api test prod production dev v1 v2".split())
_DIGEST = re.compile(rb"(?:0x)?(?:[0-9a-f]+|[0-9A-F]+)\Z")
# A ULID, an id of Anthropic, and one of AWS, whatever they name.
_ID = re.compile(
    rb"(?:[0-7](?:[0-9A-HJKMNP-TV-Z]{25}|[0-9a-hjkmnp-tv-z]{25})|01[0-9A-Za-z]{21,23}|.*[A-Z0-9]{8}-[A-Z0-9]{12,14})\Z"
)
_FILE_OR_HOST = re.compile(rb"@[\w-]+\.|\.[a-z]{2,}")
_PEM = re2.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY = re2.compile(r"[A-Za-z0-9+/=\s\\:,.-]*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_TAIL = re2.compile(
    r"(?:[A-Za-z0-9+/=]{16,}\s+)+(?:[A-Za-z0-9+/=]{1,80}\s+)?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
)
_PEM_CUT = re2.compile(r"(?:[ \t\r\n]|\\n)*(?:[A-Za-z0-9+/=]{16,}(?:[ \t\r\n]|\\n)*)+")
_KEY_RUN = re.compile(rb"[A-Za-z0-9+/]{24}")
_PEM_BYTES = 16_384


def _find_keys(text: bytes) -> Iterator[SecretSpan]:
    """Yield keys that begin with the prefix of a vendor, and those that show by their whole shape."""
    for hint in _HINT.finditer(text):
        start, end = hint.span()
        start += text.startswith(b"_", start)
        value = text[start:end]
        prefix = value if value in _RULES else _LONGER_PREFIX.get(value[:2])
        if prefix is None:
            if is_drawn(value) and not text[end : end + 1].isalnum():
                yield SecretSpan(start, end, next(kind for kind, pattern in _WHOLE if re2.match(pattern, value)))
            continue
        # Looked at from each "eyJ" of it, one long run would be read again and again.
        if prefix == b"eyJ" and text[start - 1 : start] in (b"-", b"."):
            continue
        rest_start = start + len(prefix)
        for kind, pattern in _compile_rules(prefix):
            rest = pattern.match(text, rest_start, rest_start + _LONGEST_OF.get(kind, _LONGEST))
            if rest is None:
                continue
            end = rest.end()
            while text[end - 1] in b".,%-":
                end -= 1
            value = text[rest_start:end]
            if not text[end : end + 1].isalnum() and is_drawn(value) and (kind not in _COMMON or is_random(value)):
                yield SecretSpan(start, end, kind)
                break


@cache
def _compile_rules(prefix: bytes) -> list[tuple[str, SecretPattern]]:
    return [(kind, re2.compile(rest)) for kind, rest in _RULES[prefix]]


def _find_long_runs(text: bytes) -> Iterator[SecretSpan]:
    """Yield runs of base64 characters that stand alone and are as long as some keys are."""
    for match in _LONG_RUN.finditer(text):
        start, end = match.span()
        start += text[start] not in b"+/" and not text[start : start + 1].isalnum()
        end += text.startswith(b"=", end) + text.startswith(b"==", end)
        kind = _KIND_OF_LENGTH.get(end - start)
        value = text[start:end]
        if kind is None or value.islower() or (kind == "azure-key") != value.endswith(b"==") or _DASH.search(value):
            continue
        # Base64 text is of capitals, small letters and digits at once, in no order.
        classes = value.translate(_CLASSES)
        n_lower, n_upper, n_digits = (classes.count(each) for each in (_LOWER, _UPPER, _DIGIT))
        if min(n_lower, n_upper) * 5 < len(value) or n_digits < 2 or len(set(value)) < 16:
            continue
        if _PUBLIC.search(text, max(start - 80, 0), start) or _AFTER_PUBLIC.match(text, end):
            continue
        is_mixed = _count_turns(classes) * 4 >= len(value) and is_drawn(value) and is_random(value)
        if is_mixed and not base64.b64decode(value).isascii():
            yield SecretSpan(start, end, kind)


def _find_tokens(text: bytes) -> Iterator[SecretSpan]:
    """Yield tokens of vendors that are not known here."""
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        if end - start > _LONGEST_TOKEN or not _ANY_DIGIT.search(text, start, end):
            continue
        before = _BEFORE_TOKEN.search(text, max(start - 17, 0), start)
        if before is None:
            continue
        start = before.start()
        word = text[start:end]
        prefix = _TOKEN_PREFIX.match(word)
        if prefix is None:
            continue
        run = word[prefix.end() :]
        parts = _TOKEN_PARTS.split(run)
        part = max(parts, key=len)
        # Chance uses both cases, and puts "-" and "_" far apart; names have them after each word.
        is_mixed = not (part.islower() or part.isupper())
        if len(run) < _SHORTEST_RUN or len(part) < (8 if is_mixed else 13) or len(parts) * 8 > len(run) + 8:
            continue
        if not is_random(b"".join(parts), 20, 8 if is_mixed else 5) or not is_drawn(run) or reads_as_names(run):
            continue
        names = _TOKEN_PARTS.split(prefix[0].lower())[:-1]
        is_key = any(name in _KEY_WORDS or name.endswith(_KEY_ENDS) for name in names)
        if not _NO_TOKENS.isdisjoint(names) or (names[0] in _ID_PREFIXES and not is_key) or _ID.match(run):
            continue
        if not is_key and (b"_" not in prefix[0] or _STAGES.isdisjoint(names[1:])):
            # What base64 makes of a digest, or ends with padding.
            is_base64 = (len(word) in (43, 86) and len(parts) > 1) or (word.endswith(b"=") and len(word) % 4 == 0)
            if is_base64 or _FILE_OR_HOST.match(text, end) or _DIGEST.match(part) or not run[:1].isalnum():
                continue
        goes_on = text[end : end + 1].isalnum() or _BEFORE_NO_TOKEN.search(text, max(start - 8, 0), start)
        if not (goes_on or any(_find_keys(word))):
            yield SecretSpan(start, end, "token")


def _find_private_keys(text: bytes) -> Iterator[SecretSpan]:
    if b"PRIVATE KEY" not in text:
        return
    for match in _PEM.finditer(text):
        limit = match.end() + _PEM_BYTES
        body = _PEM_BODY.match(text, match.end(), limit) or _PEM_CUT.match(text, match.end(), limit)
        if body and _KEY_RUN.search(text, match.end(), body.end()):
            yield SecretSpan(match.start(), body.end(), "private-key")
    for match in _PEM_TAIL.finditer(text):
        if _KEY_RUN.search(text, *match.span()):
            yield SecretSpan(match.start(), match.end(), "private-key")


SHAPES: tuple[Callable[[bytes], Iterator[SecretSpan]], ...] = (
    _find_keys, _find_long_runs, _find_tokens, _find_private_keys,
)  # fmt: skip
"""What yields the secrets that show by their own shape."""
