"""What the boot test is made of, without a machine."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.boot import accel
from tests.boot.client import Client, RefusedError, Stream
from tests.boot.image import altered, image_of
from tests.boot.serial import Serial
from tests.firmware.front import HOST, Authority

EVENTS = ['{"choices":[{"delta":{"content":"a"}}]}', '{"choices":[{"delta":{"content":"b"}}]}']


def fake_qemu(folder: Path, body: str) -> str:
    """A program that takes the words of QEMU; $console is the file of its serial line."""
    program = folder / "qemu"
    program.write_text(
        "#!/bin/sh\nfor word; do case $word in file:*) console=${word#file:};; esac; done\n" + body
    )
    program.chmod(0o755)
    return str(program)


def tried(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> accel.Accelerator:
    """What is chosen with such a QEMU, and a device that is there."""
    monkeypatch.delenv("WINDHOVER_BOOT_ACCEL", raising=False)
    (folder / "kvm").touch()
    qemu = fake_qemu(folder, body)
    return accel.choose(qemu, folder / "vmlinuz", folder, device=folder / "kvm", try_s=1.0)


def test_kvm_in_which_a_kernel_speaks_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speaks = 'echo "Linux version 6" > "$console"; exec sleep 60\n'
    assert tried(tmp_path, speaks, monkeypatch) == accel.KVM


def test_kvm_in_which_nothing_speaks_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tried(tmp_path, "exec sleep 60\n", monkeypatch)
    assert found.name == "tcg"
    assert "says nothing" in found.reason


def test_kvm_that_refuses_is_given_up_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tried(tmp_path, "echo 'failed to set MSR' >&2; exit 1\n", monkeypatch)
    assert (found.name, found.reason) == ("tcg", "KVM refuses: failed to set MSR")


def test_without_the_device_nothing_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WINDHOVER_BOOT_ACCEL", raising=False)
    device = tmp_path / "kvm"
    assert accel.choose("/nowhere/qemu", tmp_path, tmp_path, device=device).name == "tcg"
    device.touch()
    monkeypatch.setenv("WINDHOVER_BOOT_ACCEL", "tcg")
    assert accel.choose("/nowhere/qemu", tmp_path, tmp_path, device=device).name == "tcg"


def test_a_console_without_the_sequences_of_a_terminal(tmp_path: Path) -> None:
    serial = Serial(tmp_path / "console")
    assert serial.text == ""
    serial.path.write_bytes(b"\x1bc\x1b[?7l\x1b[2Jone\r\ntwo \xff\r\n\x1b[0mthree\r\n")
    assert serial.text == "one\ntwo \N{REPLACEMENT CHARACTER}\nthree\n"
    assert serial.tail(1) == "three"
    assert serial.find("^three$")
    assert not serial.find("^wo")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like an image."""
    for name in ("vmlinuz", "initrd.img"):
        (tmp_path / name).touch()
    (tmp_path / "root.img").write_bytes(bytes(range(256)) * 32)
    (tmp_path / "cmdline").write_text("windhover.roothash=ab12 windhover.verity=4096 quiet\n")
    (tmp_path / "roothash").write_text("ab12\n")
    return tmp_path


