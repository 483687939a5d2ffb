"""Where things are on the machine, or below a folder that stands for it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROOT_SETTING: Final = "WINDHOVER_SETUP_ROOT"
LABEL_DATA: Final = "windhover-data"
LABEL_MEDIUM: Final = "WH-SETUP"


@dataclass(frozen=True)
class Places:
    """Paths of the machine. root: `/`, or a folder in its place."""

    root: Path

    @property
    def etc(self) -> Path:
        """Configuration, trust and encrypted keys; on the data disk."""
        return self.root / "etc/windhover"

    @property
    def credentials(self) -> Path:
        """Passphrases of the keys, encrypted by systemd."""
        return self.etc / "credentials"

    @property
    def weights(self) -> Path:
        """The folder of the weights."""
        return self.root / "srv/windhover"

    @property
    def state(self) -> Path:
        """The log, floors, API keys."""
        return self.root / "var/lib/windhover"

    @property
    def anchor(self) -> Path:
        """The head of the log a second time."""
        return self.root / "var/lib/windhover-anchor"

    @property
    def data(self) -> Path:
        """The data disk itself."""
        return self.root / "data"

    @property
    def own(self) -> Path:
        """What the set-up remembers."""
        return self.data / "system"

    @property
    def share(self) -> Path:
        """What the image brings: templates, and the folders of a new data disk."""
        return self.root / "usr/share/windhover"

    @property
    def memory(self) -> Path:
        """A folder that is gone with the power: passphrases while they are used."""
        return self.root / "run/windhover-setup"

    def by_label(self, label: str) -> Path:
        """Return the device with a file system of that label, there or not."""
        return self.root / "dev/disk/by-label" / label


def here() -> Places:
    """Return the places of this machine; WINDHOVER_SETUP_ROOT names another root, for tests."""
    return Places(Path(os.environ.get(_ROOT_SETTING, "/")))


def gives_away() -> bool:
    """Return whether files get owners of their own: as root, on the machine itself."""
    return os.geteuid() == 0 and _ROOT_SETTING not in os.environ
