"""The sections of the configuration: every field with its rule and its default."""

# ruff: noqa: RUF009  (`setting` returns a field)

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.service.fields import File, Flag, Integer, Secret, Text, Texts, setting

UNIX: Final = "unix:"

_HOST: Final = r"[a-z0-9.-]{1,253}(?::[0-9]{1,5})?|\[[0-9a-f:]{2,39}\](?::[0-9]{1,5})?"
_ORIGIN: Final = r"https?://(?:[a-z0-9.-]{1,253}|\[[0-9a-f:]{2,39}\])(?::[0-9]{1,5})?"
_DAY_S: Final = 86_400
_MAX_COUNT: Final = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Which weights are served, who has to vouch for them, and how they are run."""

    file: Path = setting(
        File(text="The weights, a VQF file of any form.", example='"models/model.vqf"')
    )
    name: str = setting(
        Text(
            text="The model's name in requests and answers; by default the file's name without "
            "its ending.",
            pattern=r"(?:[A-Za-z0-9][A-Za-z0-9._:/-]{0,99})?",
            like="1 to 100 letters, digits and . _ : / -",
        ),
        "",
    )
    trust: Path | None = setting(
        File(text="The trust file, which says whose weights are accepted. Only mode `dev` "
             "does without."),
        None,
    )  # fmt: skip
    revocations: Path | None = setting(File(text="The signed list of what is withdrawn."), None)
    floors: Path | None = setting(
        File(
            text="Where this machine keeps the least releases that it still accepts; by default "
            "`floors` in systemd's $STATE_DIRECTORY, or in `windhover` of $XDG_STATE_HOME or "
            "~/.local/state."
        ),
        None,
    )
    unseal_key: Path | None = setting(
        File(text="The private key of role `unseal` that sealed weights are opened with."), None
    )
    unseal_key_passphrase: str | None = setting(
        Secret(text="Where the passphrase of that key is."), None
    )
    passphrase: str | None = setting(
        Secret(text="Where the passphrase is that the weights are sealed under, instead of a key."),
        None,
    )
    kernel_cache: Path | None = setting(
        File(
            text="The folder of prepared kernels, which `windhover compile-cache` fills and the "
            "service cannot write. Without one mode `production` compiles them at each start."
        ),
        None,
    )
    context_tokens: int = setting(
        Integer(
            text="Most tokens of prompt and answer together; 0 takes what the model has.",
            least=0, most=1 << 20, unit="tokens",
        ),
        0,
    )  # fmt: skip
    threads: int = setting(
        Integer(
            text="Threads that compute; 0 takes the cores that the process may use.",
            least=0, most=1024,
        ),
        0,
    )  # fmt: skip
    residency: str = setting(
        Text(
            text="How the weights are kept: all in memory (`full`), or read for each step, in "
            "less memory and more time: plain ones through the memory map (`stream`), or any, "
            "each piece verified whenever it is read (`verified-stream`).",
            pattern="full|stream|verified-stream",
            like='"full", "stream" or "verified-stream"',
        ),
        "full",
    )
    window_mb: int = setting(
        Integer(
            text="How much of streamed weights is there at a time.",
            least=1, most=1 << 14, unit="MiB",
        ),
        32,
    )  # fmt: skip
    keep_layers: int = setting(
        Integer(
            text="Layers of streamed weights that stay in memory, the one that is computed "
            "included.",
            least=1, most=1 << 14,
        ),
        1,
    )  # fmt: skip
    drop_page_cache: bool = setting(
        Flag(text="Whether what was read of streamed weights leaves the system's cache, too."),
        False,
    )
    kv_memory_mb: int = setting(
        Integer(
            text="Memory for the keys and values of what is answered; the rest is in a file, "
            "encrypted, in `kv_folder`. 0 keeps all of it in memory.",
            least=0, most=1 << 24, unit="MiB",
        ),
        0,
    )  # fmt: skip
    kv_folder: Path | None = setting(
        File(text="The folder on a disk for that file, which has no name in it and goes with the "
             "process. Needed where `kv_memory_mb` is not 0."),
        None,
    )  # fmt: skip
    max_running: int = setting(
        Integer(text="Most requests that are answered at the same time.", least=1, most=64), 8
    )
    prefill_tokens: int = setting(
        Integer(
            text="Most prompt tokens in one step, beside the answers that are running; a larger "
            "number answers long prompts sooner and makes running answers wait longer.",
            least=1, most=4096, unit="tokens",
        ),
        256,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareSettings:
    """Which files the service itself has to be made of."""

    manifest: Path | None = setting(
        File(
            text="What `windhover software sign` made. The service starts only if a `software` key "
            "of `model.trust` signed it and it names the files that the service runs from; in mode "
            "`dev` other files are said and go on."
        ),
        None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestSettings:
    """What answers are signed with, and where their statements are kept."""

    key: Path = setting(File(text="The private key of role `attest`.", example='"keys/attest.pem"'))
    key_passphrase: str | None = setting(Secret(text="Where the passphrase of that key is."), None)
    log: Path = setting(
        File(text="The folder of the log, made by `windhover log new`.", example='"state/log"')
    )
    archive: Path | None = setting(
        File(text="Where closed segments of the log may be besides."), None
    )
    anchor: Path = setting(
        File(
            text="Where the head of the log is kept a second time: on another volume.",
            example='"state/anchor"',
        )
    )
    issuer: str = setting(
        Text(
            text="What this appliance is called in its statements.",
            pattern=r"[!-~](?:[ -~]{0,62}[!-~])?",
            like="1 to 64 characters of printable ASCII",
        ),
        "windhover",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where the service listens, and how it treats connections."""

    listen: str = setting(
        Text(
            text="The address: a loopback one for clients of this machine, a unix socket behind "
            "nginx. Without a port it would not be known: port 0 takes a free one.",
            pattern=r"[^\x00-\x1f\x7f]{1,200}",
            like='"127.0.0.1:8080", "[::1]:8080" or "unix:/run/windhover/http.sock"',
        ),
        "127.0.0.1:8080",
    )
    allow_remote: bool = setting(
        Flag(
            text="Whether `listen` may be an address that other machines reach, though keys and "
            "answers then cross the network in the clear."
        ),
        False,
    )
    unix_mode: str = setting(
        Text(text="Permissions of the unix socket.", pattern="0[67][0-7]0",
             like='four octal digits that leave others out, such as "0660"'),
        "0660",
    )  # fmt: skip
    unix_group: str = setting(
        Text(text="Group of the unix socket, the one that nginx runs in; by default the process's.",
             pattern="(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?", like="the name of a group"),
        "",
    )  # fmt: skip
    hosts: tuple[str, ...] = setting(
        Texts(
            text="Values of the header `Host` that are answered, compared exactly. By default "
            "those of the loopback address with the port; behind nginx the public name has to be "
            "here.",
            pattern=_HOST, like="a name in lower case, with the port if clients send one",
        ),
        (),
    )  # fmt: skip
    cors_origins: tuple[str, ...] = setting(
        Texts(
            text="Origins of pages elsewhere whose scripts may call the service. By default none.",
            pattern=_ORIGIN, like='an origin such as "https://chat.example"',
        ),
        (),
    )  # fmt: skip
    connections: int = setting(
        Integer(text="Most connections at once.", least=16, most=10_000), 500
    )
    receive_s: int = setting(
        Integer(text="How long a request may take to arrive.", least=1, most=3600, unit="seconds"),
        30,
    )
    idle_s: int = setting(
        Integer(
            text="How long a connection may do nothing between requests.",
            least=1, most=3600, unit="seconds",
        ),
        75,
    )  # fmt: skip
    stall_s: int = setting(
        Integer(
            text="How long a client may take nothing of an answer that waits for it.",
            least=1, most=3600, unit="seconds",
        ),
        30,
    )  # fmt: skip
    ping_s: int = setting(
        Integer(
            text="How often a stream that has nothing to say sends a comment, so that proxies and "
            "clients keep it.",
            least=1, most=60, unit="seconds",
        ),
        5,
    )  # fmt: skip
    drain_s: int = setting(
        Integer(
            text="How long running answers may go on after SIGTERM; the rest is cancelled.",
            least=0, most=3600, unit="seconds",
        ),
        30,
    )  # fmt: skip

    @property
    def is_unix(self) -> bool:
        """Whether it listens on a unix socket."""
        return self.listen.startswith(UNIX)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of a TCP address, the host without brackets."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """What one request and one key may take. Limits of a key stand in the file of keys too."""

    body_bytes: int = setting(
        Integer(text="Longest body of a request.", least=1024, most=(16 << 20) - 64, unit="bytes"),
        1 << 20,
    )
    max_queued: int = setting(
        Integer(
            text="Most requests that wait while others are answered; one more is refused with "
            "503.",
            least=0, most=1024,
        ),
        24,
    )  # fmt: skip
    default_max_tokens: int = setting(
        Integer(
            text="Longest answer where the request does not say, within the context.",
            least=1, most=1 << 20, unit="tokens",
        ),
        1024,
    )  # fmt: skip
    queue_s: int = setting(
        Integer(
            text="How long a request may wait for its first token before it is given up with 503.",
            least=1, most=_DAY_S, unit="seconds",
        ),
        300,
    )  # fmt: skip
    step_s: int = setting(
        Integer(
            text="How long one step of the engine may take before it is taken for hung: what runs "
            "is closed with an error, and nothing is answered until the process is started again.",
            least=1, most=_DAY_S, unit="seconds",
        ),
        300,
    )  # fmt: skip
    request_s: int = setting(
        Integer(
            text="How long a request may take in all; what was said until then is closed as "
            "cancelled.",
            least=1, most=_DAY_S, unit="seconds",
        ),
        1800,
    )  # fmt: skip
    requests_per_minute: int = setting(
        Integer(text="Requests of one key; 0 sets no limit.", least=0, most=_MAX_COUNT), 600
    )
    prompt_tokens_per_minute: int = setting(
        Integer(text="Prompt tokens of one key; 0 sets no limit.", least=0, most=_MAX_COUNT), 0
    )
    generated_tokens_per_minute: int = setting(
        Integer(text="Generated tokens of one key; 0 sets no limit.", least=0, most=_MAX_COUNT), 0
    )
    concurrent_requests: int = setting(
        Integer(
            text="Requests of one key that run or wait at once; 0 sets no limit.",
            least=0, most=_MAX_COUNT,
        ),
        0,
    )  # fmt: skip
    bundle_ttl_s: int = setting(
        Integer(
            text="How long the bundle of an answer can be fetched; its statement stays in the "
            "log.",
            least=1, most=30 * _DAY_S, unit="seconds",
        ),
        3600,
    )  # fmt: skip
    bundle_store_bytes: int = setting(
        Integer(
            text="Memory for bundles; the oldest go first.",
            least=1 << 20, most=1 << 40, unit="bytes",
        ),
        256 << 20,
    )  # fmt: skip
    idle_checkpoint_s: int = setting(
        Integer(
            text="How often a checkpoint is signed while nothing is appended, so that its time "
            "says that the appliance was there; 0 for never.",
            least=0, most=30 * _DAY_S, unit="seconds",
        ),
        3600,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSettings:
    """Who may ask."""

    keys: Path = setting(
        File(
            text="The file of keys, which `windhover apikey` writes; a change is seen within a "
            "second. While it cannot be read, nobody is answered.",
            example='"state/api-keys.json"',
        )
    )
    certificates: bool = setting(
        Flag(
            text="Whether nginx's header `X-Windhover-Client-Certificate` is believed. Only on a "
            "unix socket, because anybody can send a header."
        ),
        False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The access log: JSON lines about requests, never what was asked or answered."""

    file: Path | None = setting(
        File(
            text="Where lines are appended; by default they go to standard error. Whoever renames "
            "the file sends SIGHUP, and a new one of this name is begun; a process that was "
            "started at a terminal ends at SIGHUP instead.",
        ),
        None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DevSettings:
    """What may be left out in mode `dev`; every statement then says so."""

    allow_unsigned: bool = setting(
        Flag(text="Whether weights are accepted whoever vouches for them."), False
    )
    allow_unlocked: bool = setting(
        Flag(text="Whether the process may go on where it cannot be locked against new "
             "executable memory."),
        False,
    )  # fmt: skip
