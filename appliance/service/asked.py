"""A request as it arrived, for what answers it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.api.errors import refused

if TYPE_CHECKING:
    from appliance.service.access_log import AccessRecord
    from appliance.service.principals import Principal

ATTESTATION_HEADER: Final = "Windhover-Attestation"
NONCE_HEADER: Final = "Windhover-Nonce"

_NONCE: Final = re.compile(r"(?:[0-9A-Fa-f]{2}){16,64}")


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


def nonce_of(values: list[str]) -> bytes | None:
    """Return the nonce of the headers, None if there is none.

    Raises:
        ApiError: 400: it is no nonce, or there are several.
    """
    if not values:
        return None
    if len(values) > 1 or _NONCE.fullmatch(values[0]) is None:
        message = f"{NONCE_HEADER} takes 32 .. 128 hexadecimal digits, an even number, once"
        raise refused("invalid_value", message, NONCE_HEADER)
    return bytes.fromhex(values[0])
