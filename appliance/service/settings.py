"""The configuration of the service: one TOML file, every field of it checked before anything runs.

A field that is not known is refused, and every refusal names file, field and what to write. What
the fields are for stands in their rules, from which CONFIGURATION.md is made.

Source: TOML 1.0.0.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

from appliance.service.fields import Choice, FieldError, Rule, setting, shown
from appliance.service.sections import (
    UNIX,
    AttestSettings,
    AuthSettings,
    DevSettings,
    LimitSettings,
    LogSettings,
    ModelSettings,
    ServerSettings,
    SoftwareSettings,
)
from engine.errors import ConfigError

MAX_FILE_BYTES: Final = 64 << 10
LOOPBACK: Final = frozenset({"127.0.0.1", "[::1]", "localhost"})

_LISTEN: Final = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9.-]{1,253}):([0-9]{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of it.

    Attributes:
        path: the file it was read from, for messages.
    """

    path: Path
    mode: str = setting(
        Choice(
            text="Whether the appliance is meant for use. `dev` is needed for what `[dev]` leaves "
            "out.",
            words=("production", "dev"),
        ),
        "production",
    )
    model: ModelSettings
    software: SoftwareSettings
    attest: AttestSettings
    server: ServerSettings
    limits: LimitSettings
    auth: AuthSettings
    log: LogSettings
    dev: DevSettings

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file.

        Raises:
            OSError: it cannot be read.
            ConfigError: something in it is wrong; the message names file, field and what to write.
        """
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
        return cls.parse(content, path=path)

    @classmethod
    def parse(cls, content: bytes, *, path: Path = Path("appliance.toml")) -> Self:
        """Return what a file says.

        Args:
            content: its bytes.
            path: where it lies; paths in it are relative to its folder.

        Raises:
            ConfigError: as `read`.
        """
        if len(content) > MAX_FILE_BYTES:
            raise ConfigError(f"{path}: longer than {MAX_FILE_BYTES} bytes")
        try:
            tables: dict[str, Any] = tomllib.loads(content.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: no UTF-8 at byte {error.start}") from None
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path}: no TOML: {error}") from None
        except RecursionError:
            raise ConfigError(f"{path}: no TOML: nested too deeply") from None
        reader = _Reader(path)
        settings = cls(path=path, **reader.sections(tables))
        settings.check()
        return settings

    @property
    def model_name(self) -> str:
        """The name of the model in requests and answers."""
        return self.model.name or self.model.file.stem

    @property
    def hosts(self) -> frozenset[str]:
        """The values of `Host` that are answered; of a loopback address with its port by default.

        Port 0 is no port of a client's: the server then fills in the real one.
        """
        server = self.server
        if server.hosts or server.is_unix:
            return frozenset(server.hosts)
        return loopback_hosts(server.address[1])

    def check(self) -> None:
        """Refuse fields that do not go together.

        Raises:
            ConfigError: as `read`.
        """
        self._check_listen()
        model, dev = self.model, self.dev
        if self.mode != "dev" and (dev.allow_unsigned or dev.allow_unlocked):
            self._refuse("dev", "only mode dev leaves anything out; write mode = \"dev\" above "
                         "the first table, or remove the table")  # fmt: skip
        if model.trust is None and not dev.allow_unsigned:
            self._refuse("model.trust", "write the path of the trust file that says whose weights "
                         "are accepted; `windhover trust` checks one")  # fmt: skip
        if dev.allow_unsigned and (model.trust or model.revocations or model.floors):
            self._refuse("dev.allow_unsigned", "goes with no trust, revocations or floors in "
                         "[model]; remove one or the other")  # fmt: skip
        if model.revocations is not None and model.trust is None:
            self._refuse("model.revocations", "needs model.trust beside it")
        if self.software.manifest is not None and model.trust is None:
            self._refuse("software.manifest", "needs model.trust, which says whose it may be")
        if model.unseal_key is not None and model.passphrase is not None:
            self._refuse("model.passphrase", "weights are opened with unseal_key or with "
                         "passphrase; remove one of them")  # fmt: skip
        if model.unseal_key_passphrase is not None and model.unseal_key is None:
            self._refuse("model.unseal_key_passphrase", "needs model.unseal_key beside it")
        if (model.kv_memory_mb == 0) != (model.kv_folder is None):
            self._refuse("model.kv_folder", "goes with model.kv_memory_mb: write both or none")
        if self.auth.certificates and not self.server.is_unix:
            self._refuse("auth.certificates", "a header of nginx is believed on a unix socket "
                         "only; write server.listen = \"unix:/path\"")  # fmt: skip
        if self.limits.queue_s > self.limits.request_s:
            self._refuse("limits.queue_s", "write at most the value of request_s")

    def _check_listen(self) -> None:
        server = self.server
        if server.is_unix:
            if not server.listen.removeprefix(UNIX).startswith("/"):
                self._refuse("server.listen", "write a whole path: unix:/run/windhover/http.sock")
            if not server.hosts:
                self._refuse("server.hosts", "write the names under which nginx is reached, such "
                             'as ["ai.example"]; a unix socket has none of its own')  # fmt: skip
            return
        match = _LISTEN.fullmatch(server.listen)
        if match is None or int(match[2]) > 0xFFFF:
            self._refuse("server.listen", 'write "127.0.0.1:8080", "[::1]:8080" or "unix:/path", '
                         f"not {shown(server.listen)}")  # fmt: skip
            return
        if match[1] not in LOOPBACK and not server.allow_remote:
            self._refuse("server.listen", f"{match[1]} can be reached by other machines, in the "
                         "clear; write a loopback address, or allow_remote = true")  # fmt: skip
        if match[1] not in LOOPBACK and not server.hosts:
            self._refuse("server.hosts", "write the names and ports that clients use, such as "
                         '["ai.example:8080"]')  # fmt: skip

    def _refuse(self, name: str, message: str) -> None:
        raise ConfigError(f"{self.path}: {name}: {message}")


SECTIONS: Final[dict[str, type[Any]]] = {
    "model": ModelSettings,
    "software": SoftwareSettings,
    "attest": AttestSettings,
    "server": ServerSettings,
    "limits": LimitSettings,
    "auth": AuthSettings,
    "log": LogSettings,
    "dev": DevSettings,
}
"""The tables of the file, in the order of CONFIGURATION.md."""


def loopback_hosts(port: int) -> frozenset[str]:
    """Return what clients of this machine write into `Host` for a port."""
    hosts = {f"{host}:{port}" for host in LOOPBACK}
    return frozenset(hosts | LOOPBACK if port == 80 else hosts)


def rules_of(section: type[Any]) -> dict[str, tuple[Rule, object]]:
    """Return rule and default of each field of a section; the default MISSING has to be written."""
    return {
        each.name: (each.metadata["rule"], each.default)
        for each in fields(section)
        if "rule" in each.metadata
    }


class _Reader:
    """Reads tables into sections, and names the file in every refusal."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def sections(self, tables: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of `Settings`."""
        top = {name: value for name, value in tables.items() if name not in SECTIONS}
        found = self._fields(Settings, "", top)
        for name, section in SECTIONS.items():
            table = tables.get(name, {})
            if not isinstance(table, dict):
                raise ConfigError(f"{self._path}: {name}: is a table; write [{name}]")
            found[name] = section(**self._fields(section, f"{name}.", table))
        return found

    def _fields(self, section: type[Any], before: str, table: dict[str, Any]) -> dict[str, Any]:
        rules = rules_of(section)
        for name in table:
            if name not in rules:
                known = ", ".join([*rules, *(f"[{title}]" for title in SECTIONS if not before)])
                message = f"no such field; there are {known}"
                raise ConfigError(f"{self._path}: {before}{shown(name)[1:-1]}: {message}")
        values = {}
        for name, (rule, default) in rules.items():
            if name in table:
                try:
                    values[name] = rule.read(table[name], self._path.parent)
                except FieldError as error:
                    raise ConfigError(f"{self._path}: {before}{name}: {error}") from None
            elif default is MISSING:
                message = f"is missing; write {rule.takes()}"
                if rule.example:
                    message += f", such as {name} = {rule.example}"
                raise ConfigError(f"{self._path}: {before}{name}: {message}")
        return values
