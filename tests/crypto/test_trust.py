"""The trust file: vectors, the digest, the textual forms of instants and keys."""

from __future__ import annotations

import calendar
import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto import keys, trust_values
from crypto.errors import FormatError
from crypto.trust import TrustFile
from crypto.trust_values import format_instant, parse_instant, parse_public_key

README = Path(__file__).parents[2] / "crypto" / "README.md"
LAST_INSTANT = 253_402_300_799


def described(trust):
    """Return a trust file in the form of the vectors."""
    return {
        "digest": trust.digest.hex(),
        "require_signed": trust.require_signed,
        "require_sealed": trust.require_sealed,
        "keys": {
            key_id.hex(): {
                "name": key.name,
                "role": key.role,
                "not_before": key.not_before,
                "not_after": key.not_after,
            }
            for key_id, key in trust.keys.items()
        },
        "lines": {
            name: {
                "signer_ids": sorted(key_id.hex() for key_id in line.signer_ids),
                "threshold": line.threshold,
                "minimum_release": line.minimum_release,
            }
            for name, line in trust.lines.items()
        },
        "revocations": {
            "required": trust.revocations.required,
            "minimum_sequence": trust.revocations.minimum_sequence,
            "maximum_age_s": trust.revocations.maximum_age_s,
        },
        "logs": {log_id.hex(): log.name for log_id, log in trust.logs.items()},
    }


def test_valid_vectors(load_vectors):
    vectors = load_vectors("trust_valid.json")["trust"]
    assert len(vectors) > 5
    for vector in vectors:
        assert described(TrustFile.parse(vector["text"].encode())) == vector["value"], vector["id"]


def test_invalid_vectors(load_vectors):
    for vector in load_vectors("trust_invalid.json")["trust"]:
        with pytest.raises(FormatError) as caught:
            TrustFile.parse(vector["text"].encode())
        assert (caught.value.rule, caught.value.offset) == (vector["rule"], vector["offset"]), (
            vector["id"]
        )


def test_every_rule_of_the_readme_has_a_vector_and_no_other_is_raised(load_vectors):
    section = README.read_text(encoding="utf-8").partition("## Trust policy")[2]
    subset, _, rest = section.partition("### The trust file")
    vectors = load_vectors("trust_invalid.json")
    for vector in vectors["toml"]:
        assert f"`{vector['rule']}`" in subset
    rows = re.findall(
        r"^\| `([a-z-]+)` \| [^|]+ \|$", rest.partition("### Revocations")[0], re.MULTILINE
    )
    assert len(rows) > 10
    assert {vector["rule"] for vector in vectors["trust"]} == set(rows)
    named = set(re.findall(r"\(`([a-z0-9-]+)`\)", subset)) | {"line-end", "table-name", "array"}
    assert {vector["rule"] for vector in vectors["toml"]} == named


def test_the_example_of_the_readme_is_a_trust_file():
    section = README.read_text(encoding="utf-8").partition("## Trust policy")[2]
    example = re.search(
        r"(?:^ {4}.*\n|^\n)+", section[section.index("    version") :], re.MULTILINE
    )
    text = re.sub(r"^ {4}", "", example[0], flags=re.MULTILINE)
    trust = TrustFile.parse(text.encode())
    assert trust.lines["chat-8b"].minimum_release == 3
    (key,) = trust.keys.values()
    assert format_instant(key.not_after) == "2028-01-01T00:00:00Z"


def test_the_digest_is_that_of_the_bytes():
    data = b"version = 1\n"
    expected = hashlib.new("sm3", b"windhover/trust;v=1\0" + data).digest()
    assert TrustFile.parse(data).digest == expected
    assert TrustFile.parse(data + b"\n").digest != expected


def test_a_key_is_found_under_its_role_only(load_vectors):
    vectors = load_vectors("trust_valid.json")
    vector = next(v for v in vectors["trust"] if v["id"] == "everything")
    trust = TrustFile.parse(vector["text"].encode())
    for key_id, key in trust.keys.items():
        assert trust.key(key_id, key.role) is key
        assert trust.key(key_id, "weights" if key.role != "weights" else "revoke") is None
    assert trust.key(bytes(32), "weights") is None


@pytest.mark.parametrize(
    ("now", "early", "late"),
    [(1_767_225_599, True, False), (1_767_225_600, False, False), (1_835_481_599, False, True)],
)
def test_a_window_holds_its_first_second_and_not_its_last(load_vectors, now, early, late):
    vector = next(v for v in load_vectors("trust_valid.json")["trust"] if v["id"] == "everything")
    trust = TrustFile.parse(vector["text"].encode())
    key = next(key for key in trust.keys.values() if key.name == "w1")
    assert (key.is_too_early(now), key.is_too_late(now)) == (early, late)
    assert not key.is_too_late(1_835_481_598)


def test_every_cut_of_a_trust_file_that_is_accepted_trusts_no_more(load_vectors):
    vector = next(v for v in load_vectors("trust_valid.json")["trust"] if v["id"] == "everything")
    data = vector["text"].encode()
    whole = TrustFile.parse(data)
    accepted = 0
    for length in range(len(data)):
        try:
            part = TrustFile.parse(data[:length])
        except FormatError:
            continue
        accepted += 1
        assert part.require_signed
        assert set(part.keys) <= set(whole.keys)
    assert accepted > 5


@settings(deadline=None, max_examples=100)
@given(st.integers(0, LAST_INSTANT))
def test_instants_agree_with_the_calendar(seconds):
    text = format_instant(seconds)
    parsed = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z")
    assert calendar.timegm(parsed.astimezone(UTC).timetuple()) == seconds
    assert parse_instant(text) == seconds


@pytest.mark.parametrize("seconds", [-1, LAST_INSTANT + 1, 2**53, 2**64])
def test_instants_outside_the_years_are_not_written(seconds):
    with pytest.raises(ValueError, match="an instant is"):
        format_instant(seconds)


def test_a_role_of_a_key_file_is_a_role_of_a_trust_file():
    assert keys.ROLES == trust_values.ROLES


def test_keys_of_the_vectors_have_their_ids(load_vectors):
    for key in load_vectors("trust_valid.json")["keys"].values():
        assert parse_public_key(key["public_key"]).key_id.hex() == key["key_id"]
