"""`windhover log`: begin, look, prove, export, check."""

from __future__ import annotations

import json

import pytest

from appliance.log.anchor import FileAnchor
from appliance.log.log import Log
from crypto.keys import write_private_key, write_public_key
from crypto.merkle import leaf_hash, verify_consistency, verify_inclusion
from tests import altered
from tests.appliance.cli.workshop import Workshop
from tests.appliance.log.case import KEY, SIGNER
from tests.appliance.log.objects_case import admission


class LogShop(Workshop):
    """A workshop with a log."""

    def __init__(self, folder):
        super().__init__(folder)
        write_private_key(self.path("attest.pem"), KEY, role="attest", passphrase=None)
        write_public_key(self.public("attest"), KEY.public_key, role="attest")
        self.log, self.anchor = self.path("log"), self.path("anchor")
        self.made = self.new(self.log)

    def new(self, folder, *words):
        return self.done(
            *("log", "new", folder, "--key", self.path("attest.pem"), "--issuer", "tests"),
            *("--anchor", self.anchor, *words),
        )

    def start(self):
        return Log(self.log, signer=SIGNER, issuer="tests", anchor=FileAnchor(self.anchor))

    def append(self, count):
        with self.start() as log:
            return [log.append(admission(), admits=True).head for _ in range(count)]


@pytest.fixture
def shop(tmp_path):
    return LogShop(tmp_path)


def test_a_new_log_can_be_written_and_looked_at(shop):
    assert shop.made.value["size"] == 1
    heads = shop.append(3)
    value = shop.done("log", "head", shop.log, "--output", shop.path("head")).value
    assert value["size"] == 5
    assert value["root"] == heads[-1].root.hex()
    assert value["log_id"] == shop.made.value["log_id"]
    assert shop.path("head").read_bytes() == heads[-1].checkpoint
    assert shop("log", "head", shop.log, "--output", shop.path("head")).exit_code == 2
    shop.done("log", "head", shop.log, "--output", shop.path("head"), "--force")


def test_proofs_verify(shop):
    heads = shop.append(4)
    value = shop.done("log", "prove", shop.log, 3, "--from-size", heads[0].size).value
    path = [bytes.fromhex(node) for node in value["inclusion"]]
    consistency = [bytes.fromhex(node) for node in value["consistency"]]
    shop.done("log", "export", shop.log, shop.path("out"), "--first", 3)
    entry = shop.path("out").joinpath("3.cose").read_bytes()
    root = heads[-1].root
    verify_inclusion(leaf_hash(entry), 3, value["size"], path, root)
    assert bytes.fromhex(value["from_root"]) == heads[0].root
    verify_consistency(heads[0].size, heads[0].root, value["size"], root, consistency)
    earlier = shop.done("log", "prove", shop.log, 1, "--size", heads[0].size).value
    assert bytes.fromhex(earlier["root"]) == heads[0].root
    assert shop("log", "prove", shop.log, 6).exit_code == 2
    assert shop("log", "prove", shop.log, 1, "--size", 7).exit_code == 2


def test_a_check_says_what_it_read_and_what_it_did_not(shop):
    with shop.start() as log:
        for _ in range(3):
            log.append(admission(), admits=True)
    trust = shop.trust(keys={"attest": "attest"})
    words = ("log", "check", shop.log, "--anchor", shop.anchor, "--trust", trust)
    value = shop.done(*words).value
    assert (value["entries"], value["signatures"], value["open_admissions"]) == (5, 1, 3)
    value = shop.done(*words, "--all-signatures").value
    assert value["signatures"] == value["entries"] + value["checkpoints"]
    result = shop("log", "check", shop.log)
    assert result.exit_code == 3
    assert "signatures" in result.value["missing"][0]
    shop.key("other", "attest")
    other = shop.trust(keys={"other": "attest"})
    assert shop("log", "check", shop.log, "--trust", other).exit_code == 3


