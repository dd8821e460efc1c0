"""Options and endpoints of the backends over HTTP: what a spec may say, and that secrets stay where they belong."""

import pytest
from api_calls import ENVIRON
from loopback import KEY

from skillopt_mcp.backends.anthropic import open_anthropic
from skillopt_mcp.backends.openai import open_openai
from skillopt_mcp.errors import BackendError


def test_a_name_opens_the_same_backend_again() -> None:
    spec = "llama3:8b,base_url=http://127.0.0.1:11434/v1,api=chat,structured=off,temperature=0.0"
    backend = open_openai(spec, {})
    assert sorted(backend.name.split(",")) == sorted(f"openai:{spec}".split(","))
    assert open_openai(backend.name.partition(":")[2], {}).fingerprint == backend.fingerprint


def test_a_fingerprint_changes_with_what_changes_answers_and_no_sooner() -> None:
    plain = open_openai("m", ENVIRON).fingerprint
    same = ["m,timeout=5", "m,price_in=1,price_out=2", "m,structured=on", "m,api=auto"]
    others = ["n", "m,effort=low", "m,temperature=1", "m,max_tokens=9", "m,api=chat", "m,structured=off"]
    assert {open_openai(text, ENVIRON).fingerprint for text in same} == {plain}
    fingerprints = {open_openai(text, ENVIRON).fingerprint for text in others}
    elsewhere = open_openai("m,base_url=https://models.example/v1", ENVIRON).fingerprint
    assert len({plain, elsewhere, *fingerprints}) == len(others) + 2
    assert open_anthropic("m", ENVIRON).fingerprint != open_anthropic("m,thinking=2000", ENVIRON).fingerprint


def test_no_secret_is_in_a_name_or_a_fingerprint_or_a_representation() -> None:
    for backend in (open_openai("m", ENVIRON), open_anthropic("m", ENVIRON)):
        assert KEY not in f"{backend.name} {backend.fingerprint} {backend.endpoint} {backend.origin}"


@pytest.mark.parametrize(
    ("text", "environ", "message"),
    [
        ("m", {}, "'openai:m' needs a key: set OPENAI_API_KEY in the environment"),
        ("m,key_env=MY_KEY", ENVIRON, "'openai:m' needs a key: set MY_KEY in the environment"),
        ("m", {"OPENAI_API_KEY": f"{KEY}\nx"}, "$OPENAI_API_KEY holds a character that no key has: set it again"),
        ("m,azure=on", ENVIRON, "set AZURE_OPENAI_ENDPOINT (or base_url=)"),
        ("m,azure=on,base_url=https://x.openai.azure.com", ENVIRON, "set OPENAI_API_VERSION (or api_version=)"),
        (
            "m,azure=on,base_url=https://x.openai.azure.com,api_version=1",
            ENVIRON,
            "set AZURE_OPENAI_AD_TOKEN or AZURE_OPENAI_API_KEY in the environment",
        ),
        ("", ENVIRON, "'model' of 'openai:' cannot be used"),
        ("m,effort=huge", ENVIRON, "'effort' of 'openai:m' cannot be used"),
        ("m,colour=red", ENVIRON, "cannot use option 'colour' of 'openai:m'; give each once of: base_url="),
        ("m,api=chat,api=auto", ENVIRON, "cannot use option 'api'"),
        (f"m,api_key={KEY}", ENVIRON, "'api_key' of 'openai:m' is not an option: secrets come from the environment"),
        (f"m,key_env={KEY}", ENVIRON, "'key_env' of 'openai:m' cannot be used"),
        (f"m,base_url=https://u:{KEY}@h/v1", ENVIRON, "the base URL cannot be used"),
        ("m,base_url=ftp://h", ENVIRON, "the base URL cannot be used"),
        ("m,base_url=http://models.example/v1", ENVIRON, "would send $OPENAI_API_KEY unencrypted to 'models.example'"),
        ("m,price_in=1", ENVIRON, "has half a price"),
        (f"m,token={KEY}", ENVIRON, "'token' of 'openai:m' is not an option: secrets come from the environment"),
    ],
)
def test_what_cannot_be_used_is_refused_without_its_secrets(text: str, environ: dict[str, str], message: str) -> None:
    with pytest.raises(BackendError) as caught:
        open_openai(text, environ)
    assert message in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_key_may_have_a_name_of_its_own_and_a_server_of_ones_own_may_need_none() -> None:
    own = open_openai("m,base_url=https://models.example/v1,key_env=MY_KEY", ENVIRON | {"MY_KEY": "other"})
    assert own.endpoint.secret.value == "other"
    assert open_openai("m,base_url=http://models.example:8000/v1", {}).endpoint.secret.value == "none"
    assert open_openai("m,base_url=http://models.example/v1,plain_http=on", ENVIRON).name.endswith("plain_http=on")
    assert open_anthropic("m", {"ANTHROPIC_AUTH_TOKEN": "t"}).endpoint.secret.name == "ANTHROPIC_AUTH_TOKEN"
