"""Finding: which values are secrets, where they begin and end, and which only look like some."""

from __future__ import annotations

import base64
import json
import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.core.redacting import find_secrets

KEY = "ghp_" + "a1B2c3D4e5F6" * 3
PASSWORD = "Zx9!kq2LmQ"
TOKEN = "q7Xk2mP9vL4tR8wZ3nB6"
PEM = "-----BEGIN " + "RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----"
BODY = "\n".join(["MIIEpAIBAAKCAQEA7bq4Zk1q2w3e4r5t6y7u8i9o0pAsDfGhJkLzXcVbNm12345a"] * 3)
RUN = b"q7Xk2mP9vL4tR8wZ3nB6yH1sD5gJ0cF/aE+uT7iO2pQ9xK4bV6nM1zW8rY3hS5dG0jC7lU2eA9fI4oN6zT1kR8"


def found(text: str) -> list[tuple[str, str]]:
    return [(secret.kind, secret.value.decode()) for secret in find_secrets(text.encode())]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        (f"see {KEY}.", "github-token", KEY),
        (f"x={KEY},y", "github-token", KEY),
        (f"TOKEN_{KEY}", "github-token", KEY),
        ("123456789:AA" + "a1B2c3D4e5F" * 3, "telegram-token", "123456789:AA" + "a1B2c3D4e5F" * 3),
        (f"DB_PASSWORD={PASSWORD}\nNEXT=1", "password", PASSWORD),
        (f"password: str = '{PASSWORD}'", "password", PASSWORD),
        (f'{{"Password":"{PASSWORD}"}}', "password", PASSWORD),
        (f"<password>{PASSWORD}</password>", "password", PASSWORD),
        (f"| password | `{PASSWORD}` |", "password", PASSWORD),
        (f"the password is {PASSWORD}.", "password", PASSWORD),
        (f"machine h login bob password {PASSWORD}", "password", PASSWORD),
        (f"run --password {PASSWORD} now", "password", PASSWORD),
        (f"curl -u bob:{PASSWORD} https://x", "credential", f"bob:{PASSWORD}"),
        (f"Authorization: Bearer {TOKEN}", "credential", TOKEN),
        ("Authorization: Basic Ym9iOlp4OSFrcTJMbVE=", "credential", "Ym9iOlp4OSFrcTJMbVE="),
        (f"GET /a?access_token={TOKEN}&b=c", "credential", TOKEN),
        (f"Set-Cookie: sid={TOKEN}; Path=/; Max-Age=86400", "cookie", TOKEN),
        ("postgres://app:swordfish@db/shop", "url-password", "swordfish"),
        ("amqp://app:p%40ss-w0rd@mq", "url-password", "p@ss-w0rd"),
        (f"https://{TOKEN}@git.internal/x", "url-password", TOKEN),
        (f"db_pass = '{PASSWORD}'", "password", PASSWORD),
        (f".env:12:smtp_pw:{PASSWORD}", "password", PASSWORD),
        (f"\x1b[1mTOKEN\x1b[0m{KEY}\x1b[10Gnext", "github-token", KEY),
        (f"ghp_\x1b[31m{KEY[4:]}", "github-token", KEY),
        (f"{KEY[:15]}\n{KEY[15:]}\nnext", "github-token", KEY),
        (base64.b64encode(f"key {KEY}\n".encode()).decode(), "github-token", KEY),
        (f"{BODY}\n-----END PRIVATE KEY-----", "private-key", f"{BODY}\n-----END PRIVATE KEY-----"),
        (f"a\n{PEM.format(BODY)}\nb", "private-key", PEM.format(BODY)),
        (f"use quill-{TOKEN}aB3d.", "token", f"quill-{TOKEN}aB3d"),
        (f"url: https://x/bot/acme_live_{TOKEN}aB3d/send", "token", f"acme_live_{TOKEN}aB3d/send"),
        (f"GET https://x/bot/novaAi_{TOKEN}aB3d?a=1", "token", f"novaAi_{TOKEN}aB3d"),
        (f"password: |\n  {PASSWORD}\nuser: bob", "password", PASSWORD),
        (f"password: >- # kept\r\n\t{PASSWORD}\r\n", "password", PASSWORD),
        (f'user,api_key,role\n"a, b",{TOKEN},x\n', "credential", TOKEN),
        (f"id;password\r\n7;{PASSWORD}\r\n", "password", PASSWORD),
        (f"| who | `password` |\n|:--|--:|\n| bob | {PASSWORD} |\n", "password", PASSWORD),
        (f" id | access_token\n----+---\n  1 | {TOKEN}\n", "credential", TOKEN),
        (f'<add key="ApiKey"\n  value="{TOKEN}"/>', "credential", TOKEN),
        (f"- name: DB_PASSWORD\n  value: {PASSWORD}\n", "password", PASSWORD),
        (f'{{"name": "DB_PASSWORD", "value": "{PASSWORD}"}}', "password", PASSWORD),
        (f"<key>password</key>\n<string>{PASSWORD}</string>", "password", PASSWORD),
        (f"password&#61;&quot;{PASSWORD}&quot;", "password", PASSWORD),
        (f"A=1\0DB_PASSWORD={PASSWORD}\0PATH=/usr/bin\0LANG=C", "password", PASSWORD),
        (f"TOKEN={KEY[:12]}\\\n    {KEY[12:]}\n", "github-token", KEY),
        (f"  token: >-\n    {KEY[:20]}\n    {KEY[20:]}\n", "github-token", KEY),
        (f"key {KEY}\r\n".encode("utf-16-le").decode(), "github-token", KEY),
        (base64.b64encode(f"key {KEY}\r\n".encode("utf-16-le")).decode(), "github-token", KEY),
    ],
)
def test_a_secret_is_found_from_its_first_to_its_last_character(text: str, kind: str, value: str) -> None:
    assert found(text) == [(kind, value)]