def test_an_image_and_one_with_another_byte(folder: Path) -> None:
    image = image_of(folder)
    assert (image.root_hash, image.tree) == ("ab12", 4096)
    other = altered(image, folder / "copy", 4097)
    before, after = image.root.read_bytes(), other.root.read_bytes()
    differing = [n for n, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    assert differing == [4097]
    assert other.cmdline == image.cmdline
    repacked = image.with_root(folder / "copy", "cd34", 8192)
    assert (repacked.root_hash, repacked.tree) == ("cd34", 8192)
    assert repacked.cmdline.endswith(" quiet")
    (folder / "roothash").write_text("cd34\n")
    with pytest.raises(ValueError, match="different roots"):
        image_of(folder)
    (folder / "vmlinuz").unlink()
    with pytest.raises(ValueError, match="vmlinuz missing"):
        image_of(folder)


class Server(http.server.BaseHTTPRequestHandler):
    """A service that ends a stream too early, and has one answer for each path."""

    asked: list[tuple[str, dict[str, str], bytes]]

    def do_GET(self) -> None:
        self._note()
        status = {"/ready": 200, "/v1/attestations/x?format=bundle": 200}.get(self.path, 404)
        self._send(status, b'{"ready": true}')

    def do_POST(self) -> None:
        body = self._note()
        if not json.loads(body).get("stream"):
            self._send(200, b'{"attestation": {"id": "att-1"}}')
            return
        self.send_response(200)
        self.send_header("Windhover-Attestation", "att-2")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in EVENTS:
            data = f": ping\n\ndata: {event}\n\n".encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.close_connection = True  # without the last chunk

    def _note(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append((self.path, dict(self.headers), body))
        return body

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[int, Path, list[tuple[str, dict[str, str], bytes]]]]:
    """A port, the certificate that is shown there, and what was asked."""
    certificate, key = Authority(tmp_path, "authority").issue(HOST)
    own = tmp_path / "server.crt"
    shutil.copy(certificate, own)
    handler = type("Asked", (Server,), {"asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server.server_address[1], tmp_path, handler.asked
    server.shutdown()
    thread.join()
    server.server_close()


def client_of(port: int, certificate: Path) -> Client:
    return Client(port, certificate, "key-1", model="tiny", timeout_s=10)


def test_a_client_asks_with_its_key_and_a_nonce(site: Any) -> None:
    port, folder, asked = site
    client = client_of(port, folder / "server.crt")
    assert client.is_ready()
    answer = client.ask("Why?", temperature=0)
    assert answer.name == "att-1"
    path, headers, body = asked[-1]
    assert (path, body) == ("/v1/chat/completions", answer.request)
    assert headers["Authorization"] == "Bearer key-1"
    assert headers["Windhover-Nonce"] == answer.nonce
    assert headers["Host"] == client.host == HOST
    assert json.loads(body) == {
        "model": "tiny", "messages": [{"role": "user", "content": "Why?"}], "temperature": 0,
    }  # fmt: skip
    assert client.bundle("x") == b'{"ready": true}'
    with pytest.raises(RefusedError, match="404"):
        client.statement("x")


def test_a_stream_that_breaks_is_what_came_of_it(site: Any) -> None:
    port, folder, _ = site
    seen: list[tuple[str | None, int]] = []

    def watch(stream: Stream) -> None:
        seen.append((stream.name, len(stream.events)))

    stream = client_of(port, folder / "server.crt").stream("Why?", watch)
    assert stream.events == EVENTS
    assert (stream.name, stream.num_tokens, stream.is_whole) == ("att-2", 2, False)
    assert seen == [(None, 0), ("att-2", 0), ("att-2", 1), ("att-2", 2)]


def test_another_certificate_is_not_believed(site: Any) -> None:
    port, folder, asked = site
    with tempfile.TemporaryDirectory() as other:
        certificate, _ = Authority(Path(other), "authority").issue(HOST)
        client = client_of(port, certificate)
        assert not client.is_ready()
        with pytest.raises(OSError, match=r"certificate"):
            client.ask("Why?")
    # one of the same authority is no better
    sibling, _ = Authority(folder, "second").issue(HOST)
    assert not client_of(port, sibling).is_ready()
    assert not asked


def test_the_programs_of_the_boot_test_are_named_in_the_makefile() -> None:
    text = (Path(__file__).parents[2] / "Makefile").read_text()
    wanted = text.replace("\\\n", " ").partition("\nBOOT_TOOLS := ")[2].partition("\n")[0]
    for program in ("qemu-system-x86_64", "mke2fs", "veritysetup", "mmdebstrap", "debugfs"):
        assert f":{program} " in f"{wanted} "
    dry = subprocess.run(
        ["/usr/bin/make", "-n", "boot-test"], check=True, capture_output=True, text=True,
        cwd=Path(__file__).parents[2], env=os.environ | {"MAKEFLAGS": ""},
    )  # fmt: skip
    assert "pytest -s tests/boot" in dry.stdout
