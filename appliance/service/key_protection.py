"""What protects the private keys of this machine, as far as the service was told.

The passphrases of the keys come from systemd, which has decrypted them. With what, only root can
see; the set-up of the image writes it down, and the unit hands it on as the credential `keys`:

- `tpm`: with a TPM, and with the key of the disk.
- `passphrase`: somebody gives them at each start, and they are on no disk.
- `disk`: with a key that lies on the same disk, or not at all: whoever has the disk has the keys.

It is what the operator says, no proof. Without a word it is `disk`.
"""

from __future__ import annotations

from typing import Final

from crypto.errors import KeyFileError
from crypto.secret import CREDENTIAL_PREFIX, read_secret

CREDENTIAL: Final = "keys"
DISK: Final = "disk"
PROTECTIONS: Final = ("tpm", "passphrase", DISK)


def key_protection() -> str:
    """Return one of PROTECTIONS; `disk` where nothing else is said, or no known word."""
    try:
        with read_secret(f"{CREDENTIAL_PREFIX}{CREDENTIAL}") as said:
            word = bytes(said.value).decode("ascii", "replace")
    except KeyFileError:
        return DISK
    return word if word in PROTECTIONS else DISK