@pytest.mark.parametrize(
    ("text", "password"),
    [
        ("password: hunter2secret", "hunter2secret"),
        ("DB_PASSWORD=correcthorse", "correcthorse"),
        ("export PGPASSWORD=abc12345; psql", "abc12345"),
        ('docker run -e MYSQL_ROOT_PASSWORD="letmein" mysql', "letmein"),
        ("MYSQL_PWD=letmein mysql -u root", "letmein"),
        ("login --password Hunter22x --all", "Hunter22x"),
        ("login --password=correcthorse", "correcthorse"),
        ("gpg --passphrase 'open4me'", "open4me"),
        ("sshpass -p S3cr3tPw99 ssh host", "S3cr3tPw99"),
        ("htpasswd -b .htpasswd bob letmein", "letmein"),
        ("htpasswd -nbB bob letmein > users", "letmein"),
        ("sshpass -pletmein ssh host", "letmein"),
        ("mysql -u root -pS3cr3tPw99 shop", "S3cr3tPw99"),
        ("mysql -uroot -px9qLw2mVb7Tz", "x9qLw2mVb7Tz"),
        ("mysqldump -h db -p'letmein' shop", "letmein"),
    ],
)
def test_what_can_only_be_a_password_is_found_however_readable_it_is(text: str, password: str) -> None:
    assert found(text) == [("password", password)]


@pytest.mark.parametrize("after", [b"", b" ", b'"', b"\xff", "\u00e9".encode(), b"\xed\xa0\x80", b"==="])
@pytest.mark.parametrize("before", [b"", b" ", b"=", b"\xff", "\u00e9".encode(), b"\xed\xa0\x80"])
@pytest.mark.parametrize("value", [RUN[:32], RUN[:40], RUN[:39] + b"=", RUN[:86] + b"=="])
def test_a_run_as_long_as_a_key_is_found_between_any_bytes(before: bytes, value: bytes, after: bytes) -> None:
    secrets = [(each.start, each.value) for each in find_secrets(before + value + after)]
    goes_on = after == b"==="
    assert secrets == ([] if goes_on else [(len(before), value)])


