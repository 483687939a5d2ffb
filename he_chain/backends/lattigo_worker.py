"""The program of the Lattigo backend's worker processes: its argument is holder or evaluator."""

from __future__ import annotations

import resource
import sys

from he_chain.backends.lattigo_evaluator_worker import EvaluatorWorker
from he_chain.backends.lattigo_holder_worker import HolderWorker
from he_chain.backends.worker_loop import serve


def main(role: str) -> None:
    """Serve one of the two roles until the client is gone; a crash leaves no core with a key."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    worker = HolderWorker() if role == "holder" else EvaluatorWorker()
    serve(worker.handlers)


if __name__ == "__main__":
    main(sys.argv[1])
