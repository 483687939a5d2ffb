"""The signatures over a model, verified and put together by what they say.

Source: engine/vqf/FORMAT.md section 7; the reasons stand in crypto/README.md, section "Trust
policy".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crypto.cose import Sign1
from crypto.errors import InvalidSignatureError, PolicyError
from crypto.release import RELEASE_TYPE, Release
from crypto.trust import TrustFile


@dataclass(frozen=True, slots=True)
class Candidate:
    """A payload, the keys whose signatures over it verified, and the keys that nobody trusts.

    Attributes:
        payload: the bytes that were signed.
        release: what they state.
        verified_ids: ids of `weights` keys of the trust file, each with a good signature.
        unknown_ids: ids of other keys; their signatures were not looked at.
    """

    payload: bytes
    release: Release
    verified_ids: frozenset[bytes]
    unknown_ids: frozenset[bytes]


def verify_signatures(
    trust: TrustFile, model_digest: bytes, signatures: Sequence[tuple[Sign1, Release]]
) -> tuple[Candidate, ...]:
    """Verify the signatures by keys that the trust file knows: the slow part of `judge`.

    Returns:
        One candidate for each payload, in the order of their bytes.

    Raises:
        PolicyError: `wrong-type`, `wrong-model`, `bad-signature`.
        ValueError: a release is not that of its payload.
    """
    for signed, release in signatures:
        if signed.typ != RELEASE_TYPE:
            raise PolicyError("wrong-type", "a signature is over an object of another type")
        if release.encode() != signed.payload:
            raise ValueError("a release is not the one that its payload states")
    if any(release.model_digest != model_digest for _, release in signatures):
        raise PolicyError("wrong-model", "a signature is over another model")
    releases = {signed.payload: release for signed, release in signatures}
    verified: dict[bytes, set[bytes]] = {payload: set() for payload in releases}
    unknown: dict[bytes, set[bytes]] = {payload: set() for payload in releases}
    for signed, _ in signatures:
        key = trust.key(signed.key_id, "weights")
        if key is None:
            unknown[signed.payload].add(signed.key_id)
            continue
        try:
            signed.verify(key.public_key, typ=RELEASE_TYPE)
        except InvalidSignatureError:
            raise PolicyError(
                "bad-signature", f"a signature in the name of key {key.name} did not verify"
            ) from None
        verified[signed.payload].add(signed.key_id)
    return tuple(
        Candidate(payload, releases[payload], frozenset(verified[payload]), frozenset(ids))
        for payload, ids in sorted(unknown.items())
    )
