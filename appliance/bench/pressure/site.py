"""A copy of a site for a load test: the same weights and keys, with a log and API keys of its own.

Nothing of the site itself is written. Bounds of what is kept in memory are lower than by default,
so that they are reached within minutes and what still grows then is a leak.
"""

from __future__ import annotations

import json
import secrets
import shutil
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from appliance.log.anchor import FileAnchor
from appliance.log.create import create_log
from appliance.service.key_file import NewKey, new_key, write_keys
from appliance.service.preflight import read_attest_key
from appliance.service.principals import PRINCIPAL_BYTES, SCOPES, KeyLimits
from appliance.service.settings import SECTIONS, Settings, rules_of
from crypto.sm2 import PublicKey
from engine.errors import ConfigError

LIMITS: Final[dict[str, int]] = {
    "max_queued": 16,
    "requests_per_minute": 0,
    "bundle_store_bytes": 4 << 20,
    "idle_checkpoint_s": 60,
}
"""What the copy sets: a queue that 32 clients fill, and a store of bundles that is soon full."""

LIMITED: Final = KeyLimits(requests_per_minute=240, concurrent_requests=4)
"""The limits of one of the keys, so that some requests meet 429."""

SERVED_KEYS: Final = ("first", "second", "limited", "shared")


@dataclass(frozen=True, slots=True)
class Site:
    """The copy, and what only its maker knows.

    Attributes:
        config: its configuration.
        log: the folder of its log.
        anchor: of that log.
        keys: texts of the clients' keys.
        operator: the text of a key with every scope, which no client has.
        attest_key: what its statements are verified with.
        settings: what was set for the load, for the report.
    """

    config: Path
    log: Path
    anchor: Path
    keys: tuple[str, ...]
    operator: str
    attest_key: PublicKey
    settings: dict[str, object]


def copy_site(config: Path, folder: Path, *, context_tokens: int) -> Site:
    """Make a copy of a site.

    Args:
        config: the configuration of the site.
        folder: where the copy goes; new or empty.
        context_tokens: of the copy, or 0 as the site has it.

    Raises:
        ConfigError, KeyFileError, OSError: the site cannot be read, or the folder is not empty.
    """
    settings = Settings.read(config)
    folder = folder.resolve()
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty, and a copy of a site replaces nothing")
    folder.mkdir(parents=True, exist_ok=True)
    if settings.model.floors is not None and settings.model.floors.exists():
        shutil.copyfile(settings.model.floors, folder / "floors")
        (folder / "floors").chmod(0o600)
    with ExitStack() as stack:
        signer = read_attest_key(settings, stack)
        anchor = FileAnchor(folder / "anchor")
        create_log(folder / "log", signer=signer, issuer=settings.attest.issuer, anchor=anchor)
        attest_key = signer.public_key
    made = [_key(name) for name in SERVED_KEYS]
    operator = _key("operator")
    write_keys(
        folder / "api-keys.json", tuple(each.entry for each in (*made, operator)), force=False
    )
    ours: dict[str, dict[str, object]] = {
        "model": {"context_tokens": context_tokens or settings.model.context_tokens},
        "attest": {"log": folder / "log", "anchor": folder / "anchor", "archive": None},
        "server": {"listen": "127.0.0.1:0", "hosts": (), "unix_group": None},
        "limits": dict(LIMITS),
        "auth": {"keys": folder / "api-keys.json", "certificates": False},
        "log": {"file": folder / "access.jsonl"},
    }
    if settings.model.trust is not None:
        ours["model"]["floors"] = folder / "floors"
    path = folder / "appliance.toml"
    path.write_text(_toml(settings, ours), encoding="utf-8")
    changed = {
        f"{section}.{name}": value
        for section in ("model", "limits")
        for name, value in ours[section].items()
        if name != "floors"
    }
    return Site(
        config=path,
        log=folder / "log",
        anchor=folder / "anchor",
        keys=tuple(each.text for each in made),
        operator=operator.text,
        attest_key=attest_key,
        settings=changed | {"limited key": _given(LIMITED)},
    )


def _key(name: str) -> NewKey:
    facts: dict[str, Any] = {
        "principal": secrets.token_bytes(PRINCIPAL_BYTES),
        "name": name,
        "scopes": tuple(SCOPES) if name == "operator" else ("generate", "attestations", "models"),
        "created_s": int(time.time()),
    }
    if name == "limited":
        facts["limits"] = LIMITED
    return new_key(**facts, shared=name == "shared")


def _given(limits: KeyLimits) -> dict[str, int]:
    return {name: most for name, most in asdict(limits).items() if most is not None}


def _toml(settings: Settings, ours: dict[str, dict[str, object]]) -> str:
    """Return a configuration with whole paths, and with what is ours in place of the site's."""
    lines = [f"mode = {json.dumps(settings.mode)}"]
    for section, kind in SECTIONS.items():
        lines.append(f"[{section}]")
        table = getattr(settings, section)
        for name, (_, default) in rules_of(kind).items():
            value = ours.get(section, {}).get(name, getattr(table, name))
            if value is not None and value != default:
                lines.append(f"{name} = {_value(value)}")
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, Path):
        value = str(value.resolve())
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
