"""The packet filter: nft accepts it, the kernel drops what it has to, every rule is missed."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.firmware.packets import NO_NETWORKS
from tests.firmware.tools import FIRMWARE, run, said, statements, text_of, without

RULES = [
    line
    for line in dict.fromkeys(statements("nftables/nftables.conf"))
    if not line.strip().endswith(("{", "}")) or " accept" in line
]

# What has to be there, and how often: for both families, or in both directions.
REQUIRED = {
    "flush ruleset": 1,
    "type filter hook input priority filter; policy drop;": 1,
    "type filter hook forward priority filter; policy drop;": 1,
    "type filter hook output priority filter; policy drop;": 1,
    "iif lo accept": 1,
    "oif lo accept": 1,
    "ct state invalid drop": 2,
    "ct state established,related accept": 2,
    "icmp type echo-request limit rate 10/second accept": 1,
    "icmpv6 type echo-request limit rate 10/second accept": 1,
    "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept": 2,
    "ip saddr @clients4 tcp dport 443 ct state new accept": 1,
    "ip6 saddr @clients6 tcp dport 443 ct state new accept": 1,
    "ip saddr @clients4 tcp dport 443 ct state new add @busy4 "
    "{ ip saddr limit rate over 50/second burst 200 packets } drop": 1,
    "ip6 saddr @clients6 tcp dport 443 ct state new add @busy6 "
    "{ ip6 saddr limit rate over 50/second burst 200 packets } drop": 1,
    "ip daddr @time4 udp dport 123 accept": 1,
    "ip6 daddr @time6 udp dport 123 accept": 1,
    'limit rate 6/minute burst 10 packets log prefix "windhover dropped in: " level info': 1,
    'limit rate 6/minute burst 10 packets log prefix "windhover dropped out: " level info': 1,
    "counter drop": 2,
    "flags interval": 4,
    "flags dynamic, timeout": 2,
    "timeout 1m": 2,
    "size 65536": 2,
    "type ipv4_addr": 3,
    "type ipv6_addr": 3,
    'include "/etc/nftables.d/*.nft"': 1,
}


def missing(text: str) -> list[str]:
    """Return rules that do not stand as often as they have to."""
    found = [line.strip() for line in text.splitlines()]
    return [rule for rule, count in REQUIRED.items() if found.count(rule) != count]


def refused(folder: Path, text: str) -> list[str]:
    """Return what nft has against a file; it needs a network of its own, not this machine's."""
    path = folder / "nftables.conf"
    path.write_text(text)
    if os.geteuid() != 0:
        pytest.skip("nft asks the kernel, which answers root alone")
    return said(run("unshare", "--net", "nft", "-c", "-f", path))


def test_nft_accepts_it(tmp_path: Path) -> None:
    text = text_of("nftables/nftables.conf")
    assert refused(tmp_path, text) == []
    assert missing(text) == []
    assert refused(tmp_path, text.replace("policy drop", "policy droop")) != []


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_dropped_is_missed(rule: str) -> None:
    assert missing(without("nftables/nftables.conf", rule)) != []


def test_nothing_is_accepted_but_what_is_listed() -> None:
    accepted = [line.strip() for line in RULES if re.search(r"\baccept$", line)]
    assert set(accepted) <= REQUIRED.keys()


def test_the_kernel_drops_what_it_has_to() -> None:
    if os.geteuid() != 0:
        pytest.skip("networks of its own are for root")
    program = Path(__file__).with_name("packets.py")
    rules = FIRMWARE / "nftables" / "nftables.conf"
    result = run("unshare", "--net", "--mount", sys.executable, program, rules)
    if result.returncode == NO_NETWORKS:
        pytest.skip(f"this kernel makes no networks to test with: {result.stderr.strip()}")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {
        "a client reaches nginx": True,
        "a stranger reaches nginx": False,
        "a client reaches another port": False,
        "the machine reaches itself": True,
        "the machine reaches a client": False,
    }
