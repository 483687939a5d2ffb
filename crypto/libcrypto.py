"""The system's libcrypto (OpenSSL 3 or 4), as far as SM2 needs it.

The library is loaded by its full path from a few standard folders, never by a search for its name,
which the environment could lead elsewhere. Nothing is called that is not declared here with the
types of its arguments.

Source: the manual pages of OpenSSL 3.0, section 3; CVE-2025-9231 for the versions refused.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from crypto.errors import UnavailableError

Version = tuple[int, int, int]

_FOLDERS: Final = ("/usr/lib/{machine}-linux-gnu", "/usr/lib64", "/usr/lib")
_NAMES: Final = ("libcrypto.so.4", "libcrypto.so.3")
_MAJOR_VERSIONS: Final = (3, 4)
_ARM64: Final = ("aarch64", "arm64")
_FIRST_WITHOUT_LEAK: Final = {(3, 2): 6, (3, 3): 5, (3, 4): 3, (3, 5): 4}
"""Patch level from which SM2 does not tell the private key by its timing on 64-bit Arm."""

_OPAQUE: Final = ctypes.c_void_p
_INT: Final = ctypes.c_int
_SIZE: Final = ctypes.c_size_t
_BYTES: Final = ctypes.c_char_p


class Parameter(ctypes.Structure):
    """OSSL_PARAM(3): a named value that is handed to a provider."""

    _fields_ = (
        ("key", ctypes.c_char_p),
        ("data_type", ctypes.c_uint),
        ("data", ctypes.c_void_p),
        ("data_size", ctypes.c_size_t),
        ("return_size", ctypes.c_size_t),
    )


PARAMETER_UNSIGNED: Final = 2
PARAMETER_TEXT: Final = 4
PARAMETER_BYTES: Final = 5
KEYPAIR: Final = 0x87
"""EVP_PKEY_KEYPAIR: parameters, public and private key."""

_PROTOTYPES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "ERR_clear_error": (None, ()),
    "RAND_add": (None, (_BYTES, _INT, ctypes.c_double)),
    "OBJ_sn2nid": (_INT, (_BYTES,)),
    # numbers, group, points
    "BN_bin2bn": (_OPAQUE, (_OPAQUE, _INT, _OPAQUE)),
    "BN_clear_free": (None, (_OPAQUE,)),
    "EC_GROUP_new_by_curve_name": (_OPAQUE, (_INT,)),
    "EC_GROUP_free": (None, (_OPAQUE,)),
    "EC_POINT_new": (_OPAQUE, (_OPAQUE,)),
    "EC_POINT_clear_free": (None, (_OPAQUE,)),
    "EC_POINT_mul": (_INT, (_OPAQUE,) * 6),
    "EC_POINT_point2oct": (_SIZE, (_OPAQUE, _OPAQUE, _INT, _BYTES, _SIZE, _OPAQUE)),
    # keys
    "EVP_PKEY_CTX_new_from_name": (_OPAQUE, (_OPAQUE, _BYTES, _BYTES)),
    "EVP_PKEY_CTX_new_from_pkey": (_OPAQUE, (_OPAQUE, _OPAQUE, _BYTES)),
    "EVP_PKEY_CTX_free": (None, (_OPAQUE,)),
    "EVP_PKEY_fromdata_init": (_INT, (_OPAQUE,)),
    "EVP_PKEY_fromdata": (
        _INT,
        (_OPAQUE, ctypes.POINTER(_OPAQUE), _INT, ctypes.POINTER(Parameter)),
    ),
    "EVP_PKEY_free": (None, (_OPAQUE,)),
    # signatures
    "EVP_sm3": (_OPAQUE, ()),
    "EVP_MD_CTX_new": (_OPAQUE, ()),
    "EVP_MD_CTX_free": (None, (_OPAQUE,)),
    "EVP_DigestSignInit": (
        _INT,
        (_OPAQUE, ctypes.POINTER(_OPAQUE), _OPAQUE, _OPAQUE, _OPAQUE),
    ),
    "EVP_PKEY_CTX_set1_id": (_INT, (_OPAQUE, _BYTES, _INT)),
    "EVP_DigestSign": (_INT, (_OPAQUE, _BYTES, ctypes.POINTER(_SIZE), _BYTES, _SIZE)),
    # decryption
    "EVP_PKEY_decrypt_init": (_INT, (_OPAQUE,)),
    "EVP_PKEY_decrypt": (_INT, (_OPAQUE, _OPAQUE, ctypes.POINTER(_SIZE), _BYTES, _SIZE)),
}
_VERSION_FUNCTIONS: Final = (
    "OPENSSL_version_major",
    "OPENSSL_version_minor",
    "OPENSSL_version_patch",
)


class CallFailedError(Exception):
    """A function of libcrypto said that it failed; its queue of errors is empty again."""


class LibCrypto:
    """A loaded libcrypto.

    Attributes:
        path: where it was loaded from.
        version: major, minor and patch number.
    """

    def __init__(self, path: Path, machine: str) -> None:
        """Load the library, check its version and declare its functions.

        Raises:
            UnavailableError: it cannot be loaded, lacks a function, or its version is refused.
        """
        self.path = path
        try:
            self._library = ctypes.CDLL(str(path))
            major, minor, patch = (
                self._declared(name, ctypes.c_uint, ())() for name in _VERSION_FUNCTIONS
            )
            self.version: Version = (major, minor, patch)
            reason = refusal(self.version, machine)
            if reason is not None:
                raise UnavailableError(f"{path}: {reason}")
            self._functions = {
                name: self._declared(name, *prototype) for name, prototype in _PROTOTYPES.items()
            }
        except (OSError, AttributeError) as error:
            raise UnavailableError(f"{path} cannot be used: {error}") from error

    def call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401  # as the prototype says
        """Call a function and return what it returns."""
        return self._functions[name](*arguments)

    def check(self, name: str, *arguments: object) -> None:
        """Call a function that returns 1 when all is well.

        Raises:
            CallFailedError: it returned something else.
        """
        if self.call(name, *arguments) != 1:
            raise self._failed(name)

    @contextmanager
    def new(self, name: str, *arguments: object, free: str) -> Iterator[int]:
        """Call a function that makes an object, lend it, and free it.

        Raises:
            CallFailedError: nothing was made.
        """
        made = self.call(name, *arguments)
        if not made:
            raise self._failed(name)
        try:
            yield made
        finally:
            self.call(free, made)

    def _failed(self, name: str) -> CallFailedError:
        """Empty the queue of errors, which the interpreter's ssl shares, and return the error."""
        self.call("ERR_clear_error")
        return CallFailedError(name)

    def _declared(
        self,
        name: str,
        result: Any,  # noqa: ANN401  # one of ctypes' types, or None
        arguments: tuple[Any, ...],
    ) -> Callable[..., Any]:
        """Return a function with its types."""
        function = getattr(self._library, name)
        function.restype = result
        function.argtypes = arguments
        return function  # type: ignore[no-any-return]  # ctypes knows no more


