"""The two shared libraries that carry Lattigo, found by path and called through ctypes.

`orion-v2-lattigo` has keys, encryption and decryption; `orion-v2-evaluator` computes on ciphertexts
with evaluation keys, and has no function that takes a secret key. Neither package is imported, only
their libraries are loaded, and only in a worker process: some failures inside Lattigo end it.

Source: the C headers in the two packages; both are under the MIT licence, Lattigo under Apache-2.0.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import mmap
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from he_chain.errors import BackendError


class Package(NamedTuple):
    """A distribution that carries a shared library."""

    distribution: str
    version: str
    """The one whose functions these are: another may have others."""
    module: str
    file: str


KEYS: Final = Package("orion-v2-lattigo", "6.2.4", "lattigo", "orionclient-linux-amd64.so")
GRAPHS: Final = Package(
    "orion-v2-evaluator", "2.1.8", "orion_evaluator", "orion-evaluator-linux-amd64.so"
)


def find_library(package: Package) -> Path:
    """Return the path of a package's library, without importing or loading anything of it.

    Raises:
        BackendError: it is not installed, is of another version, or not for this machine.
    """
    wanted = f"{package.distribution}=={package.version}"
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise BackendError(f"{wanted}: this project uses its library for x86-64 Linux only")
    try:
        version = importlib.metadata.version(package.distribution)
    except importlib.metadata.PackageNotFoundError:
        raise BackendError(f"{wanted} is not installed: windhover[he-boot] brings it") from None
    if version != package.version:
        raise BackendError(f"{package.distribution} is {version}; this project calls {wanted}")
    spec = importlib.util.find_spec(package.module)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        if (path := Path(folder) / package.file).is_file():
            return path
    raise BackendError(f"{wanted} is installed without {package.file}")


class Library:
    """A loaded library; every function that fails raises what it says."""

    def __init__(self, package: Package) -> None:
        """Load it.

        Raises:
            BackendError: as of `find_library`, or the system's loader refuses it.
        """
        path = find_library(package)
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise BackendError(f"{package.file} cannot be loaded: {error}") from None
        self._library.FreeCArray.argtypes = [ctypes.c_void_p]
        self._library.FreeCArray.restype = None
        self._library.DeleteHandle.argtypes = [ctypes.c_size_t]
        self._library.DeleteHandle.restype = None

    def call(self, name: str, *arguments: Any, result: Any = ctypes.c_size_t) -> Any:  # noqa: ANN401
        """Call a function whose last argument takes an error's text.

        Args:
            name: of the function.
            arguments: ctypes values.
            result: its type; a handle unless said otherwise.

        Raises:
            BackendError: it reported an error.
        """
        function = getattr(self._library, name)
        function.restype = result
        said = ctypes.c_char_p(None)
        value = function(*arguments, ctypes.byref(said))
        if said.value:
            text = said.value.decode("utf-8", "replace")
            self.free(ctypes.cast(said, ctypes.c_void_p))
            raise BackendError(f"Lattigo: {text}")
        return value

    def free(self, pointer: Any) -> None:  # noqa: ANN401
        """Give an array back that the library made."""
        self._library.FreeCArray(pointer)

    def delete(self, handle: int) -> None:
        """Forget an object."""
        self._library.DeleteHandle(handle)

    def close_model(self, handle: int) -> None:
        """Give a program's memory back and forget it."""
        self._library.EvalModelClose.argtypes = [ctypes.c_size_t]
        self._library.EvalModelClose.restype = None
        self._library.EvalModelClose(handle)
        self.delete(handle)

    def marshal(self, name: str, handle: int) -> bytes:
        """Return an object's bytes."""
        size = ctypes.c_ulong(0)
        pointer = self.call(
            name, ctypes.c_size_t(handle), ctypes.byref(size), result=ctypes.c_void_p
        )
        try:
            return bytes(_view(pointer, size.value))
        finally:
            self.free(pointer)

    def marshal_to(self, name: str, handle: int, path: Path) -> int:
        """Write an object's bytes to a new file and return how many: gigabytes, never copied here.

        Raises:
            BackendError: as of `call`; the file exists or cannot be written.
        """
        size = ctypes.c_ulong(0)
        pointer = self.call(
            name, ctypes.c_size_t(handle), ctypes.byref(size), result=ctypes.c_void_p
        )
        try:
            with path.open("xb") as file:
                file.write(_view(pointer, size.value))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BackendError(f"{path.name}: {error.strerror}") from None
        finally:
            self.free(pointer)
        return size.value

    def unmarshal(self, name: str, data: bytes) -> int:
        """Return the handle of an object made from its bytes."""
        handle: int = self.call(name, ctypes.c_char_p(data), ctypes.c_ulong(len(data)))
        return handle

    def integers(self, name: str, handle: int) -> tuple[int, ...]:
        """Call a function that returns 64-bit numbers."""
        count = ctypes.c_int(0)
        kind = ctypes.POINTER(ctypes.c_ulonglong)
        pointer = self.call(name, ctypes.c_size_t(handle), ctypes.byref(count), result=kind)
        values = tuple(int(pointer[index]) for index in range(count.value))
        self.free(ctypes.cast(pointer, ctypes.c_void_p))
        return values

    def doubles(self, name: str, *arguments: object) -> NDArray[np.float64]:
        """Call a function that returns binary64 numbers, its number the last but one argument."""
        count = ctypes.c_int(0)
        pointer = self.call(name, *arguments, ctypes.byref(count), result=ctypes.c_void_p)
        try:
            return np.frombuffer(_view(pointer, count.value * 8), np.float64).copy()
        finally:
            self.free(pointer)


class MappedFile:
    """A file in memory, as a pointer that a library reads from; a context manager."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        """Map it.

        Raises:
            BackendError: it cannot be read, is empty, or larger than it may be.
        """
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if not 0 < size <= max_bytes:
                    raise BackendError(f"{path.name} has {size} bytes: 1 to {max_bytes} allowed")
                # a private mapping is writable, which is what a pointer can be taken of
                self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise BackendError(f"{path.name}: {error.strerror}") from None
        self._anchor = ctypes.c_char.from_buffer(self._map)
        self.pointer = ctypes.c_void_p(ctypes.addressof(self._anchor))
        self.size = ctypes.c_ulong(size)

    def __enter__(self) -> MappedFile:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Unmap it; the pointer is of no use then."""
        del self._anchor
        self._map.close()


def int_array(values: Sequence[int]) -> tuple[Any, Any]:
    """Return numbers as a C array of int and its length."""
    return (ctypes.c_int * len(values))(*values), ctypes.c_int(len(values))


def _view(pointer: int, size: int) -> memoryview:
    return memoryview((ctypes.c_ubyte * size).from_address(pointer)).cast("B")
