"""The engine equals the definition bit for bit: logits, residuals and trace root.

Kinds, families, shapes, prompt lengths and threads; how a run is cut up is in test_schedules.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.reference.weights import float_profile
from tests.engine.kernels.models import (
    FAMILIES,
    KINDS,
    random_ids,
    random_weights,
    small_config,
)
from tests.engine.kernels.running import (
    Outcome,
    assert_same,
    beginning,
    define,
    engine_of,
    run,
)
from tests.engine.reference.support import inv_freq_bits

# Tiles take 8, 4, 2 and 1 rows: one row of each size on every path. A last chunk of one position
# is a decode step, which has code of its own.
ROWS = 23
WITH_DECODE = (ROWS - 1, 1)
# Small matrices where the kind of a matrix is not what is tested.
NARROW: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "vocab_size": 37}


@pytest.mark.parametrize("kind", KINDS)
def test_models_of_one_kind(kind: str) -> None:
    config = small_config(FAMILIES[KINDS.index(kind) % 3], num_layers=1)
    weights, ids = random_weights(config, [kind]), random_ids(config, ROWS)
    expected = define(config, weights, ids)
    with engine_of(config, weights) as engine:
        assert_same(run(engine, ids), expected)
        assert_same(run(engine, ids, WITH_DECODE), expected)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_families_with_all_kinds_mixed(family: str, tied: bool) -> None:
    config = small_config(family, tied_embeddings=tied)
    # A prime step through the kinds gives every tensor of a layer another kind in each family.
    kinds = [KINDS[(FAMILIES.index(family) + 5 * n) % len(KINDS)] for n in range(len(KINDS))]
    weights, ids = random_weights(config, kinds), random_ids(config, ROWS)
    assert {w.kind for w in weights.values()} == set(KINDS)
    expected = define(config, weights, ids)
    with engine_of(config, weights) as engine:
        assert_same(run(engine, ids), expected)
        assert_same(run(engine, ids, WITH_DECODE), expected)


# (query heads to a key/value head, key/value heads, head dimension, rotated dimensions)
HEADS = [
    (1, 2, 16, 16),
    (1, 4, 80, 80),
    (2, 1, 128, 128),
    (2, 3, 64, 32),
    (3, 2, 32, 32),
    (4, 1, 80, 80),
    (5, 2, 64, 64),
    (6, 1, 16, 16),
    (7, 2, 64, 64),
    (7, 1, 32, 16),
    (8, 1, 128, 64),
    (8, 3, 16, 16),
]


@pytest.mark.parametrize(("ratio", "kv_heads", "head_dim", "rotated"), HEADS)
def test_shapes_of_attention(ratio: int, kv_heads: int, head_dim: int, rotated: int) -> None:
    family = FAMILIES[(ratio + head_dim // 16) % 3]
    config = small_config(
        family,
        num_layers=1,
        num_heads=ratio * kv_heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        rope_inv_freq_bits=inv_freq_bits(500000.0, rotated),
        **NARROW,
    )
    weights, ids = random_weights(config, ["Q8_0", "F32"]), random_ids(config, 83)
    expected = define(config, weights, ids)
    with engine_of(config, weights) as engine:
        assert_same(run(engine, ids), expected)
        assert_same(run(engine, ids, (2, 3, 5, 70, 1, 1, 1)), expected)


@pytest.mark.parametrize(
    ("hidden", "inner", "vocab"), [(32, 32, 1), (96, 352, 16), (160, 64, 17), (256, 768, 1023)]
)
def test_widths(hidden: int, inner: int, vocab: int) -> None:
    config = small_config(
        num_layers=1,
        num_heads=2,
        hidden_size=hidden,
        intermediate_size=inner,
        vocab_size=vocab,
    )
    weights, ids = random_weights(config, ["Q5_1", "Q4_0", "BF16"]), random_ids(config, ROWS)
    expected = define(config, weights, ids)
    with engine_of(config, weights) as engine:
        assert_same(run(engine, ids), expected)
        assert_same(run(engine, ids, WITH_DECODE), expected)


Narrow = tuple[Any, Any, list[int], Outcome]


@pytest.fixture(scope="module")
def narrow() -> Narrow:
    """A narrow model, and 150 positions of it by the definition."""
    config = small_config("qwen3", num_heads=6, **NARROW)
    weights, ids = random_weights(config, ["Q4_1", "Q4_0", "F16"]), random_ids(config, 150)
    return config, weights, ids, define(config, weights, ids)


def test_prompt_lengths_around_every_boundary(narrow: Narrow) -> None:
    config, weights, ids, expected = narrow
    with engine_of(config, weights) as engine:
        for count in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49):
            assert_same(run(engine, ids[:count]), beginning(expected, count))
        for count in (63, 64, 65, 79, 80, 81, 127, 128, 129, 143, 144, 145, 150):
            assert_same(run(engine, ids[:count]), beginning(expected, count))


@pytest.mark.parametrize("num_threads", [1, 2, 3, 4, 5, 6, 7, 8])
def test_threads(narrow: Narrow, num_threads: int) -> None:
    config, weights, ids, expected = narrow
    with engine_of(config, weights, num_threads) as engine:
        assert engine.num_threads == num_threads
        assert_same(run(engine, ids), expected)
        assert_same(run(engine, ids[:70], (64, 1, 1, 4)), beginning(expected, 70))
        assert_same(run(engine, ids[:40], [1] * 40), beginning(expected, 40))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_float_profile(family: str) -> None:
    config = small_config(family, tied_embeddings=family == "qwen2")
    weights, ids = float_profile(random_weights(config, KINDS)), random_ids(config, 70)
    expected = define(config, weights, ids, cache_type=np.float32)
    with engine_of(config, weights, single_cache=True) as engine:
        assert_same(run(engine, ids), expected)
        assert_same(run(engine, ids, (3, 62, 1, 4)), expected)


def test_the_float_profile_differs_from_the_served_one() -> None:
    config = small_config(num_layers=1)
    weights, ids = random_weights(config, ["F32"]), random_ids(config, ROWS)
    served = define(config, weights, ids)
    with engine_of(config, weights, single_cache=True) as engine:
        found = run(engine, ids)
    assert not np.array_equal(found.logits, served.logits)
    assert np.abs(found.logits - served.logits).max() < 0.05


def test_long_contexts() -> None:
    config = small_config(
        num_layers=1,
        num_heads=4,
        context_length_tokens=1500,
        rope_inv_freq_bits=inv_freq_bits(10.0, 32),
        **NARROW,
    )
    weights, ids = random_weights(config, ["Q8_0"]), random_ids(config, 1100)
    expected = define(config, weights, ids)
    with engine_of(config, weights, max_rows=1100, max_outputs=1100) as engine:
        assert_same(run(engine, ids), expected)
        assert_same(run(engine, ids, (1023, 1, 1, 75)), expected)


def test_a_difference_of_one_bit_is_seen(narrow: Narrow) -> None:
    _, _, _, expected = narrow
    for name in ("residuals", "logits"):
        changed = getattr(expected, name).copy()
        changed.view(np.uint32).flat[-1] ^= 1
        with pytest.raises(AssertionError, match=f"{name}: 1 of"):
            assert_same(expected._replace(**{name: changed}), expected)
    with pytest.raises(AssertionError):
        assert_same(expected._replace(root=bytes(32)), expected)
    zeros = expected._replace(logits=np.zeros((1, 2), np.float32))
    with pytest.raises(AssertionError, match="logits: 2 of 2 differ"):
        assert_same(zeros, zeros._replace(logits=-zeros.logits))
