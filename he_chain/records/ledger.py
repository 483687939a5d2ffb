"""What each side of protocol `assist` gets to see in a hop, in tensors, values and bits.

The holder sees numbers in the clear: 53 bits each. The evaluator sees ciphertexts, which tell
nothing while the scheme stands, and which hop it is.
"""

from __future__ import annotations

from typing import Final

from he_chain.packing import Packing
from he_chain.records.record import Seen

_CLEAR: Final = 53
_HIDDEN: Final = 0


def seen_by_holder(packing: Packing, position: int, layer: int | None) -> tuple[Seen, ...]:
    """Return what the holder decrypts in a hop, `layer` None for the logits."""
    config = packing.config
    hidden, inner = config.hidden_size, config.intermediate_size
    if layer is None:
        return (Seen("x", hidden, _CLEAR), Seen("logits", config.vocab_size, _CLEAR))
    return (
        Seen("x", hidden, _CLEAR),
        Seen("q", packing.attention_width, _CLEAR),
        Seen("k", packing.key_width, _CLEAR),
        Seen("v", packing.key_width, _CLEAR),
        Seen("scores", config.num_heads * (position + 1), _CLEAR),
        Seen("o", packing.attention_width, _CLEAR),
        Seen("x behind attention", hidden, _CLEAR),
        Seen("gate", inner, _CLEAR),
        Seen("up", inner, _CLEAR),
    )


def seen_by_evaluator(packing: Packing, position: int, layer: int | None) -> tuple[Seen, ...]:
    """Return what the evaluator gets in a hop: ciphertexts of so many values."""
    config = packing.config
    hidden = config.hidden_size
    if layer is None:
        return (Seen("normed x", hidden, _HIDDEN), Seen("position", 1, _CLEAR))
    embedding = (Seen("embedding", hidden, _HIDDEN),) if layer == 0 else ()
    return (
        *embedding,
        Seen("normed x", 2 * hidden, _HIDDEN),
        Seen("q", packing.attention_width, _HIDDEN),
        Seen("k", packing.key_width, _HIDDEN),
        Seen("v", packing.key_width, _HIDDEN),
        Seen("weights of attention", config.num_heads * (position + 1), _HIDDEN),
        Seen("o", packing.attention_width, _HIDDEN),
        Seen("gated", config.intermediate_size, _HIDDEN),
        Seen("position", 1, _CLEAR),
    )
