"""The certificate of nginx: brought on the medium, or made here and signed by itself."""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from fault import SetupError, say
from files import sync, write
from places import Places

_DAYS: Final = 3650
_LINK: Final = "tls"
_PUBLIC: Final = (
    serialization.Encoding.DER,
    serialization.PublicFormat.SubjectPublicKeyInfo,
)


def install_tls(
    places: Places, certificate: bytes | None, key: bytes | None, hosts: tuple[str, ...]
) -> None:
    """Install what the medium brings; else make a certificate where there is none.

    Args:
        places: of the machine.
        certificate: PEM of the medium, with the authorities that are in between.
        key: PEM of its private key, not encrypted.
        hosts: names and addresses for one that is made.

    Raises:
        SetupError: one is there without the other, or they do not belong together.
    """
    if (certificate is None) != (key is None):
        raise SetupError("tls.crt and tls.key belong together; the medium has one of them")
    current = places.data / "nginx" / _LINK
    if certificate is None or key is None:
        if current.is_symlink():
            return
        say("making a certificate that signs itself")
        certificate, key = _self_signed(hosts)
    _check_pair(certificate, key)
    if current.is_symlink() and (current / "server.crt").read_bytes() == certificate:
        return
    _install(current, certificate, key)


def certificate_of(places: Places) -> bytes:
    """Return the certificate that is installed."""
    return (places.data / "nginx" / _LINK / "server.crt").read_bytes()


def _install(current: Path, certificate: bytes, key: bytes) -> None:
    """Put both in place at once: a link is renamed."""
    numbers = [int(p.name.rpartition("-")[2]) for p in current.parent.glob(f"{_LINK}-*")]
    folder = current.with_name(f"{_LINK}-{max(numbers, default=0) + 1}")
    folder.mkdir(mode=0o700)
    write(folder / "server.crt", certificate)
    write(folder / "server.key", key, mode=0o600)
    new = current.with_name(f".{_LINK}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(folder.name)
    new.rename(current)
    sync(current.parent)
    for old in current.parent.glob(f"{_LINK}-*"):
        if old != folder:
            for path in old.iterdir():
                path.unlink()
            old.rmdir()


def _check_pair(certificate: bytes, key: bytes) -> None:
    try:
        public = x509.load_pem_x509_certificates(certificate)[0].public_key()
        own = serialization.load_pem_private_key(key, None).public_key()
    except (ValueError, TypeError, IndexError) as error:
        raise SetupError(f"tls.crt or tls.key cannot be read: {error}") from error
    if public.public_bytes(*_PUBLIC) != own.public_bytes(*_PUBLIC):
        raise SetupError("tls.key is not the key of tls.crt")


def _self_signed(hosts: tuple[str, ...]) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    # A machine that was never set may believe in any year.
    begin = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(os.urandom(16), "big") >> 1)
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return made.public_bytes(pem), key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
