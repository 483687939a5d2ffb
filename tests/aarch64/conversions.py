"""Convert the tiny checkpoints and print their model digests; runs on emulated processors.

usage: conversions.py FOLDER      FOLDER is empty and takes what is written
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

from engine.convert.convert import convert
from tests.engine.convert.support import CONVERT, tiny_folder

folder = Path(sys.argv[1])
source = tiny_folder(folder / "llama_tiny", "llama_tiny")
digests = {
    f"llama_tiny {quant}": convert(source, folder / f"{quant}.vqf", quant=quant)
    for quant in ("keep", "q4", "q8")
}
digests["llama_tiny-f32.gguf"] = convert(CONVERT / "llama_tiny-f32.gguf", folder / "gguf.vqf")
named = {name: done.model_digest.hex() for name, done in digests.items()}
print(json.dumps({"machine": platform.machine(), "model_digests": named}))
