"""`windhover trust` says what a trust file means, or where it is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from appliance.cli.main import run
from crypto.keys import load_public_key
from tests.appliance.cli.workshop import line_table

if TYPE_CHECKING:
    from tests.appliance.cli.workshop import Workshop

RULES = "[revocations]\nminimum_sequence = 4\nmaximum_age_days = 30"


def write(shop: Workshop) -> None:
    """Write a trust file with something in each table."""
    shop.key("second", "weights")
    shop.key("revoke", "revoke")
    keys = {"vendor": "weights", "second": "weights", "revoke": "revoke"}
    window = {"second": 'not_before = "2020-01-01T00:00:00Z"\nnot_after = "2090-01-01T00:00:00Z"'}
    lines = (line_table("demo", "vendor", "second", threshold=2, minimum_release=5), RULES)
    log = f'[logs.here]\nid = "{"ab" * 32}"'
    shop.trust(*lines, log, keys=keys, key_lines=window, sealed=True)


def test_a_script_reads_one_object(shop: Workshop) -> None:
    write(shop)
    value = shop.done("trust", shop.path("trust.toml")).value
    assert value["require_signed"] is True
    assert value["require_sealed"] is True
    assert {key["name"]: key["role"] for key in value["keys"]} == {
        "vendor": "weights",
        "second": "weights",
        "revoke": "revoke",
    }
    public = load_public_key(shop.public("second"), role="weights")
    (second,) = [key for key in value["keys"] if key["name"] == "second"]
    assert second["key_id"] == public.key_id.hex()
    assert (second["not_before"], second["not_after"]) == (1_577_836_800, 3_786_912_000)
    assert value["lines"] == [
        {"name": "demo", "signers": ["second", "vendor"], "threshold": 2, "minimum_release": 5}
    ]
    assert value["revocations"] == {
        "required": True,
        "minimum_sequence": 4,
        "maximum_age_s": 30 * 86_400,
    }
    assert value["logs"] == [{"name": "here", "id": "ab" * 32}]


def test_a_person_reads_sentences(shop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    write(shop)
    assert run(["trust", str(shop.path("trust.toml"))]) == 0
    out = capsys.readouterr().out
    assert "  weights       must be signed, must be sealed\n" in out
    assert "  line demo     2 of second, vendor; releases from 5 on\n" in out
    assert "from number 4 on, at most 30 days old\n" in out
    assert "weights from 2020-01-01T00:00:00Z until 2090-01-01T00:00:00Z\n" in out


def test_a_mistake_is_named_with_its_line(shop: Workshop) -> None:
    path = shop.path("trust.toml")
    path.write_text("version = 1\n\n[policy]\nrequire_singed = false\n")
    result = shop("trust", path)
    assert (result.exit_code, result.value["kind"]) == (1, "FormatError")
    assert result.value["rule"] == "unknown-key"
    assert f"{path}, line 4: " in result.err


@pytest.mark.parametrize("content", [b"", b"version = 1\n" + b"# x\n" * 20_000, b"\xff"])
def test_what_is_no_trust_file(shop: Workshop, content: bytes) -> None:
    path = shop.path("trust.toml")
    path.write_bytes(content)
    result = shop("trust", path)
    assert result.exit_code == 1
    assert result.err.count("\n") == 1


def test_a_missing_file(shop: Workshop) -> None:
    assert shop("trust", shop.path("nonesuch")).exit_code == 2
