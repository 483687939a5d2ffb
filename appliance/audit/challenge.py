"""A challenge: 32 bytes that an auditor draws once, for one statement that he holds in a log.

It is kept under the name of the statement, so that whoever draws again finds the first.

Source: verifier/SPEC.md section 8.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.audit.claimed import Claimed
from crypto.atomic import AtomicFile
from crypto.cbor import encode
from crypto.cbor_map import CborMap
from crypto.errors import FormatError
from crypto.sm3 import DIGEST_BYTES
from engine.audit.challenge import MAX_UNITS

VERSION: Final = 1
MAX_CHALLENGE_BYTES: Final = 256
_KEYS: Final = frozenset({"version", "statement", "challenge", "count"})


@dataclass(frozen=True, slots=True)
class Challenge:
    """What an auditor keeps between drawing and auditing.

    statement: SM3 of the signed object. drawn: 32 random bytes. count: how many units.
    """

    statement: bytes
    drawn: bytes
    count: int

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return encode(
            {
                "version": VERSION,
                "statement": self.statement,
                "challenge": self.drawn,
                "count": self.count,
            }
        )


def decode_challenge(unverified_data: bytes) -> Challenge:
    """Return the challenge of a file.

    Raises:
        FormatError: a rule of the CBOR subset or of objects (crypto/README.md).
    """
    entries = CborMap(unverified_data, _KEYS, max_bytes=MAX_CHALLENGE_BYTES)
    entries.integer("version", VERSION, VERSION)
    return Challenge(
        entries.octets("statement", DIGEST_BYTES, DIGEST_BYTES),
        entries.octets("challenge", DIGEST_BYTES, DIGEST_BYTES),
        entries.integer("count", 1, MAX_UNITS),
    )


def kept_challenge(folder: Path, claimed: Claimed) -> Challenge | None:
    """Return the challenge that was drawn for a statement, None if there was none.

    Raises:
        OSError: it cannot be read.
        FormatError: it is malformed, or for another statement (`challenge-statement`).
    """
    path = _path(folder, claimed)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_CHALLENGE_BYTES + 1)
    except FileNotFoundError:
        return None
    try:
        challenge = decode_challenge(data)
        if challenge.statement != claimed.statement_digest:
            raise FormatError(0, "challenge-statement")
    except FormatError as error:
        error.add_note(str(path))
        raise
    return challenge


def draw_challenge(folder: Path, claimed: Claimed, count: int) -> Challenge:
    """Draw for a statement that has no challenge yet, and keep it.

    Args:
        folder: made, for its owner alone, if it is not there.
        claimed: the bundle.
        count: how many units, 1 .. 1024.

    Raises:
        OSError: the folder cannot be made.
        WriteError: a challenge is there, or it cannot be written.
    """
    challenge = Challenge(claimed.statement_digest, secrets.token_bytes(DIGEST_BYTES), count)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with AtomicFile(_path(folder, claimed), force=False, mode=0o600) as file:
        file.create()
        file.write_at(0, challenge.encode())
        file.commit()
    return challenge


def _path(folder: Path, claimed: Claimed) -> Path:
    return folder / f"{claimed.statement_digest.hex()}.challenge"