def test_a_check_names_the_first_bad_entry(shop):
    with shop.start() as log:
        log.append(admission(), admits=True)
        offset = log.files.last.growth.offsets[2] + 50
        for _ in range(3):
            log.append(admission(), admits=True)
    path = next(shop.log.glob("*.log"))
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    result = shop("log", "check", shop.log)
    assert (result.exit_code, result.reason) == (1, "corrupted")
    assert f"{path}: " in result.err
    assert "(entry 2)" in result.err


def test_a_log_behind_its_anchor_is_refused(shop):
    path = next(shop.log.glob("*.log"))
    kept = path.read_bytes()
    shop.append(2)
    path.write_bytes(kept)
    result = shop("log", "check", shop.log, "--anchor", shop.anchor)
    assert (result.exit_code, result.reason) == (1, "older-than-anchor")


def test_an_export_is_checked_without_the_log(shop):
    heads = shop.append(5)
    out = shop.path("out")
    shop.done(
        "log", "export", shop.log, out, "--first", 2, "--count", 4, "--from-size", heads[1].size
    )
    trust = shop.trust(keys={"attest": "attest"})
    value = shop.done("log", "check", out, "--trust", trust).value
    assert (value["first"], value["count"], value["from_size"]) == (2, 4, heads[1].size)
    assert value["from_root"] == heads[1].root.hex()
    assert shop("log", "check", out).exit_code == 3
    entry = out / "4.cose"
    data = entry.read_bytes()
    entry.write_bytes(altered.last_byte(data))
    assert shop("log", "check", out, "--trust", trust).exit_code == 1
    assert shop("log", "export", shop.log, out, "--first", 2).exit_code == 2
    assert shop("log", "export", shop.log, shop.path("no"), "--first", 99).exit_code == 2


def test_a_log_replaces_another_also_a_damaged_one(shop):
    heads = shop.append(3)
    new = shop.path("new")
    words = ("log", "new", new, "--key", shop.path("attest.pem"), "--issuer", "tests")
    words = (*words, "--anchor", shop.anchor)
    result = shop(*words)
    assert (result.exit_code, result.reason) == (1, "other-log")
    assert shop(*words, "--replaces", shop.log).exit_code == 2
    assert shop(*words, "--replaces", shop.log, "--reason", "\n").exit_code == 2
    next(shop.log.glob("*.log")).write_bytes(b"damaged")
    value = shop.done(*words, "--replaces", shop.log, "--reason", "the disk is damaged").value
    assert value["replaced_log_id"] == shop.made.value["log_id"]
    assert value["replaced_size"] == heads[-1].size
    assert value["log_id"] != value["replaced_log_id"]
    assert shop("log", "head", shop.log).exit_code == 1
    assert shop(*words, "--replaces", new, "--reason", "again").exit_code == 2  # there is one


def test_a_person_reads_lines(shop, capsys):
    from appliance.cli.main import run

    shop.append(1)
    assert run(["log", "head", str(shop.log)]) == 0
    assert run(["log", "check", str(shop.log)]) == 3
    text = capsys.readouterr()
    assert shop.made.value["log_id"] in text.out
    assert "incomplete" in text.err
    assert not text.out.strip().startswith("{")


def test_where_there_is_no_log(shop):
    assert shop("log", "head", shop.path("nothing")).exit_code == 2
    assert shop("log", "check", shop.path("nothing")).exit_code == 2


def test_the_line_for_a_trust_file_pins_the_log(shop, capsys):
    from appliance.cli.main import run

    words = ["log", "new", shop.path("other"), "--key", shop.path("attest.pem")]
    words += ["--issuer", "tests", "--anchor", shop.path("other anchor")]
    assert run([str(word) for word in words]) == 0
    lines = capsys.readouterr().out.split("\n[logs.")[1].replace("NAME]", "[logs.mine]")
    trust = shop.trust(lines, keys={"attest": "attest"})
    found = shop.done("trust", trust).value["logs"]
    assert [log["name"] for log in found] == ["mine"]
    assert json.dumps(found)
