"""Addresses, clients and clock, as setup.toml says, written for the programs that need them."""

from __future__ import annotations

import ipaddress
from typing import Final

from fault import SetupError
from files import write
from medium import Medium
from places import Places
from wishes import Wishes

_HEAD: Final = "# Made from setup.toml; the next medium replaces it.\n"


def install_network(places: Places, wishes: Wishes) -> None:
    """Write the files of systemd-networkd, nftables and systemd-timesyncd."""
    if wishes.network is not None:
        lines = ["[Match]", f"Name={wishes.network.interface}", "", "[Network]"]
        lines += [f"Address={address}" for address in wishes.network.addresses]
        if wishes.network.gateway:
            lines.append(f"Gateway={wishes.network.gateway}")
        lines += ["DHCP=no", "IPv6AcceptRA=no", "LLMNR=no", "MulticastDNS=no", "LLDP=no"]
        _put(places, "network/10-windhover.network", lines)
    rules = [*_elements("clients", wishes.clients), *_elements("time", wishes.time_servers)]
    _put(places, "nftables/10-windhover.nft", rules)
    _put(places, "time/windhover.conf", ["[Time]", f"NTP={' '.join(wishes.time_servers)}"])


def install_certificates_of_clients(places: Places, wishes: Wishes, medium: Medium) -> None:
    """Choose how nginx asks for certificates of clients.

    Raises:
        SetupError: it is to ask, and there are no authorities to compare with.
    """
    folder = places.data / "nginx"
    authorities = medium.small("clients.crt")
    if authorities is not None:
        write(folder / "clients.crt", authorities)
    if wishes.client_certificates != "none" and not (folder / "clients.crt").exists():
        raise SetupError("client_certificates needs clients.crt on the medium")
    name = f"client-certificates-{wishes.client_certificates}.conf"
    write(folder / "client-certificates.conf", (places.share / name).read_bytes())


def _elements(name: str, addresses: tuple[str, ...]) -> list[str]:
    """Return the rules that fill the two sets of a name."""
    lines = []
    for version in (4, 6):
        of_version = [a for a in addresses if ipaddress.ip_network(a).version == version]
        if of_version:
            elements = ", ".join(of_version)
            lines.append(f"add element inet windhover {name}{version} {{ {elements} }}")
    return lines


def _put(places: Places, name: str, lines: list[str]) -> None:
    path = places.data / name
    path.parent.mkdir(exist_ok=True)
    write(path, (_HEAD + "".join(f"{line}\n" for line in lines)).encode())
