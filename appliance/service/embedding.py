"""An admitted request for vectors: a sequence on the engine for each text, one answer of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from appliance.api.answers import Object
from appliance.api.answers import embeddings as embeddings_object
from appliance.service.held import Held
from appliance.service.job import LOOK_S, Cause, Ended, Job
from appliance.service.life import AttestedError, Life, client_closed
from engine.errors import EngineError
from engine.sequence import FinishReason
from engine.trace import root_of_texts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from appliance.api.parsed import Parsed


class Texts:
    """The texts of one request on the engine."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        """Take the job of each text, in their order."""
        self.jobs = tuple(jobs)

    def cancel(self, cause: Cause) -> None:
        """Ask for the end of all, which comes within one step."""
        for job in self.jobs:
            job.cancel(cause)

    def wait(self) -> Ended:
        """Return how they ended together: as the first that is not whole, if there is one."""
        ended = []
        for job in self.jobs:
            ended.append(job.wait())
            if not ended[-1].is_whole:
                self.cancel(Cause.CLIENT)
                for other in self.jobs:
                    other.wait()
                return ended[-1]
        return Ended(FinishReason.STOP, find_trace_root=lambda: _trace_root(ended))


class Embedding(Held):
    """The answer of one request for vectors. One thread takes it."""

    def __init__(
        self,
        life: Life,
        parsed: Parsed,
        texts: Texts,
        model_name: str,
        reap: Callable[[Life], None],
    ) -> None:
        """Take an admitted request over."""
        super().__init__(life, reap)
        self._parsed = parsed
        self._texts = texts
        self._model_name = model_name

    def whole(self, is_gone: Callable[[], bool]) -> Object:
        """Return the object of the answer, once its statement is durable.

        Args:
            is_gone: whether the client has left.

        Raises:
            AttestedError: there is no whole answer.
        """
        life = self._life
        try:
            for job in self._texts.jobs:
                while job.next(LOOK_S) is None:
                    if is_gone():
                        life.left()
                        raise AttestedError(client_closed(), life.id)
            ended = self._texts.wait()
            if not ended.is_whole:
                raise life.broken(ended)
            vectors = [_vector(job) for job in self._texts.jobs]
            life.handed.take_vectors(vectors)
            closed = life.answered(ended, FinishReason.STOP.value)
        except AttestedError:
            raise
        except Exception as error:
            raise life.failed(error) from error
        return embeddings_object(
            self._model_name,
            vectors,
            as_base64=self._parsed.embedding_format == "base64",
            prompt_tokens=closed.usage.prompt_tokens,
            attestation=closed.attestation,
        )


def _vector(job: Job) -> NDArray[np.float32]:
    vector = job.wait().vector
    if vector is None:
        raise EngineError("no vector came of a text")
    return vector


def _trace_root(ended: Sequence[Ended]) -> bytes | None:
    roots = [root for each in ended if (root := each.find_trace_root()) is not None]
    return root_of_texts(roots) if len(roots) == len(ended) else None
