"""From the bytes of a manifest to its value types (FORMAT.md section 4, rules R15 to R20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crypto import cbor
from crypto.errors import FormatError as EncodingError
from engine.config import ModelConfig, TokenizerConfig
from engine.errors import FormatError
from engine.vqf.document import Node
from engine.vqf.format import (
    DIGEST_BYTES,
    MAX_DIMENSION,
    MAX_EXTENTS,
    MAX_MANIFEST_BYTES,
    MAX_MANIFEST_DEPTH,
    MAX_MANIFEST_ITEMS,
    MAX_OFFSET,
    MAX_TENSORS_OF_EXTENT,
)
from engine.vqf.rules import (
    ExtentEntry,
    TensorEntry,
    check_architecture,
    check_config,
    check_extents,
    check_tokenizer,
)

if TYPE_CHECKING:
    from engine.vqf.manifest import Manifest

_OPTIONAL_CONFIG_KEYS = ("pooling",)
_CONFIG_KEYS = tuple(
    key for key in ModelConfig.__dataclass_fields__ if key not in _OPTIONAL_CONFIG_KEYS
)
_MAX_EOS_IDS = 64
_MAX_ID = (1 << 32) - 1
_MAX_64_BITS = (1 << 64) - 1
_MAX_32_BITS = (1 << 32) - 1


def parse_manifest(unverified_bytes: bytes, base_offset: int) -> Manifest:
    """Return the manifest that `unverified_bytes` encodes.

    Args:
        unverified_bytes: a manifest from anywhere.
        base_offset: where it begins in the file; offsets in errors count from the file's first
            byte.

    Raises:
        FormatError: one of R15 to R38 is broken.
    """
    try:
        value = cbor.decode(
            unverified_bytes,
            max_depth=MAX_MANIFEST_DEPTH,
            max_items=MAX_MANIFEST_ITEMS,
            max_bytes=MAX_MANIFEST_BYTES,
        )
    except EncodingError as error:
        message = f"the manifest is not deterministic CBOR: {error.rule}"
        raise FormatError("R15", base_offset + error.offset, message) from None
    top = Node.top(value, base_offset).entries(("config", "tokenizer", "extents"))
    check_architecture(top["config"].entry("architecture"))
    config_nodes = top["config"].entries(_CONFIG_KEYS, _OPTIONAL_CONFIG_KEYS)
    config = _config(config_nodes)
    tokenizer_nodes = top["tokenizer"].entries(
        ("add_bos", "eos_ids"), ("bos_id", "embedding_end_id")
    )
    tokenizer = _tokenizer(tokenizer_nodes)
    extents = [_extent(node) for node in top["extents"].elements(1, MAX_EXTENTS)]
    check_config(config, config_nodes)
    check_tokenizer(tokenizer, tokenizer_nodes, config)
    return check_extents(config, tokenizer, extents, top["extents"])


def _config(nodes: dict[str, Node]) -> ModelConfig:
    """Return the configuration, every value within its own limits."""
    return ModelConfig(
        architecture=nodes["architecture"].text(),
        num_layers=nodes["num_layers"].integer(1, 1024),
        hidden_size=nodes["hidden_size"].integer(16, 65_536),
        num_heads=nodes["num_heads"].integer(1, 1024),
        num_kv_heads=nodes["num_kv_heads"].integer(1, 1024),
        head_dim=nodes["head_dim"].integer(16, 1024),
        intermediate_size=nodes["intermediate_size"].integer(1, 1 << 20),
        vocab_size=nodes["vocab_size"].integer(1, 1 << 22),
        context_length_tokens=nodes["context_length_tokens"].integer(1, 1 << 20),
        norm_eps_bits=nodes["norm_eps_bits"].integer(0, _MAX_32_BITS),
        rope_inv_freq_bits=tuple(
            node.integer(0, _MAX_64_BITS) for node in nodes["rope_inv_freq_bits"].elements(1, 512)
        ),
        tied_embeddings=nodes["tied_embeddings"].boolean(),
        attention_bias=nodes["attention_bias"].boolean(),
        qk_norm=nodes["qk_norm"].boolean(),
        pooling=nodes["pooling"].text() if "pooling" in nodes else None,
    )


def _tokenizer(nodes: dict[str, Node]) -> TokenizerConfig:
    """Return the special ids, every value within its own limits."""
    bos_node, end_node = nodes.get("bos_id"), nodes.get("embedding_end_id")
    return TokenizerConfig(
        bos_id=None if bos_node is None else bos_node.integer(0, _MAX_ID),
        eos_ids=tuple(
            node.integer(0, _MAX_ID) for node in nodes["eos_ids"].elements(0, _MAX_EOS_IDS)
        ),
        add_bos=nodes["add_bos"].boolean(),
        embedding_end_id=None if end_node is None else end_node.integer(0, _MAX_ID),
    )


def _extent(node: Node) -> ExtentEntry:
    """Return an extent as the file states it."""
    nodes = node.entries(("name", "offset", "length", "root"), ("tensors",))
    tensors: list[TensorEntry] = []
    if "tensors" in nodes:
        elements = nodes["tensors"].elements(1, MAX_TENSORS_OF_EXTENT)
        tensors = [_tensor(element) for element in elements]
    return ExtentEntry(
        node=node,
        name=nodes["name"].name(),
        offset=nodes["offset"].integer(0, MAX_OFFSET),
        length=nodes["length"].integer(1, MAX_OFFSET),
        root=nodes["root"].byte_string(DIGEST_BYTES),
        tensors=tensors,
    )


def _tensor(node: Node) -> TensorEntry:
    """Return a tensor as the file states it."""
    nodes = node.entries(("name", "kind", "shape", "offset"))
    shape = tuple(element.integer(1, MAX_DIMENSION) for element in nodes["shape"].elements(1, 2))
    return TensorEntry(
        node=node,
        name=nodes["name"].name(),
        kind=nodes["kind"].text(),
        shape=shape,
        offset=nodes["offset"].integer(0, MAX_OFFSET),
    )
