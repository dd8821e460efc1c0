"""Redacting: placeholders that stay the same, reveal nothing, and leave everything else as it was."""

from __future__ import annotations

import json

from skillopt_mcp.core.redacting import KnownSecrets, Redactor, known_secrets, redact

KEY = "ghp_" + "a1B2c3D4e5F6" * 3
PASSWORD = "Zx9!kq2LmQ"
REDACTOR = Redactor(b"salt")


def test_the_same_secret_has_the_same_placeholder_wherever_it_stands() -> None:
    plain = REDACTOR.text(KEY)
    assert plain.startswith("[redacted:github-token:")
    assert REDACTOR.text(f"TOKEN={KEY}") == f"TOKEN={plain}"
    assert REDACTOR.text(json.dumps({"a": f"x\n{KEY}"})) == json.dumps({"a": f"x\n{plain}"})


def test_only_the_secret_is_replaced() -> None:
    text = json.dumps({"env": f"A=\u00e9\\\nDB_PASSWORD={PASSWORD}\n\u4e2d"}, ensure_ascii=True)
    redacted = REDACTOR.text(text)
    before, after = text.split(PASSWORD)
    assert redacted.startswith(before)
    assert redacted.endswith(after)
    assert PASSWORD not in redacted


def test_what_one_text_names_is_redacted_in_the_others() -> None:
    first, second = REDACTOR.texts([f"DB_PASSWORD={PASSWORD}", f"I typed {PASSWORD}."])
    assert PASSWORD not in first + second
    assert first.removeprefix("DB_PASSWORD=") in second


def test_what_an_allowed_text_says_is_left() -> None:
    assert REDACTOR.text(f"the answer is {KEY}", allowed=f"Repeat {KEY}") == f"the answer is {KEY}"
    assert KEY not in REDACTOR.text(f"the answer is {KEY}", allowed="Repeat it")


def test_a_known_value_is_redacted_as_a_word_of_its_own_only() -> None:
    known = KnownSecrets({b"swordfish": "environment"})
    assert redact("swordfish, swordfishes and sword_swordfish", known).count("[redacted:environment:") == 1
    assert redact('say \\"swordfish\\"', known).count("[redacted:environment:") == 1


def test_the_environment_shows_what_its_names_say() -> None:
    known = known_secrets(
        {
            "DB_PASSWORD": "swordfish",
            "MY_API_KEY": "plain-looking-7",
            "OTHER": KEY,
            "DATABASE_URL": "postgres://app:tiger-lily-9@db/x",
            "SSH_KEY_PATH": "/home/me/.ssh/id_rsa",
            "PWD": "/home/me/project",
            "MAX_TOKENS": "100000000",
            "AUTH_TOKEN_KIND": "personal access",
            "SHORT_SECRET": "abc",
            "ADMIN_PASSWORD": "changeme",
        },
        files=["machine h login me password from-the-netrc-7!"],
    )
    text = (
        f"swordfish plain-looking-7 {KEY} tiger-lily-9 /home/me/.ssh/id_rsa /home/me/project 100000000 "
        "personal access abc changeme from-the-netrc-7!"
    )
    assert [word for word in redact(text, known).split(" ") if "redacted" not in word] == [
        "/home/me/.ssh/id_rsa", "/home/me/project", "100000000", "personal", "access", "abc", "changeme",
    ]  # fmt: skip
