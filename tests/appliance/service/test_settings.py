"""The configuration: what it says, what it refuses, and its reference page."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.service import settings as settings_module
from appliance.service.settings import SECTIONS, Settings, rules_of
from appliance.service.settings_document import configuration_document, shortest_configuration
from engine.errors import ConfigError

SHORTEST = shortest_configuration()
PATH = Path("/etc/windhover/appliance.toml")


def parse(text):
    return Settings.parse(text.encode(), path=PATH)


def test_the_shortest_configuration_of_the_page_is_one():
    settings = parse(SHORTEST)
    assert settings.model.file == Path("/etc/windhover/models/model.vqf")
    assert settings.model_name == "model"
    assert settings.hosts == {"127.0.0.1:8080", "localhost:8080", "[::1]:8080"}
    assert settings.mode == "production"


def test_the_page_says_what_the_code_says():
    page = Path(settings_module.__file__).with_name("CONFIGURATION.md")
    assert page.read_text(encoding="utf-8") == configuration_document()


def test_every_field_is_explained_once():
    for section in SECTIONS.values():
        for rule, _ in rules_of(section).values():
            assert rule.text.endswith(".")
            assert rule.takes()


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        ('[server]\nlisten = "0.0.0.0:80"', "server.listen", "allow_remote"),
        ('[server]\nlisten = "10.0.0.1:80"\nallow_remote = true', "server.hosts", "write"),
        ('[server]\nlisten = "[::]:80"', "server.listen", "allow_remote"),
        ('[server]\nlisten = "127.0.0.1"', "server.listen", "unix:/path"),
        ('[server]\nlisten = "127.0.0.1:99999"', "server.listen", "unix:/path"),
        ('[server]\nlisten = "unix:sock"\nhosts = ["a"]', "server.listen", "whole path"),
        ('[server]\nlisten = "unix:/s"', "server.hosts", "write"),
        ('[server]\nhosts = ["A B"]', "server.hosts", "lower case"),
        ('[server]\nhosts = "a"', "server.hosts", "array"),
        ('[server]\ncors_origins = ["*"]', "server.cors_origins", "https://"),
        ('[server]\ncors_origins = ["null"]', "server.cors_origins", "https://"),
        ('[server]\nunix_mode = "0666"', "server.unix_mode", "0660"),
        ("[server]\ndrain_s = true", "server.drain_s", "whole number from 0"),
        ("[server]\ndrain_s = 1.5", "server.drain_s", "whole number from 0"),
        ('[server]\ndrain_s = "1"', "server.drain_s", "whole number from 0"),
        ("[server]\ndrain_s = -1", "server.drain_s", "whole number from 0"),
        ("[server]\ndrain_S = 1", "server.drain_S", "there are listen"),
        ("[limits]\nbody_bytes = 99999999", "limits.body_bytes", "bytes"),
        ("[limits]\nqueue_s = 60\nrequest_s = 30", "limits.queue_s", "request_s"),
        ("[dev]\nallow_unsigned = true", "dev", 'mode = "dev"'),
        ("[more]\na = 1", "more", "there are mode"),
        ("limits = 1", "limits", "[limits]"),
        ('mode = "test"', "mode", '"production" or "dev"'),
    ],
)
def test_what_is_wrong_is_named_with_what_to_write(more, field, words):
    text = f"{more}\n{SHORTEST}" if more.partition("\n")[0].find("[") else f"{SHORTEST}\n{more}"
    with pytest.raises(ConfigError) as error:
        parse(text)
    message = str(error.value)
    assert message.startswith(f"{PATH}: {field}: ")
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('trust = "trust.toml"\n', "", "model.trust"),
        ('trust = "trust.toml"', 'trust = "t"\nunseal_key = "k"\npassphrase = "p"',
         "model.passphrase"),
        ('trust = "trust.toml"', 'trust = "t"\nunseal_key_passphrase = "p"',
         "model.unseal_key_passphrase"),
        ('trust = "trust.toml"', 'trust = "t"\npassphrase = "-"', "model.passphrase"),
        ('trust = "trust.toml"', 'trust = "t"\npassphrase = "credential:a/b"', "model.passphrase"),
        ('file = "models/model.vqf"', "", "model.file"),
        ('key = "keys/attest.pem"', "", "attest.key"),
        ('keys = "state/api-keys.json"', 'keys = "k"\ncertificates = true', "auth.certificates"),
        ('keys = "state/api-keys.json"', 'keys = ""', "auth.keys"),
    ],
)  # fmt: skip
def test_fields_that_miss_or_do_not_fit_are_named(old, new, field):
    assert old in SHORTEST
    with pytest.raises(ConfigError, match=f": {field}: "):
        parse(SHORTEST.replace(old, new))


def test_what_is_no_toml_is_refused():
    for content in (b"a = ", b"\xff", b"a = 1\na = 2", b"#" * 70_000, b"a = " + b"[" * 30_000):
        with pytest.raises(ConfigError, match=r"appliance\.toml"):
            Settings.parse(content)


def test_mode_dev_does_without_signatures():
    text = SHORTEST.replace('trust = "trust.toml"', "") + "[dev]\nallow_unsigned = true\n"
    settings = parse('mode = "dev"\n' + text)
    assert settings.model.trust is None
    with pytest.raises(ConfigError, match=r"dev\.allow_unsigned"):
        parse('mode = "dev"\n' + SHORTEST + "[dev]\nallow_unsigned = true\n")


def test_secrets_are_files_or_credentials():
    more = 'trust = "t"\nunseal_key = "k"\nunseal_key_passphrase = "credential:model"'
    settings = parse(SHORTEST.replace('trust = "trust.toml"', more))
    assert settings.model.unseal_key_passphrase == "credential:model"  # noqa: S105
    settings = parse(
        SHORTEST.replace('trust = "trust.toml"', more.replace("credential:model", "p"))
    )
    assert settings.model.unseal_key_passphrase == "/etc/windhover/p"  # noqa: S105
