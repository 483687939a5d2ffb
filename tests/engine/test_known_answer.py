"""The committed known answers are the definition's, and kernels that differ are found out."""

from __future__ import annotations

import numpy as np
import pytest

from engine import known_answer
from engine.errors import WrongAnswerError
from engine.known_answer import REQUESTS, KnownAnswer
from engine.reference.decoder import ReferenceModel
from tests.engine.support import Definition


def by_definition(name: str) -> KnownAnswer:
    """Compute an entry with the NumPy definition alone."""
    family, kind = name.split("/")
    config = known_answer.config_of(family)
    definition = Definition(ReferenceModel(config, known_answer.weights_of(config, kind)))
    answers = [definition.answer(request) for request in REQUESTS]
    roots = tuple(answer.trace_root(answer.residuals.shape[1]).hex() for answer in answers)
    return KnownAnswer(roots, tuple(tuple(map(int, answer.ids)) for answer in answers))


@pytest.mark.parametrize("name", ["llama/Q4_1", "qwen2/Q6_K", "qwen3/BF16"])
def test_a_committed_answer_is_the_definitions(name: str) -> None:
    assert by_definition(name) == known_answer.committed()[name]


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("name", known_answer.all_names())
def test_every_committed_answer_is_the_definitions(name: str) -> None:
    assert by_definition(name) == known_answer.committed()[name]


def test_there_is_one_for_every_family_and_kind() -> None:
    assert list(known_answer.committed()) == known_answer.all_names()
    assert len({answer.trace_roots for answer in known_answer.committed().values()}) == 33


@pytest.mark.parametrize("num_threads", [1, 3])
def test_kernels_give_them(num_threads: int) -> None:
    assert known_answer.check("llama", ["Q4_1", "Q8_0", "Q8_0"], num_threads=num_threads) == 2


def test_a_single_wrong_bit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = known_answer.weights_of

    def wrong(*arguments: object) -> object:
        weights = right(*arguments)  # type: ignore[arg-type]
        weights["layers.1.down"].fields["q"].view(np.uint8)[0, 0] ^= 1
        return weights

    monkeypatch.setattr(known_answer, "weights_of", wrong)
    with pytest.raises(WrongAnswerError, match=r"llama/Q8_0.*must not answer"):
        known_answer.check("llama", ["Q8_0"], num_threads=2)


def test_a_kind_without_an_answer_is_refused() -> None:
    with pytest.raises(WrongAnswerError, match="no known answer for llama/Q3_K"):
        known_answer.check("llama", ["Q3_K"], num_threads=1)
