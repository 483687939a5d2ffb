"""The real nginx with the project's configuration, on ports and in a folder of a test."""

from __future__ import annotations

import datetime
import ipaddress
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.firmware.tools import FIRMWARE, run, text_of, tool

HOST = "ai.example"
VARIANTS = ("none", "optional", "required")


class Authority:
    """Makes certificates; its own and its keys lie in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        """Make the authority."""
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.path = folder / f"{name}.crt"
        made = self._build(self._name, self._key.public_key(), is_authority=True)
        self.path.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *, is_past: bool = False) -> tuple[Path, Path]:
        """Make a certificate; return its file and that of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._build(subject, key.public_key(), is_authority=False, is_past=is_past)
        paths = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        paths[1].chmod(0o600)
        return paths

    def _build(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        *,
        is_authority: bool,
        is_past: bool = False,
    ) -> x509.Certificate:
        day = datetime.timedelta(days=1)
        now = datetime.datetime.now(datetime.UTC) - (10 * day if is_past else 0 * day)
        names = [x509.DNSName(HOST), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )


class Front:
    """A folder with a configuration of nginx that a test can run."""

    def __init__(self, folder: Path) -> None:
        """Make certificates; a socket's path has to be short, so the folder is."""
        self.folder = folder
        self.socket = folder / "http.sock"
        self.authority = Authority(folder, "authority")
        certificate, key = self.authority.issue(HOST)
        certificate.rename(folder / "server.crt")
        key.rename(folder / "server.key")
        shutil.copy(self.authority.path, folder / "clients.crt")
        shutil.copy(FIRMWARE / "nginx/windhover/errors.conf", folder)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self.port}"

    def trusting(self, *certificate: Path) -> ssl.SSLContext:
        """Return what a client believes, and the certificate and key that it shows."""
        context = ssl.create_default_context(cafile=self.authority.path)
        if certificate:
            context.load_cert_chain(*certificate)
        return context

    def configure(self, variant: str = "none", text: str | None = None) -> Path:
        """Write nginx.conf as it is installed, but for its places."""
        shutil.copy(
            FIRMWARE / f"nginx/windhover/client-certificates-{variant}.conf",
            self.folder / "client-certificates.conf",
        )
        text = text_of("nginx/nginx.conf") if text is None else text
        temporary = "".join(
            f"    {kind}_temp_path {self.folder}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        for old, new in (
            ("user www-data;", "user root;" if os.geteuid() == 0 else ""),
            ("/run/nginx/nginx.pid", f"{self.folder}/nginx.pid"),
            ("/var/log/nginx/", f"{self.folder}/"),
            ("/etc/nginx/windhover/", f"{self.folder}/"),
            ("/run/windhover/http.sock", str(self.socket)),
            ("listen [::]:443 ssl http2 backlog=512;", ""),
            ("listen 443 ", f"listen 127.0.0.1:{self.port} "),
            ("http {\n", "http {\n" + temporary),
        ):
            text = text.replace(old, new)
        path = self.folder / "nginx.conf"
        path.write_text(text)
        for name in ("client-certificates.conf", "errors.conf"):
            part = self.folder / name
            part.write_text(part.read_text().replace("/etc/nginx/windhover/", f"{self.folder}/"))
        return path

    def checked(self) -> list[str]:
        """Return what `nginx -t` has against the configuration."""
        log, path = self.folder / "start.log", self.folder / "nginx.conf"
        result = run("nginx", "-t", "-q", "-e", log, "-p", self.folder, "-c", path)
        return result.stderr.splitlines()

    @contextmanager
    def running(self, variant: str = "none", text: str | None = None) -> Iterator[None]:
        """Run nginx with a configuration."""
        path = self.configure(variant, text)
        start = ["-e", f"{self.folder}/start.log", "-g", "daemon off;"]
        words = ["-p", str(self.folder), "-c", str(path), *start]
        process = subprocess.Popen([tool("nginx"), *words], stderr=subprocess.PIPE, text=True)
        try:
            self._wait(process)
            yield
        finally:
            process.terminate()
            _, err = process.communicate(timeout=20)
        assert "emerg" not in err, err

    def _wait(self, process: subprocess.Popen[str]) -> None:
        for _ in range(400):
            if process.poll() is not None:
                raise AssertionError(process.communicate()[1])
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.025)
            else:
                return
        raise AssertionError("nginx does not listen")


@contextmanager
def fronting() -> Iterator[Front]:
    """Make a front in a folder with a short name."""
    with tempfile.TemporaryDirectory(prefix="wh-") as folder:
        yield Front(Path(folder))
