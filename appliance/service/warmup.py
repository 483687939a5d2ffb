"""Everything that serving reaches, once before the first request: then nothing is new to it.

Kernels are compiled when an engine is made; what is left are the paths within them, which known
answers take, and what the first answer would wait for: the template, the vocabulary's tables, the
pages of the weights.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from crypto.bulk import PortableBulk
from crypto.kernels.load import compare, load_bulk
from engine import known_answer
from engine.grammar.spec import JsonObject
from engine.sampling.parameters import SamplingParameters
from engine.scheduler import Scheduler
from engine.sequence import Request

if TYPE_CHECKING:
    from engine.model import Model

_OUTPUT_TOKENS: Final = 3
_PROMPT: Final = "Hello"
_MESSAGES: Final = ({"role": "user", "content": _PROMPT},)


def check_known_answers(model: Model) -> int:
    """Compare what the kernels compute with what is committed; return how many models were asked.

    Raises:
        SelfTestError: SM3 or SM4 in lanes differ from the libraries.
        WrongAnswerError: the forward pass or the sampling is not that of profile `wh1`.
    """
    compare(load_bulk(), PortableBulk())
    return known_answer.check(
        model.config.architecture, model.kinds, num_threads=model.engine.num_threads
    )


def warm(model: Model) -> None:
    """Let the model answer a little, to nobody.

    Raises:
        EngineError: it cannot.
    """
    prompt = model.tokenizer.encode_raw(_PROMPT)
    if model.template is not None:
        prompt = model.chat_ids(_MESSAGES, now_unix_s=int(time.time()))
    eos_ids = model.tokenizer_config.eos_ids
    if eos_ids:  # without one nothing could end a constrained answer, and none is possible
        model.grammars.compile(JsonObject()).start().mask()
    limit = model.engine.max_positions - _OUTPUT_TOKENS
    parameters = SamplingParameters(top_k=5, top_p_millionths=900_000, logprobs=1)
    scheduler = Scheduler(model.engine)
    sequence = scheduler.add(Request(tuple(prompt[:limit]), _OUTPUT_TOKENS, parameters, eos_ids))
    while not scheduler.is_idle:
        scheduler.step()
    if sequence.error is not None:
        raise sequence.error
