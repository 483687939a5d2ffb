"""What the units of the appliance have to say, beside what systemd itself rates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.firmware.tools import FIRMWARE, run

SERVICES = ("windhover.service", "windhover-check.service")

# What systemd rates as open and has to be: each with the reason that README.md gives.
OPEN = {
    "windhover.service": {
        "SystemCallFilter_resources",  # setpriority, of the process that verifies bundles
        "RootDirectoryOrRootImage",  # the image is the root
        "MemoryDenyWriteExecute",  # the service locks itself after its kernels are loaded
        "RestrictAddressFamilies_AF_UNIX",  # what it listens on
        "ProcSubset",  # /proc/cpuinfo says which kernels to load
        "DeviceAllow",  # what credentials sealed by a TPM and ProtectClock bring
    },
    "windhover-check.service": {
        "RootDirectoryOrRootImage",
        "MemoryDenyWriteExecute",
        "ProcSubset",
        "DeviceAllow",
    },
}

_SECURITY = ("security", "--offline=true", "--no-pager")
_SAME = {
    "User": "windhover",
    "Group": "windhover-socket",
    "UMask": "0077",
    "WorkingDirectory": "/",
    "LimitCORE": "0",
    "LimitNOFILE": "4096",
    "MemorySwapMax": "0",
    "AmbientCapabilities": "",
    "AppArmorProfile": "windhover",
    "ProtectProc": "invisible",
    "DevicePolicy": "closed",
    "InaccessiblePaths": "-/etc/nginx -/boot",
    "SystemCallErrorNumber": "EPERM",
    "RequiresMountsFor": "/var/lib/windhover /var/lib/windhover-anchor /srv/windhover",
    "After": "local-fs.target time-sync.target apparmor.service",
}

# What no rating knows of: the last value of each counts, as in systemd, unless it is a list.
REQUIRED: dict[str, dict[str, str]] = {
    "windhover.service": _SAME
    | {
        "Type": "exec",
        "ExecStart": "/usr/bin/windhover serve --config /etc/windhover/appliance.toml",
        "ExecReload": "/bin/kill -HUP $MAINPID",
        "Restart": "on-failure",
        "RestartSec": "10s",
        "TimeoutStopSec": "60s",
        "StartLimitIntervalSec": "1h",
        "StartLimitBurst": "5",
        "RuntimeDirectory": "windhover",
        "RuntimeDirectoryMode": "0750",
        "StateDirectory": "windhover windhover-anchor",
        "StateDirectoryMode": "0700",
        "CacheDirectory": "windhover",
        "CacheDirectoryMode": "0700",
        "LogsDirectory": "windhover",
        "LogsDirectoryMode": "0750",
        "LoadCredentialEncrypted": "unseal:/etc/windhover/credentials/unseal.cred "
        "attest:/etc/windhover/credentials/attest.cred",
        "LimitMEMLOCK": "infinity",
        "TasksMax": "256",
        "OOMScoreAdjust": "-500",
        "SystemCallFilter": "@system-service ~@privileged @resources setpriority",
        "WantedBy": "multi-user.target",
    },
    "windhover-check.service": _SAME
    | {
        "Type": "oneshot",
        "ExecStart": "/usr/bin/windhover log check /var/lib/windhover/log --anchor "
        "/var/lib/windhover-anchor/anchor --trust /etc/windhover/verifier.toml --all-signatures "
        "--json /usr/bin/windhover check /srv/windhover/model.vqf --trust "
        "/etc/windhover/trust.toml --floors /var/lib/windhover/floors --key "
        "/etc/windhover/unseal.pem --key-passphrase-file credential:unseal --json",
        "TimeoutStartSec": "6h",
        "Environment": "WINDHOVER_KERNEL_CACHE=/usr/lib/windhover/kernels "
        "WINDHOVER_KERNEL_CACHE_USE=read",
        "LoadCredentialEncrypted": "unseal:/etc/windhover/credentials/unseal.cred",
        "CPUSchedulingPolicy": "batch",
        "CPUWeight": "10",
        "IOSchedulingClass": "idle",
        "IOWeight": "10",
        "Nice": "19",
        "OOMScoreAdjust": "500",
        "TasksMax": "64",
        "SystemCallFilter": "@system-service ~@privileged @resources",
    },
}


def settings(text: str) -> dict[str, str]:
    """Return what a unit says; values of a name that stands several times are joined."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, is_setting, value = line.partition("=")
        if is_setting and not line.startswith("#"):
            found[name] = f"{found[name]} {value}" if found.get(name) else value
    return found


def checks_of(folder: Path, name: str, text: str) -> dict[str, Any]:
    """Return what systemd checks in a unit, by name; nothing of a unit that it refuses."""
    path = folder / name
    path.write_text(text)
    result = run("systemd-analyze", *_SECURITY, "--json=short", path)
    if result.returncode:
        return {}
    return {check["json_field"]: check for check in json.loads(result.stdout)}


def exposure(folder: Path, name: str, text: str) -> float:
    """Return systemd's overall rating of a unit, 0 to 10."""
    path = folder / name
    path.write_text(text)
    lines = run("systemd-analyze", *_SECURITY, path).stdout.splitlines()
    (overall,) = [line for line in lines if "Overall exposure level" in line]
    return float(overall.rpartition(":")[2].split()[0])


def problems(folder: Path, name: str, text: str) -> list[str]:
    """Return what is not as it has to be in a unit."""
    found = settings(text)
    wrong = [
        f"{key} is {found.get(key)!r}, not {value!r}"
        for key, value in REQUIRED[name].items()
        if found.get(key) != value
    ]
    if wrong:
        return wrong
    checks = checks_of(folder, name, text)
    # systemd says `null` of what does not apply
    opened = {key for key, check in checks.items() if check["set"] is False and check["exposure"]}
    wrong = [f"{key} is open" for key in sorted(opened - OPEN[name])]
    if wrong or not checks:
        return [*wrong, "refused"]
    score = exposure(folder, name, text)
    return [f"exposure {score}"] if score > 0.3 else []


def unit(name: str) -> str:
    """Return a unit of the appliance."""
    return (FIRMWARE / "systemd" / name).read_text(encoding="utf-8")
