"""Inside the key holder's worker process: the library that makes keys, encrypts and decrypts."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from he_chain.backends.lattigo_library import KEYS, Library, int_array
from he_chain.backends.lattigo_parameters import BOOT_FILE, SECRET_FILE, SWITCHING_FILE
from he_chain.backends.messages import Message
from he_chain.backends.worker_loop import Handler, peak_rss_bytes, usage
from he_chain.errors import BackendError, SecurityError

MAX_SECRET_BYTES: Final = 1 << 26


class HolderWorker:
    """Answers for the key holder; the secret key lives here and in its file."""

    def __init__(self) -> None:
        """Load the library."""
        self._library = Library(KEYS)
        self._handles: dict[str, int] = {}
        self._settings: Mapping[str, Any] = {}

    @property
    def handlers(self) -> dict[str, Handler]:
        """Requests by name."""
        return {
            "create": self.create,
            "open": self.open,
            "save": self.save,
            "evaluation_keys": self.evaluation_keys,
            "encrypt": self.encrypt,
            "decrypt": self.decrypt,
            "usage": usage,
        }

    def create(self, request: Message) -> Message:
        """Make a secret key from the system's randomness."""
        self._set(request.fields["parameters"])
        generator = ctypes.c_size_t(self._handles["generator"])
        return self._with_secret(self._library.call("KeyGenGenSecretKey", generator))

    def open(self, request: Message) -> Message:
        """Read the secret key of a folder."""
        self._set(request.fields["parameters"])
        data = read_secret(Path(request.fields["folder"]) / SECRET_FILE)
        return self._with_secret(self._library.unmarshal("SecretKeyUnmarshal", data))

    def save(self, request: Message) -> Message:
        """Write the secret key, readable by its owner only."""
        path = Path(request.fields["folder"]) / SECRET_FILE
        data = self._library.marshal("SecretKeyMarshal", self._handles["secret"])
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:  # noqa: PTH123 - of a descriptor
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BackendError(f"{path.name}: {error.strerror}") from None
        return Message("done", {"bytes": len(data)})

    def evaluation_keys(self, request: Message) -> Message:
        """Write the keys for rotations, products and bootstraps to the evaluator's folder."""
        library, settings = self._library, self._settings
        folder = Path(request.fields["folder"])
        parameters = ctypes.c_size_t(self._handles["parameters"])
        generator = ctypes.c_size_t(self._handles["generator"])
        secret = ctypes.c_size_t(self._handles["secret"])
        relin = library.call("KeyGenGenRelinKey", generator, secret)
        rotations = [
            library.call("KeyGenGenGaloisKey", generator, secret, ctypes.c_ulonglong(element))
            for element in request.fields["elements"]
        ]
        array = (ctypes.c_size_t * len(rotations))(*rotations)
        keys = library.call(
            "NewMemEvalKeySet", ctypes.c_size_t(relin), array, ctypes.c_int(len(rotations))
        )
        sizes = [library.marshal_to("MemEvalKeySetMarshal", keys, folder / SWITCHING_FILE)]
        for handle in (keys, relin, *rotations):
            library.delete(handle)
        if request.fields["log_slots"] is not None:
            boot = library.call(
                "NewBootstrapParams",
                parameters,
                ctypes.c_int(settings["btp_logn"]),
                *int_array(settings["boot_logp"]),
                ctypes.c_int(settings["h"]),
                ctypes.c_int(request.fields["log_slots"]),
            )
            other = ctypes.c_size_t(0)
            keys = library.call(
                "BootstrapParamsGenEvalKeys", ctypes.c_size_t(boot), secret, ctypes.byref(other)
            )
            library.delete(other.value)
            sizes.append(library.marshal_to("BootstrapEvalKeysMarshal", keys, folder / BOOT_FILE))
            library.delete(keys)
            library.delete(boot)
        return Message("done", {"sizes": sizes, "peak_rss_bytes": peak_rss_bytes()})

    def encrypt(self, request: Message) -> Message:
        """Encrypt float64[num_slots] under the public key."""
        library = self._library
        values = np.frombuffer(request.blobs[0], "<f8").copy()
        plain = library.call(
            "EncoderEncode",
            ctypes.c_size_t(self._handles["encoder"]),
            values.ctypes.data_as(ctypes.POINTER(ctypes.c_double)),
            ctypes.c_int(len(values)),
            ctypes.c_int(request.fields["level"]),
            ctypes.c_ulonglong(1 << self._settings["log_default_scale"]),
        )
        encryptor = ctypes.c_size_t(self._handles["encryptor"])
        cipher = library.call("EncryptorEncryptNew", encryptor, ctypes.c_size_t(plain))
        data = library.marshal("RLWECiphertextMarshal", cipher)
        library.delete(cipher)
        library.delete(plain)
        return Message("ciphertext", blobs=[data])

    def decrypt(self, request: Message) -> Message:
        """Return float64[num_slots] of a ciphertext whose structure the client has checked."""
        library = self._library
        cipher = library.unmarshal("RLWECiphertextUnmarshal", request.blobs[0])
        decryptor = ctypes.c_size_t(self._handles["decryptor"])
        plain = library.call("DecryptorDecryptNew", decryptor, ctypes.c_size_t(cipher))
        values = library.doubles(
            "EncoderDecode",
            ctypes.c_size_t(self._handles["encoder"]),
            ctypes.c_size_t(plain),
            ctypes.c_int(1 << (self._settings["logn"] - 1)),
        )
        library.delete(plain)
        library.delete(cipher)
        return Message("values", blobs=[values.astype("<f8").tobytes()])

    def _set(self, settings: Mapping[str, Any]) -> None:
        if self._handles:
            raise BackendError("this holder has its key already")
        self._settings = settings
        parameters = self._library.call(
            "NewCKKSParams",
            ctypes.c_int(settings["logn"]),
            *int_array(settings["logq"]),
            *int_array(settings["logp"]),
            ctypes.c_int(settings["log_default_scale"]),
            ctypes.c_int(settings["h"]),
            ctypes.c_char_p(settings["ring_type"].encode()),
            ctypes.c_int(0),
        )
        self._handles["parameters"] = parameters
        for name, function in (("generator", "NewKeyGenerator"), ("encoder", "NewEncoder")):
            self._handles[name] = self._library.call(function, ctypes.c_size_t(parameters))

    def _with_secret(self, secret: int) -> Message:
        parameters = ctypes.c_size_t(self._handles["parameters"])
        generator = ctypes.c_size_t(self._handles["generator"])
        self._handles["secret"] = secret
        public = self._library.call("KeyGenGenPublicKey", generator, ctypes.c_size_t(secret))
        self._handles["encryptor"] = self._library.call(
            "NewEncryptor", parameters, ctypes.c_size_t(public)
        )
        self._handles["decryptor"] = self._library.call(
            "NewDecryptor", parameters, ctypes.c_size_t(secret)
        )
        handle = self._handles["parameters"]
        primes = self._library.integers("CKKSParamsModuliChain", handle)
        special = self._library.integers("CKKSParamsAuxModuliChain", handle)
        return Message("ready", {"primes": list(primes), "special": list(special)})


def read_secret(path: Path) -> bytes:
    """Return the bytes of a secret key's file.

    Raises:
        SecurityError: others may read it.
        BackendError: it cannot be read, or is no such file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - of a descriptor
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= MAX_SECRET_BYTES:
                raise BackendError(f"{path.name} is no secret key")
            if status.st_mode & 0o077:
                raise SecurityError(f"{path.name} may be read by others than its owner")
            return file.read()
    except OSError as error:
        raise BackendError(f"{path.name}: {error.strerror}") from None
