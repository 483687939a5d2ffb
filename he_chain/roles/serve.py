"""A key holder's process: it waits for evaluators at a socket or in a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from he_chain.roles.holder import KeyHolder
from he_chain.transport import DEFAULT_TIMEOUT_S, FolderChannel, SocketChannel, listening


def serve_socket(
    holder: KeyHolder,
    path: Path,
    *,
    max_connections: int | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    user_id: int | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve one evaluator after the other; each may go on where the last one was killed.

    Args:
        holder: answers.
        path: of the socket, mode 0600.
        max_connections: return after so many evaluators.
        timeout_s: how long an evaluator may be silent.
        user_id: who may connect, as of `listening`.
        ready: called when the socket is there.

    Raises:
        HeChainError: something was refused, after the evaluator was told.
    """
    served = 0
    with listening(path, user_id) as listener:
        ready()
        while max_connections is None or served < max_connections:
            connection, _ = listener.accept()
            channel = SocketChannel(connection, timeout_s)
            try:
                holder.serve(channel)
            finally:
                channel.close()
            served += 1


def serve_folder(holder: KeyHolder, folder: Path, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
    """Serve one evaluator through a folder of files.

    Raises:
        HeChainError: something was refused, or the evaluator is silent for too long.
    """
    holder.serve(FolderChannel(folder, holder=True, timeout_s=timeout_s))
