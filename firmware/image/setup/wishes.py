"""`setup.toml`: what the operator wishes; a field that is not known or not right is refused."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fault import SetupError

MAX_BYTES: Final = 65536
KEYS: Final = ("auto", "tpm", "disk")
CERTIFICATES: Final = ("none", "optional", "required")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:-]{0,63}")
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_INTERFACE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_*-]{0,14}")
_DEVICE: Final = re.compile(r"/dev/[A-Za-z0-9_./:+-]{1,120}")


@dataclass(frozen=True)
class Network:
    """Addresses of one interface. addresses: with their prefix. gateway: empty without one."""

    interface: str
    addresses: tuple[str, ...]
    gateway: str


@dataclass(frozen=True)
class Wishes:
    """What setup.toml says; the fields are explained in firmware/README.md."""

    format_data: bool
    data_disk: str
    issuer: str
    model: str
    hosts: tuple[str, ...]
    clients: tuple[str, ...]
    time_servers: tuple[str, ...]
    client_certificates: str
    keys: str
    network: Network | None


def parse(data: bytes) -> Wishes:
    """Read setup.toml.

    Raises:
        SetupError: it is no TOML, a field is missing, not known, or not what it has to be.
    """
    if len(data) > MAX_BYTES:
        raise SetupError(f"setup.toml is longer than {MAX_BYTES} bytes")
    try:
        table = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SetupError(f"setup.toml: {error}") from error
    fields = _Fields(table, "")
    if fields.take("version", int, None) != 1:
        raise SetupError("setup.toml: version is not 1")
    made = Wishes(
        format_data=fields.take("format_data", bool, False),
        data_disk=fields.text("data_disk", _DEVICE, ""),
        issuer=fields.text("issuer", _NAME, None),
        model=fields.text("model", _NAME, None),
        hosts=fields.texts("hosts", _host),
        clients=fields.texts("clients", _range, optional=True),
        time_servers=fields.texts("time_servers", _address, optional=True),
        client_certificates=fields.choice("client_certificates", CERTIFICATES),
        keys=fields.choice("keys", KEYS),
        network=_network(fields.take("network", dict, {})),
    )
    fields.finish()
    if not made.hosts:
        raise SetupError("setup.toml: hosts is empty")
    return made


def _network(table: dict[str, Any]) -> Network | None:
    if not table:
        return None
    fields = _Fields(table, "network.")
    made = Network(
        interface=fields.text("interface", _INTERFACE, None),
        addresses=fields.texts("addresses", _interface_address),
        gateway="".join(fields.texts("gateway", _address, optional=True, single=True)),
    )
    fields.finish()
    return made


class _Fields:
    """The fields of a table, taken one by one; what is left at the end is not known."""

    def __init__(self, table: dict[str, Any], prefix: str) -> None:
        self._left = dict(table)
        self._prefix = prefix

    def take(self, name: str, kind: type, default: Any) -> Any:  # noqa: ANN401
        value = self._left.pop(name, default)
        # True is an int to Python, and no number to an operator
        if type(value) is not kind:
            what = "is missing" if value is None else f"is not of type {kind.__name__}"
            raise SetupError(f"setup.toml: {self._prefix}{name} {what}")
        return value

    def text(self, name: str, form: re.Pattern[str], default: str | None) -> str:
        value: str = self.take(name, str, default)
        if value != default and (not form.fullmatch(value) or ".." in value):
            raise SetupError(f"setup.toml: {self._prefix}{name} is not what it has to be")
        return value

    def choice(self, name: str, values: tuple[str, ...]) -> str:
        value: str = self.take(name, str, values[0])
        if value not in values:
            raise SetupError(f"setup.toml: {self._prefix}{name} is none of {', '.join(values)}")
        return value

    def texts(
        self,
        name: str,
        check: Callable[[object], str],
        *,
        optional: bool = False,
        single: bool = False,
    ) -> tuple[str, ...]:
        if single:
            values = [self.take(name, str, "")] if self._left.get(name) else []
            self._left.pop(name, None)
        else:
            values = self.take(name, list, [] if optional else None)
        try:
            return tuple(check(value) for value in values)
        except (ValueError, TypeError, AttributeError) as error:
            raise SetupError(f"setup.toml: {self._prefix}{name}: {error}") from error

    def finish(self) -> None:
        if self._left:
            name = sorted(self._left)[0]
            raise SetupError(f"setup.toml: {self._prefix}{name} is not known")


def _host(value: object) -> str:
    if not isinstance(value, str) or not (_HOST.fullmatch(value) or _is_address(value)):
        raise ValueError(f"{value!r} is no name of a host")
    return value


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def _address(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return str(ipaddress.ip_address(value))


def _range(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return str(ipaddress.ip_network(value))


def _interface_address(value: object) -> str:
    if not isinstance(value, str) or "/" not in value:
        raise ValueError(f"{value!r} has no prefix, such as 10.0.2.15/24")
    return str(ipaddress.ip_interface(value))
