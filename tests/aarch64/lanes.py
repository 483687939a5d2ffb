"""What `crypto.kernels` chooses and gives on an emulated processor; prints one JSON object."""

from __future__ import annotations

from tests.crypto.kernels.cases import main

if __name__ == "__main__":
    main()
