"""Key holder and evaluator as processes of their own, on SEAL: `python -m` with role and folder.

Where the tests run as root, the evaluator gives its rights up before it opens anything, so that the
holder's folder is closed to it. Every path that it opens is looked at in any case.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from he_chain.backends.seal import SealEvaluator, SealHolder
from he_chain.chain import Chain
from he_chain.plaintext import PlainModel
from he_chain.records.run_folder import Run
from he_chain.roles.serve import serve_socket
from he_chain.transport import connect
from tests.he_chain.assist_run import agreed_of, open_holder

NOBODY = 65534


def hold(folder: Path) -> None:
    """Serve until killed."""
    user_id = NOBODY if os.getuid() == 0 else None
    holder = open_holder(folder, SealHolder)
    serve_socket(holder, folder / "socket", user_id=user_id)


def evaluate(folder: Path, model_path: Path) -> None:
    """Carry the run on to its end."""
    importlib.import_module("tenseal.sealapi")
    opened: list[str] = []
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
    secret = folder / "HOLDER" / "secret.key"
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            secret.read_bytes()
        except PermissionError:
            print("closed")
        opened.clear()
    with PlainModel(model_path) as model:
        evaluator = SealEvaluator.open(folder / "EVALUATOR")
        chain = Chain(
            Run.open(folder / "RUN"),
            evaluator,
            model,
            connect(folder / "socket"),
            agreed_of(folder, model),
            logits_of_all=True,
        )
        chain.go()
    print("opened in HOLDER:", [path for path in opened if "HOLDER" in path])


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold(Path(sys.argv[2]))
    else:
        evaluate(Path(sys.argv[2]), Path(sys.argv[3]))
