"""What clients hold of an appliance, and whether it still stands by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crypto.cose import decode_sign1
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.keys import load_public_key
from crypto.merkle import verify_consistency
from crypto.statement import STATEMENT_TYPE, Statement, decode_statement
from tests.boot.client import Answer, Stream
from tests.boot.site import Site

QUESTION = "Why is the sky blue? " * 8
MAX_TOKENS = 60

MOMENTS: dict[str, Callable[[Stream], bool]] = {
    "with the head of the answer, before a token": lambda s: s.name is not None,
    "after the first token": lambda s: s.num_tokens >= 1,
    "with the attestation, before the end of the stream": lambda s: s.has_attestation,
    "when the request is sent": lambda _: True,
    "after eight tokens": lambda s: s.num_tokens >= 8,
    "after sixteen tokens": lambda s: s.num_tokens >= 16,
}
"""When the power is cut; all but the third leave a request that was admitted at most."""


class Held:
    """Statements and heads of the log that clients received, over all starts of one appliance.

    lost: names of streams that a cut left open. count: how many statements are held.
    """

    def __init__(self, site: Site) -> None:
        """Hold nothing yet."""
        self._site = site
        self._signed: dict[str, bytes] = {}
        self._open: dict[str, Stream] = {}
        self._heads: list[dict[str, Any]] = []
        self.lost: list[str] = []

    @property
    def count(self) -> int:
        """How many statements are held."""
        return len(self._signed)

    def ask(self) -> Answer:
        """Ask, and keep what came: the statement of the answer, and a head of the log."""
        client = self._site.client
        answer = client.ask("Why is the sky blue?", max_tokens=4)
        self._signed[answer.name] = client.statement(answer.name)
        self._heads.append(client.checkpoint())
        return answer

    def cut_during_a_stream(self, moment: str, coin: bytes | None) -> str:
        """Ask for a stream and cut the power at a moment; return what came of it, in words."""
        found: list[tuple[int, int]] = []

        def watch(stream: Stream) -> None:
            if not found and MOMENTS[moment](stream):
                found.append(self._site.cut(coin))

        stream = self._site.client.stream(QUESTION, watch, max_tokens=MAX_TOKENS, seed=11)
        assert found, f"the stream ended before: {stream.events[-2:]}"
        # what was on its way arrives after the cut, too
        assert stream.has_attestation or not stream.is_whole
        if stream.name is not None:
            self._open[stream.name] = stream
        unflushed, kept = found[0]
        return f"{stream.num_tokens} tokens had come; {unflushed} blocks not flushed, {kept} stayed"

    def check(self) -> str:
        """Ask a new start for everything that is held; return what became of cut streams."""
        client = self._site.client
        for name, signed in self._signed.items():
            assert client.statement(name) == signed, name
        for head in self._heads:
            proof = client.consistency(head["size"])
            assert proof["first_root"] == head["root"]
            verify_consistency(
                head["size"], bytes.fromhex(head["root"]), proof["second"],
                bytes.fromhex(proof["second_root"]), [*map(bytes.fromhex, proof["consistency"])],
            )  # fmt: skip
        outcomes = []
        for name, stream in self._open.items():
            signed = client.statement(name)
            said = statement_of(self._site, signed)
            assert said.nonce is not None
            assert said.nonce.hex() == stream.nonce
            # the client that has the attestation has an answer, whatever it missed of the stream
            expected = {"answered"} if stream.has_attestation else {"lost", "answered"}
            assert said.outcome in expected, said
            if said.outcome == "lost":
                assert (said.finish_reason, said.output_tokens) == ("none", 0)
                self.lost.append(name)
            self._signed[name] = signed
            outcomes.append(said.outcome)
        self._open.clear()
        return ", ".join(outcomes) or "not admitted, as far as the client knows"


def statement_of(site: Site, signed: bytes) -> Statement:
    """Verify a statement with the exported key, and return it."""
    found = decode_sign1(signed, max_bytes=MAX_OBJECT_BYTES)
    key = load_public_key(site.exported / "attest.pub.pem", role="attest")
    found.verify(key, typ=STATEMENT_TYPE)
    return decode_statement(found.payload)