def refusal(version: Version, machine: str) -> str | None:
    """Return why a libcrypto of this version may not be used on this machine, None if it may.

    Args:
        version: major, minor and patch number.
        machine: the machine's name as `uname -m` says it.
    """
    major, minor, patch = version
    if major not in _MAJOR_VERSIONS:
        return f"version {major}.{minor}.{patch} is not one of OpenSSL 3 or 4"
    if machine in _ARM64 and patch < _FIRST_WITHOUT_LEAK.get((major, minor), 0):
        return f"version {major}.{minor}.{patch} leaks SM2 keys by its timing on {machine}"
    return None


def candidates(machine: str) -> list[Path]:
    """Return the full paths at which a libcrypto is looked for, best first."""
    folders = [Path(folder.format(machine=machine)) for folder in _FOLDERS]
    return [folder / name for name in _NAMES for folder in folders]


@cache
def load() -> LibCrypto:
    """Return the first libcrypto that can be used.

    Raises:
        UnavailableError: there is none; the line says why for each that was found.
    """
    machine = os.uname().machine
    reasons = []
    for path in candidates(machine):
        if path.exists():
            try:
                return LibCrypto(path, machine)
            except UnavailableError as error:
                reasons.append(str(error))
    raise UnavailableError("; ".join(reasons) or "there is no libcrypto in the standard folders")
