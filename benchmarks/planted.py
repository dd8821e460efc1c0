"""Planted: secrets that were never anybody's, of many kinds, in the places where agents meet them."""

from __future__ import annotations

import base64
import json
import random
import re
import string
import uuid
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import quote

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
WORD = UPPER + LOWER + DIGITS
URL64 = WORD + "-_"
HEX = DIGITS + "abcdef"
BASE64 = WORD + "+/"
N_RANDOM = 3
Chance = random.Random


class Plant(NamedTuple):
    """A secret as it is written, the part of it that may not stay, and the name of a variable that holds it."""

    written: str
    core: str
    name: str


class Planted(NamedTuple):
    """A text of one kind and place, and the forms of the secret that may not be found in it afterwards."""

    kind: str
    place: str
    text: str
    forms: tuple[str, ...]


def _of(chance: Chance, alphabet: str, n: int) -> str:
    return "".join(chance.choices(alphabet, k=n))


def _prefixed(prefix: str, alphabet: str, n: int, name: str, end: str = "") -> Callable[[Chance], Plant]:
    def plant(chance: Chance) -> Plant:
        rest = _of(chance, alphabet, n) + end
        return Plant(prefix + rest, rest, name)

    return plant


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _jwt(chance: Chance) -> Plant:
    body = {"sub": str(chance.randrange(10**9)), "name": "Some Body", "iat": chance.randrange(10**9)}
    signature = _of(chance, URL64, 43)
    return Plant(f"{_encoded({'alg': 'HS256', 'typ': 'JWT'})}.{_encoded(body)}.{signature}", signature, "ID_TOKEN")


