"""A request as it arrived, for what answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from appliance.service.access_log import AccessRecord
    from appliance.service.principals import Principal

ATTESTATION_HEADER: Final = "Windhover-Attestation"
NONCE_HEADER: Final = "Windhover-Nonce"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it arrived.

    Attributes:
        path: the endpoint's.
        body: as it was received.
        principal: who asks.
        nonce: 16 .. 64 bytes, None if there was none.
        record: what is noted of it.
    """

    path: str
    body: bytes
    principal: Principal
    nonce: bytes | None = None
    record: AccessRecord | None = None
