"""Who reaches whom through the packet filter: run in a network of its own, as root.

Prints an object; ends with `NO_NETWORKS` where the kernel has no second network to ask from.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys

NO_NETWORKS = 77

_HERE, _CLIENT, _STRANGER = "192.0.2.1", "192.0.2.2", "192.0.2.3"
_NETWORKS = f"""\
mount -t tmpfs tmpfs /run
ip link set lo up
ip netns add client
ip link add inside type veth peer name outside netns client
ip address add {_HERE}/24 dev inside
ip -n client address add {_CLIENT}/24 dev outside
ip -n client address add {_STRANGER}/24 dev outside
ip link set inside up
ip -n client link set outside up"""
_IN_CLIENT = ["ip", "netns", "exec", "client"]
_CONNECT = """\
import socket, sys
made = socket.socket()
made.settimeout(1)
made.bind((sys.argv[1], 0))
made.connect((sys.argv[2], int(sys.argv[3])))
"""
_LISTEN = """\
import socket, sys
listener = socket.create_server((sys.argv[1], 443))
print("there", flush=True)
listener.accept()
"""


def reaches(source: str, target: str, port: int) -> bool:
    """Return whether a connection is made."""
    words = [sys.executable, "-c", _CONNECT, source, target, str(port)]
    where = [] if source == _HERE else _IN_CLIENT
    return subprocess.run([*where, *words], check=False, stderr=subprocess.DEVNULL).returncode == 0


def main(rules: str) -> int:
    """Load the rules and look."""
    for line in _NETWORKS.splitlines():
        made = subprocess.run(line.split(), check=False, capture_output=True, text=True)
        if made.returncode:
            print(f"{line}: {made.stderr.strip()}", file=sys.stderr)
            return NO_NETWORKS
    nft = shutil.which("nft") or "nft"
    subprocess.run([nft, "-f", rules], check=True)
    element = ["add", "element", "inet", "windhover", "clients4", f"{{ {_CLIENT} }}"]
    subprocess.run([nft, *element], check=True)
    listeners = [socket.create_server((_HERE, port)) for port in (443, 8080)]
    there = subprocess.Popen(
        [*_IN_CLIENT, sys.executable, "-c", _LISTEN, _CLIENT], stdout=subprocess.PIPE
    )
    try:
        assert there.stdout is not None
        there.stdout.readline()
        found = {
            "a client reaches nginx": reaches(_CLIENT, _HERE, 443),
            "a stranger reaches nginx": reaches(_STRANGER, _HERE, 443),
            "a client reaches another port": reaches(_CLIENT, _HERE, 8080),
            "the machine reaches itself": reaches(_HERE, _HERE, 8080),
            "the machine reaches a client": reaches(_HERE, _CLIENT, 443),
        }
    finally:
        there.kill()
        there.communicate()
        for listener in listeners:
            listener.close()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
