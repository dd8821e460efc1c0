"""Redacting: placeholders that stay the same, reveal nothing, and leave everything else as it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.core.calls import Message
from skillopt_mcp.core.redacting import KnownSecrets, Redactor, known_secrets, redact

KEY = "ghp_" + "a1B2c3D4e5F6" * 3
PASSWORD = "Zx9!kq2LmQ"
REDACTOR = Redactor(b"salt")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([KEY, PASSWORD, f"password={PASSWORD}"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["password", "a", "token"]), inner),
    max_leaves=8,
)


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


def test_what_one_message_names_is_redacted_in_the_others() -> None:
    messages = (Message("tool", f"DB_PASSWORD={PASSWORD}", "env"), Message("assistant", f"I typed {PASSWORD}."))
    first, second = REDACTOR.messages(messages)
    assert (first.role, first.name) == ("tool", "env")
    assert PASSWORD not in first.content + second.content
    assert first.content.removeprefix("DB_PASSWORD=") in second.content


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


@given(JSON)
def test_decoded_json_keeps_its_shape_and_loses_its_secrets(value: object) -> None:
    redacted = Redactor().json(value)  # type: ignore[arg-type]
    assert KEY not in json.dumps(redacted)
    assert _shape(redacted) == _shape(value)


@pytest.mark.parametrize(
    "value",
    [
        {"password": '?\x1f"'},
        {"user": "bob", "password": '?\x1f"', "note": f"use {KEY}"},
        [{"password": '?\x1f"'}, {"a": [KEY]}],
        {"password": {"password": '?\x1f"'}},
    ],
)
def test_a_secret_that_seems_to_reach_over_the_end_of_its_text_breaks_nothing(value: object) -> None:
    redacted = Redactor().json(value)  # type: ignore[arg-type]
    assert KEY not in json.dumps(redacted)
    assert "\x1f" not in str(redacted)
    assert _shape(redacted) == _shape(value)


def _shape(value: object) -> object:
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in value.items()}
    return [_shape(each) for each in value] if isinstance(value, list) else type(value)