@pytest.mark.parametrize(
    "text",
    [
        "password = None; token = tokens[0]; secret = os.environ['SECRET']",
        "password = getpass.getpass('Password: ')",
        "PASSWORD=$DB_PASSWORD TOKEN=${TOKEN} KEY=<your-key> SECRET={{ secret }} API_KEY=changeme",
        "api_key = 'your-api-key-here-0123456789'",
        "--password PASSWORD, --token TOKEN: the token of the API",
        "password: must have 8 characters, 1 digit and 1 symbol",
        "def login(password: str, user: string): ...  # password: string",
        "PASSWORD=required DB_PASSWORD=example PGPASSWORD=${PW} A_PASSWORD=<password> PASSWORD=***",
        "POSTGRES_PASSWORD=postgres POSTGRES_PASSWORD=mypassword DB_PASSWORD=os.environ['PW'] PASSWORD=prompt()",
        "if PASSWORD==secret1: DB_PASSWORD = correcthorse; OLDPWD=/tmp/abcdef PASSWORD='Your new word'",
        "the --password option is required; use --password instead, or --password=VALUE, or --password-stdin",
        "sshpass -p $PASS ssh host; sshpass -p password ssh host",
        "mysql -u root -p database; mysql -h localhost -P 3306; mysql -uroot -pPASSWORD; mysql --protocol=tcp",
        "password: base64 = b64decode(x); password = PKCS7Encoded; password: sha2",
        "docker run --name mysql -p3306:3306 mysql:8; apt install mysql -pthread12; mysql x && cp -preserve=mode a b",
        'RESET_PASSWORD="resetPassword" USER_UPDATE_PASSWORD="USER_UPDATE_PASSWORD" LOGIN_PASSWORD="loginPassword"',
        "INVALID_PASSWORD='Invalid' ERR_WRONG_PASSWORD=wrong_password CHANGE_PASSWORD=/change-password",
        "--no-password=enabled; FORGOT_PASSWORD=/account/forgot; ADMIN_PASSWORD=/run/secrets/admin",
        "https://user:password@host, http://u:${PASSWORD}@h, http://localhost:8080@x",
        "AKIAIOSFODNN7EXAMPLE ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx hf_abcdefghijklmnopqrstuvwxyzabcdefgh",
        "commit 4d5e9fd0e57e66c789aaebba600c635d37cae42b, md5 78e8cb95d3cfbbb64d910a2b6caf6c85",
        "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGhlbGxvd29ybGRoZWxsb3dvcmxkaGVsbG8 me@host",
        "task-force-one-two-three-four-five risk-based-approach disk-encryption-key-management",
        '"NextToken": "eyJOZXh0VG9rZW4iOiBudWxsfQa1b2c3d4"',
        "public_key = 'q7Xk2mP9vL4tR8wZ3nB6'",
        "if line.startswith('-----BEGIN PRIVATE KEY-----'): ...",
        "abandon ability able about above absent absorb abstract absurd abuse access actor",
        "htpasswd -b FILE USER PASSWORD; htpasswd -c .htpasswd bob",
        "arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-Ab12Cd",
        "tests_passed = 12Ab34Cd!; first_pass: tokenize(); bypass=Zx9!kq2LmQ; -----END PRIVATE KEY-----",
        base64.b64encode(b"010:Repository1296269").decode()
        + " "
        + base64.b64encode(b'{"alg":"HS256","typ":"JWT"}').decode(),
        f"{KEY[4:24]}\nNEXT=1\n{KEY[4:20]}\n2024-01-01",
        "Cookie: theme=dark; lang=en-GB; consent=accepted",
        "password: |\n  at least 8 characters\n",
        "password: >-\n  ${DB_PASSWORD}\n",
        "| password | type |\n|---|---|\n| required | string |\n",
        "model,tokens\ngpt-4o-2024,128000\n",
        "use a password, a token\nthen x1y2z3w4, x\n",
        '<param name="token" value="your-token-here"/>',
        "- name: PASSWORD\n  valueFrom:\n    secretKeyRef: {name: v1-db2-x3}\n",
        "'password',\n'TF2_MakeBleed',\n'db2_autocommit',\n",
        "sodium_crypto_aead_chacha20poly1305_decrypt test_base64_to_utf8_round_trip_v2_ok",
        "const isBound = !!credentialType; const workSecret = opts?.workSecret || null;",
        f"client_id: cl_{TOKEN}aB3d, https://my-lb-{TOKEN}aB3d.example.com, CA7f_{TOKEN}aB3d@mail.gmail.com",
        f"It printed\ncall_{TOKEN}aB3d\nand stopped at step2\nmsg_{TOKEN}aB3d\n",
    ],
)
def test_what_is_no_secret_is_not_found(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize("depth", range(4))
def test_a_secret_is_found_under_layers_of_json(depth: int) -> None:
    text = f"A=1\npassword={PASSWORD}\n{PEM.format(BODY)}\n"
    for _ in range(depth):
        text = json.dumps({"out": text})
    assert found(text) == [("password", PASSWORD), ("private-key", PEM.format(BODY))]


def test_a_secret_is_found_in_an_address_that_quotes_another() -> None:
    assert found(f"https://x/?next=https%3A%2F%2Fy%2F%3Ftoken%3D{TOKEN}%26a%3Db") == [("credential", TOKEN)]


def test_what_one_place_names_is_found_where_nothing_names_it() -> None:
    assert found(f"password={PASSWORD}\nthen it typed {PASSWORD} again") == [("password", PASSWORD)] * 2


def test_a_private_key_that_was_cut_off_is_found_up_to_there() -> None:
    (secret,) = find_secrets(PEM.format(BODY).partition("\n-----END")[0].encode() + b"\n[cut here]")
    assert secret.kind == "private-key"
    assert secret.value.endswith(b"12345a\n")


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    for secret in find_secrets(text.encode("utf-8", "surrogatepass")):
        assert 0 <= secret.start < secret.end


@pytest.mark.parametrize(
    "piece",
    [
        "eyJ-", "sk-", "token=", "?sig=", "cookie: a=", "://a:", "-----BEGIN PRIVATE KEY-----A", "\\\\", "%25",
        "\x1b[1m", "a1B2c3D4e5\n", "eyJhbGciOiJIUzI1NiJ9.", "htpasswd -b ",
        "abandon ", "password='", "password,password\n", "password|", "a_b1C2", "x\0", "&#65;", "a1B2c3D4e5F6\\\n  ",
        "a1B2c3D4", '[{"a":', "login x password ", f"password={PASSWORD} ",
    ],
)  # fmt: skip
def test_a_hostile_text_is_read_in_linear_time(piece: str) -> None:
    text = (piece * (100_000 // len(piece))).encode()
    started = time.process_time()
    find_secrets(text)
    assert time.process_time() - started < 2


def test_a_hostile_text_puts_nothing_on_the_screen(capfd: pytest.CaptureFixture[str]) -> None:
    pieces = ["--pass", "--a", "-u", "--abcdef-ghi-", "password"]
    found("".join(Random(1).choices(pieces, k=50_000)))
    assert capfd.readouterr().err == ""
