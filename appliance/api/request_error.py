"""Why a request is refused: the field that the client has to mend, and a code for programs."""

from __future__ import annotations

from typing import Final

from engine.errors import ConfigError

INVALID_JSON: Final = "invalid_json"
INVALID_VALUE: Final = "invalid_value"
UNSUPPORTED: Final = "unsupported_parameter"
TOO_LARGE: Final = "request_too_large"


class RequestError(ConfigError):
    """A body that is not answered.

    Attributes:
        param: the field, None where the whole is meant.
        code: one of the constants above.
        reason: the message without the field.
    """

    def __init__(self, param: str | None, message: str, *, code: str = INVALID_VALUE) -> None:
        """Keep the field that the client has to mend."""
        super().__init__(message if param is None else f"{param}: {message}")
        self.param = param
        self.code = code
        self.reason = message


def unsupported(param: str, message: str = "this field is not supported") -> RequestError:
    """Return the refusal of something that the interface knows and this appliance does not do."""
    return RequestError(param, message, code=UNSUPPORTED)