def _private_key(label: str) -> Callable[[Chance], Plant]:
    def plant(chance: Chance) -> Plant:
        lines = "\n".join(_of(chance, BASE64, 64) for _ in range(6))
        return Plant(f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----", lines, "PRIVATE_KEY")

    return plant


def _address(scheme: str, host: str) -> Callable[[Chance], Plant]:
    def plant(chance: Chance) -> Plant:
        password = _of(chance, WORD, 4) + chance.choice("!$*~.") + _of(chance, WORD, chance.randint(5, 12))
        return Plant(f"{scheme}://app_user:{password}@{host}", password, "SERVICE_URL")

    return plant


def _password(chance: Chance) -> Plant:
    letters = [chance.choice(LOWER), chance.choice(UPPER), chance.choice(DIGITS), chance.choice("!@^*-_+~")]
    letters += list(_of(chance, WORD, chance.randint(6, 14)))
    chance.shuffle(letters)
    password = "".join(letters).replace("@", "+", 1)
    return Plant(f"password: {password}", password, "DB_PASSWORD")


def _cookie(chance: Chance) -> Plant:
    value = _of(chance, WORD, 32)
    return Plant(f"Cookie: theme=dark; sessionid={value}; lang=en", value, "COOKIE")


def _basic(chance: Chance) -> Plant:
    value = base64.b64encode(f"robot:{_of(chance, WORD, 14)}".encode()).decode()
    return Plant(f"Authorization: Basic {value}", value, "HEADER")


def _bearer(chance: Chance) -> Plant:
    value = _of(chance, URL64, 40)
    return Plant(f"Authorization: Bearer {value}", value, "HEADER")


def _shared_key(chance: Chance) -> Plant:
    value = _of(chance, BASE64, 86) + "=="
    return Plant(f"DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={value}", value, "STORAGE")


def _signature(chance: Chance) -> Plant:
    value = quote(base64.b64encode(chance.randbytes(32)).decode(), safe="")
    return Plant(f"https://shop.blob.core.windows.net/c/f?sv=2022-11-02&sp=r&sig={value}", value, "LINK")


KINDS: dict[str, Callable[[Chance], Plant]] = {
    "anthropic": _prefixed("sk-ant-api03-", URL64, 93, "ANTHROPIC_API_KEY", "AA"),
    "openai": _prefixed("sk-", WORD, 48, "OPENAI_API_KEY"),
    "openai-project": _prefixed("sk-proj-", URL64, 120, "OPENAI_API_KEY"),
    "openrouter": _prefixed("sk-or-v1-", HEX, 64, "OPENROUTER_API_KEY"),
    "groq": _prefixed("gsk_", WORD, 52, "GROQ_API_KEY"),
    "xai": _prefixed("xai-", WORD, 80, "XAI_API_KEY"),
    "perplexity": _prefixed("pplx-", WORD, 48, "PPLX_API_KEY"),
    "replicate": _prefixed("r8_", WORD, 37, "REPLICATE_API_TOKEN"),
    "huggingface": _prefixed("hf_", WORD, 34, "HF_TOKEN"),
    "mistral": _prefixed("", WORD, 32, "MISTRAL_API_KEY"),
    "google": _prefixed("AIza", URL64, 35, "GOOGLE_API_KEY"),
    "google-secret": _prefixed("GOCSPX-", URL64, 28, "GOOGLE_CLIENT_SECRET"),
    "google-access": _prefixed("ya29.a0", URL64, 160, "GOOGLE_ACCESS_TOKEN"),
    "aws-id": _prefixed("AKIA", UPPER + "234567", 16, "AWS_ACCESS_KEY_ID"),
    "aws-secret": _prefixed("", BASE64, 40, "AWS_SECRET_ACCESS_KEY"),
    "azure-client": _prefixed("abc8Q~", URL64 + "~.", 34, "AZURE_CLIENT_SECRET"),
    "azure-storage": _shared_key,
    "azure-link": _signature,
    "github": _prefixed("ghp_", WORD, 36, "GITHUB_TOKEN"),
    "github-fine": _prefixed("github_pat_", WORD, 82, "GITHUB_TOKEN"),
    "gitlab": _prefixed("glpat-", URL64, 20, "GITLAB_TOKEN"),
    "atlassian": _prefixed("ATATT3xFfGF0", URL64, 180, "JIRA_API_TOKEN"),
    "slack-bot": _prefixed("xoxb-2511892354-", WORD, 24, "SLACK_BOT_TOKEN"),
    "slack-webhook": _prefixed("https://hooks.slack.com/services/T02AB3CDE/B04FG5HIJ/", WORD, 24, "SLACK_URL"),
    "discord": _prefixed("MTA1", WORD, 22, "DISCORD_TOKEN", ".GhIjKl.aZ3bY4cX5dW6eV7fU8gT9hS0iR1jQ2kP3lO4mN"),
    "telegram": lambda chance: Plant(
        f"{chance.randrange(10**8, 10**10)}:AA{(rest := _of(chance, URL64, 33))}", rest, "TELEGRAM_BOT_TOKEN"
    ),
    "stripe": _prefixed("sk_" + "live_", WORD, 24, "STRIPE_SECRET_KEY"),
    "square": _prefixed("sq0atp-", URL64, 22, "SQUARE_TOKEN"),
    "shopify": _prefixed("shpat_", HEX, 32, "SHOPIFY_TOKEN"),
    "sendgrid": lambda chance: Plant(
        f"SG.{_of(chance, URL64, 22)}.{(rest := _of(chance, URL64, 43))}", rest, "SENDGRID_API_KEY"
    ),
    "mailgun": _prefixed("key-", HEX, 32, "MAILGUN_API_KEY"),
    "mailchimp": _prefixed("", HEX, 32, "MAILCHIMP_API_KEY", "-us12"),
    "twilio-key": _prefixed("SK", HEX, 32, "TWILIO_API_KEY"),
    "twilio-auth": _prefixed("", HEX, 32, "TWILIO_AUTH_TOKEN"),
    "npm": _prefixed("npm_", WORD, 36, "NPM_TOKEN"),
    "pypi": _prefixed("pypi-AgEIcHlwaS5vcmc", URL64, 120, "PYPI_TOKEN"),
    "docker": _prefixed("dckr_pat_", URL64, 27, "DOCKER_TOKEN"),
    "digitalocean": _prefixed("dop_v1_", HEX, 64, "DIGITALOCEAN_TOKEN"),
    "vault": _prefixed("hvs.CAES", URL64, 90, "VAULT_TOKEN"),
    "databricks": _prefixed("dapi", HEX, 32, "DATABRICKS_TOKEN"),
    "linear": _prefixed("lin_api_", WORD, 40, "LINEAR_API_KEY"),
    "notion": _prefixed("ntn_", WORD, 46, "NOTION_TOKEN"),
    "grafana": _prefixed("glsa_", WORD, 32, "GRAFANA_TOKEN", "_1a2b3c4d"),
    "heroku": lambda chance: Plant((rest := str(uuid.UUID(bytes=chance.randbytes(16)))), rest, "HEROKU_API_KEY"),
    "datadog": _prefixed("", HEX, 40, "DATADOG_APP_KEY"),
    "age": _prefixed("AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58, "AGE_KEY"),
    "jwt": _jwt,
    "rsa-key": _private_key("RSA PRIVATE KEY"),
    "openssh-key": _private_key("OPENSSH PRIVATE KEY"),
    "postgres-url": _address("postgres", "db.internal:5432/shop"),
    "https-url": _address("https", "git.internal/team/repo.git"),
    "redis-url": _address("redis", "cache.internal:6379/0"),
    "password": _password,
    "cookie": _cookie,
    "basic": _basic,
    "bearer": _bearer,
}


def _bare(chance: Chance, plant: Plant) -> tuple[str, str]:
    sentences = ("It printed\n{}\nand then stopped.", "{}", "I found {} in the log of yesterday.", "Here it is: {}\n")
    return chance.choice(sentences).format(plant.written), plant.core


def _assigned(chance: Chance, plant: Plant) -> tuple[str, str]:
    if "\n" in plant.written or " " in plant.written:
        shapes: tuple[str, ...] = ('{name}="{value}"', "{lower} = '{value}'", '"{lower}": "{value}",')
    else:
        shapes = (
            "{name}={value}",
            "export {name}={value}\n",
            '{lower} = "{value}"',
            "{lower}: {value}",
            '"{lower}": "{value}",',
        )
    line = chance.choice(shapes).format(name=plant.name, lower=plant.name.lower(), value=plant.written)
    return f"DEBUG=1\n{line}\nREGION=eu-west-1\n", plant.core


def _tool_output(chance: Chance, plant: Plant) -> tuple[str, str]:
    lines = f"$ env | sort\nA_NAME=plain\n{plant.name}={plant.written}\nPATH=/usr/bin\n"
    inner: object = {"stdout": lines, "exit": 0} if chance.random() < 0.5 else {"env": {plant.name: plant.written}}
    text = json.dumps(inner)
    core = json.dumps(plant.core)[1:-1]
    if chance.random() < 0.5:
        text, core = json.dumps({"content": [{"type": "text", "text": text}]}), json.dumps(core)[1:-1]
    return text, core


def _sent(chance: Chance, plant: Plant) -> tuple[str, str]:
    escaped = quote(plant.written, safe="")
    if chance.random() < 0.5:
        return f"GET https://api.internal/v1/items?limit=5&access_token={escaped}&sort=up HTTP/1.1", quote(
            plant.core, safe=""
        )
    flat = plant.written.replace("\n", "\\n")
    return f'curl -s -H "X-Api-Key: {flat}" https://api.internal/v1/items', plant.core.replace("\n", "\\n")


def _in_code(chance: Chance, plant: Plant) -> tuple[str, str]:
    shapes = (
        "Use this:\n\n```python\nclient = Client(\n    {name}={value!r},\n)\n```\n",
        "- the value is `{value}`, as above\n",
        "```sh\n{upper}='{value}' ./run.sh --fast\n```\n",
        "| name | value |\n|---|---|\n| {upper} | `{value}` |\n",
    )
    shape = chance.choice(shapes)
    text = shape.format(name=plant.name.lower(), upper=plant.name, value=plant.written)
    return text, repr(plant.core)[1:-1] if "!r" in shape else plant.core


PLACES = {"bare": _bare, "assigned": _assigned, "tool output": _tool_output, "sent": _sent, "in code": _in_code}


def planted(seed: int = 0, n_random: int = N_RANDOM) -> Iterator[Planted]:
    """Yield every kind in every place, `n_random` times each."""
    chance = random.Random(seed)
    for kind, make in KINDS.items():
        for place, put in PLACES.items():
            for _ in range(n_random):
                text, core = put(chance, make(chance))
                yield Planted(kind, place, text, (core, core[: len(core) // 2], core[len(core) // 2 :]))


# How tokens of 2026 are written, the first five those of vendors that do not exist, and how many characters of which
# alphabet are drawn in each.
TOKEN_FORMS = dict(
    line.split()
    for line in """\
acme acme_live_{w32}
quill quill-{w40}
tarn tarn_pat_{u43}
zephyr zephyr_{w8}_{w24}
acme-hex acme_live_{h40}
adafruit aio_{w28}
anthropic-admin sk-ant-admin01-{u93}AA
anthropic-oauth sk-ant-oat01-{u93}AA
apify apify_api_{w36}
browserbase bb_live_{u27}
buildkite-agent bkat_{l40}
cartesia sk_car_{w24}
cerebras csk-{l48}
clerk sk_test_{w42}
clickup pk_{d8}_{a32}
clojars CLOJARS_{l60}
cloudflare-account cfat_{w40}{h8}
cloudflare-global cfk_{w40}{h8}
cloudflare-user cfut_{w40}{h8}
context7 ctx7sk-{h40}
cursor crsr_{h64}
databricks-oauth dose{h32}
dbt dbtc_{u40}
deepseek sk-{h32}
dify app-{w24}
doppler-service dp.st.prd.{w43}
e2b e2b_{h40}
elastic essu_{b64}==
elevenlabs sk_{h48}
firecrawl fc-{h32}
fireworks fw_{w24}
flutterwave FLWSECK_TEST-{h32}-X
frameio fio-u-{u64}
gemini AQ.Ab8{u50}
github-refresh ghr_{w76}
gitlab-routable glpat-{u27}.01.{l9}
grafana-cloud glc_{b80}
helicone sk-helicone-{l7}-{l7}-{l7}-{l7}
honeycomb hcaik_{l58}
infracost ico-{w32}
inngest signkey-prod-{h64}
jina jina_{w60}
knock sk_{w43}
linear-oauth lin_oauth_{h64}
litellm sk-{u22}
liveblocks sk_dev_{u64}
llamacloud llx-{w48}
logfire pylf_v1_us_{w43}
mapbox sk.eyJ{w60}.{u22}
mem0 m0-{w40}
mercury secret-token:mercury_production_wma_{w44}_yrucrem
modal as-{w22}
mongodb-atlas mdb_sa_sk_{u40}
moonshot sk-{w48}
neon napi_{l60}
nomic nk-{u43}
nuget oy2{t43}
openai-service sk-svcacct-{u120}
ory ory_at_{u43}.{u43}
packagist packagist_uut_{h68}
pinecone pcsk_{w6}_{w63}
planetscale pscale_tkn_{u43}
razorpay rzp_live_{w24}
render rnd_{w28}
rootly rootly_{h64}
runpod rpa_{a32}{w10}
scrapfly scp-live-{h32}
snyk snyk_uat.{h8}.{u80}
sonarqube squ_{h40}
sourcegraph sgp_{h16}_{h40}
stripe-organization sk_org_live_{w64}
stripe-restricted rk_live_{w99}
stytch secret-live-{u32}=
supabase-secret sb_secret_{u22}_{u8}
terraform {w14}.atlasv1.{u67}
together tgp_v1_{u43}
trigger-dev tr_prod_{w24}
unkey unkey_{w27}
vercel vcp_{w56}
vercel-gateway vck_{w56}
voyage pa-{u43}
wandb wandb_v1_{u77}
webhook whsec_{b43}=
workos sk_live_{w48}
zuplo zpka_{h32}_{h8}
""".splitlines()
)
# What looks like a token and is none: ids in protocols and stores, digests, locks, images, sealed texts.
_IDS = """\
toolu_01{w22} srvtoolu_01{w22} mcptoolu_01{w22} toolu_bdrk_01{w22} toolu_vrtx_01{w22} msg_01{w22} msg_vrtx_01{w22}
msgbatch_01{w22} req_011C{w20} file_011C{w20} sesn_011C{w20} session_01{w22} cse_01{w22} vlt_011C{w20} apikey_01{w22}
wrkspc_01{w22} container_011C{w20} tooluse_{u22} agent-{h17} call_{w24} call_00_{w24} chatcmpl-{w29} chatcmpl-tool-{h32}
cmpl-{w29} resp_{h48} msg_{h48} rs_{h50} fc_{h48} ws_{h50} ci_{h50} ctc_{h50} ig_{h50} mcp_{h50} mcpl_{h50} mcpr_{h50}
req_{h32} run_{w24} step_{w24} thread_{w24} asst_{w24} file-{w24} org-{w24} proj_{w24} user-{w24} ftjob-{w24} vs_{h32}
batch_{h32} conv_{h48} cntr_{h48} item_{w21} event_{w21} sess_{w21} modr-{w29} gen-17{d8}-{w20} task_e_{h32} g-p-{h32}
pyd_ai_{h32} aitxt-{w24} price_1M{w22} pi_3M{w22} evt_1M{w22} user_2{w26} order_{h24} acme_{h8}-{h4}-{h4}-{h4}-{h12}
rollout-2026-05-07T17-24-21-{h8}-{h4}-{h4}-{h4}-{h12}.jsonl
{h40} v1.2.3-14-g{h40} web-prod-{h40} ghcr.io/a/b:sha-{h40} Linux-node-{h64} cache-key-{h64} pack-{h40}.idx
application-{h64}.css assets/main-{u24}.js sha512-{b86}== sha256-{b43}= sha1-{b27}= sha256:{h64} h1:{b43}=
pkg/a.py,sha256={u43},12 10c0/{h128} libserde-{h16}.rlib 00-{h32}-{h16}-01 SHA256:{b43} ami-0{h16} 0x{h40}
arn:aws:lambda:eu-west-1:123456789012:function:f-{w12} my-stack-Role{a8}-{a13} docs.google.com/document/d/1{u43}
data:image/png;base64,iVBORw0KGgo{b800}== gAAAAABo{u700}== EqQBCkYIBRgC{b400} CA{w4}-{u50}@mail.gmail.com
"""
ID_FORMS = _IDS.split()
_DRAWN = re.compile(r"\{([a-z])(\d+)\}")
_ALPHABETS = {
    "w": WORD, "u": URL64, "l": LOWER + DIGITS, "a": UPPER + DIGITS, "t": LOWER + "234567", "b": BASE64, "h": HEX,
    "d": DIGITS,
}  # fmt: skip
SENTENCES = ("{}", "It printed\n{}\nand stopped.", "Use {} for now.", '{{"id": "{}"}}', "call({!r})\n")


def _drawn(form: str, chance: Chance) -> tuple[str, list[str]]:
    drawn = [_of(chance, _ALPHABETS[found[1]], int(found[2])) for found in _DRAWN.finditer(form)]
    return _DRAWN.sub("{}", form).format(*drawn), drawn


def tokens(seed: int = 0) -> Iterator[Planted]:
    """Yield a token of each form with nothing around it that names it; the forms are all runs of 8 drawn characters."""
    chance = random.Random(seed)
    for kind, form in TOKEN_FORMS.items():
        token, drawn = _drawn(form, chance)
        runs = {text[at : at + 8] for text in drawn for at in range(len(text) - 7)}
        yield Planted(kind, "alone", chance.choice(SENTENCES).format(token), tuple(runs))


def ids(seed: int = 0) -> Iterator[str]:
    """Yield a text with an id, a digest or encoded data of each form."""
    chance = random.Random(seed)
    for form in ID_FORMS:
        yield chance.choice(SENTENCES).format(_drawn(form, chance)[0])


PROVIDERS = (
    "anthropic", "openai-project", "google", "aws-id", "github", "gitlab", "slack-bot", "stripe", "npm", "huggingface",
)  # fmt: skip


def _half(text: str, between: str) -> str:
    return text[: len(text) // 2] + between + text[len(text) // 2 :]


def base64_of(text: str) -> str:
    """Return the base64 form of a text."""
    return base64.b64encode(text.encode()).decode()


DISGUISES: dict[str, Callable[[str], str]] = {
    "coloured": lambda secret: f"\x1b[32m{secret}\x1b[0m",
    "coloured in JSON": lambda secret: json.dumps({"stdout": f"\x1b[1;38;5;9m{secret}\x1b(B\x1b[m\n"}),
    "coloured, written \\x1b": lambda secret: f"printf '\\x1b[32m{secret}\\x1b[0m'",
    "split by a colour": lambda secret: _half(secret, "\x1b[m\x1b[K"),
    "split by a colour in JSON": lambda secret: json.dumps({"out": json.dumps([_half(secret, "\x1b[01;31m")])}),
    "split by a zero-width space": lambda secret: _half(secret, "\u200b"),
    "split by a zero-width space in JSON": lambda secret: json.dumps([_half(secret, "\ufeff")]),
    "wrapped": lambda secret: f"export TOKEN={_half(secret, chr(10))}\nand then it stopped",
    "wrapped in JSON": lambda secret: json.dumps({"out": _half(secret, "\r\n") + "\n"}),
    "base64": lambda secret: f"  key: {base64_of(secret)}\n",
}


def _made(form: str, core: Callable[[Chance], str]) -> Callable[[Chance], Plant]:
    def plant(chance: Chance) -> Plant:
        secret = core(chance)
        return Plant(form.format(secret), secret, "")

    return plant


def _typed(chance: Chance) -> str:
    return _password(chance).core


def _webhook(chance: Chance) -> str:
    return f"{chance.randrange(10**17, 10**19)}/{_of(chance, URL64, 68)}"


def _pem_tail(chance: Chance) -> str:
    return "\n".join([*(_of(chance, BASE64, 64) for _ in range(3)), _of(chance, BASE64, 30) + "=="])


LINES: dict[str, Callable[[Chance], Plant]] = {
    "discord-webhook": _made("https://discord.com/api/webhooks/{}", _webhook),
    "discord-webhook of a version": _made("curl https://canary.discord.com/api/v10/webhooks/{}?wait=1", _webhook),
    "_pw in YAML": _made("smtp_pw: {}\n", _typed),
    "_pw in a shell": _made("export ROOT_PW={}\n", lambda chance: _of(chance, LOWER, 12)),
    "_pass in code": _made("db_pass = '{}'\n", _typed),
    "_pass in an environment": _made("DB_PASS={}\n", lambda chance: _of(chance, LOWER, 12)),
    "_pass in JSON": _made('{{"mail_pass": "{}"}}', _typed),
    "htpasswd": _made("htpasswd -bc /etc/nginx/.htpasswd admin {}\n", lambda chance: _of(chance, LOWER, 9)),
    "htpasswd to the screen": _made("htpasswd -nbB admin {} | tee users\n", _typed),
    "grep -n of YAML": _made("12:password:{}\n", _typed),
    "grep -n of an environment": _made(".env:12:DB_PASS={}\n", _typed),
    "grep -rn of YAML": _made("conf/a.yml:7:secret: {}\n", _typed),
    "grep in colours": _made("\x1b[35m.env\x1b[m:\x1b[32m3\x1b[m:\x1b[1;31m\x1b[KDB_PASSWORD\x1b[m={}\n", _typed),
    "base64 of user and token": _made("{}", lambda chance: base64_of(f"bob:{_of(chance, WORD, 24)}")),
    "base64 of an environment": _made("{}\n", lambda chance: base64_of(f"A=1\nDB_PASSWORD={_of(chance, WORD, 14)}\n")),
    "tail of a private key": _made("{}\n-----END RSA PRIVATE KEY-----\n", _pem_tail),
    "wrapped bearer": _made(
        "Authorization: Bearer {}\n", lambda chance: "\n".join(_of(chance, URL64, 40) for _ in range(2))
    ),
}  # fmt: skip


def shapes(seed: int = 0) -> Iterator[Planted]:
    """Yield every kind assigned, ten providers' keys in every disguise, and secrets that a line around them shows.

    The forms are all runs of 8 characters of the secret.
    """
    chance = random.Random(seed)
    made = [(kind, "assigned", *_assigned(chance, make(chance))) for kind, make in KINDS.items()]
    for kind in PROVIDERS:
        for name, disguise in DISGUISES.items():
            plant = KINDS[kind](chance)
            core = base64_of(plant.written) if name == "base64" else plant.core
            made.append((kind, name, disguise(plant.written), core))
    for name, make in LINES.items():
        plant = make(chance)
        made.append(("line", name, plant.written, plant.core))
    for kind, place, text, core in made:
        runs = {core[at : at + 8] for at in range(max(len(core) - 7, 1))}
        yield Planted(kind, place, text, tuple(run for run in runs if run in text))
