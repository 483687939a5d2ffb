"""What the values of a manifest must agree on (FORMAT.md section 9, rules R21 to R38)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from engine.vqf.families import DECODERS, RequiredExtent, required_extents
from engine.vqf.format import MAX_RAW_BYTES, TENSOR_ALIGNMENT, up
from engine.vqf.kinds import KINDS
from engine.vqf.manifest import Extent, Manifest, Tensor, tensor_bytes

if TYPE_CHECKING:
    from engine.config import ModelConfig, TokenizerConfig
    from engine.vqf.document import Node

POOLINGS: Final = ("mean", "last")

_WIDTH_MULTIPLE: Final = 16
_LARGEST_FLOAT_BITS: Final = 0x7F7FFFFF
_ONE_BITS: Final = 0x3FF0000000000000
"""1.0 as binary64: positive patterns ascend with their values."""


class TensorEntry(NamedTuple):
    """A tensor as the file states it, and where."""

    node: Node
    name: str
    kind: str
    shape: tuple[int, ...]
    offset: int


class ExtentEntry(NamedTuple):
    """An extent as the file states it, and where."""

    node: Node
    name: str
    offset: int
    length: int
    root: bytes
    tensors: list[TensorEntry]


def check_architecture(node: Node) -> None:
    """Apply R21, before the other keys of the configuration: which ones there are depends on it.

    Raises:
        FormatError: it is broken, or the value is no text.
    """
    if node.text() not in DECODERS:
        node.fail("R21", f"{node.text()!a} is not known, only {', '.join(DECODERS)}")


def check_config(config: ModelConfig, nodes: dict[str, Node]) -> None:
    """Apply R22 to R26.

    Raises:
        FormatError: one of them is broken.
    """
    if config.num_heads % config.num_kv_heads:
        nodes["num_kv_heads"].fail("R22", "the number does not divide num_heads")
    for key, value in (("hidden_size", config.hidden_size), ("head_dim", config.head_dim)):
        if value % _WIDTH_MULTIPLE:
            nodes[key].fail("R23", f"{value} is no multiple of {_WIDTH_MULTIPLE}")
    if not 1 <= config.norm_eps_bits <= _LARGEST_FLOAT_BITS:
        nodes["norm_eps_bits"].fail("R24", "the pattern is no positive finite binary32")
    if len(config.rope_inv_freq_bits) > config.head_dim // 2:
        nodes["rope_inv_freq_bits"].fail(
            "R25", "there are more frequencies than pairs of dimensions"
        )
    if not all(1 <= bits <= _ONE_BITS for bits in config.rope_inv_freq_bits):
        nodes["rope_inv_freq_bits"].fail("R25", "a frequency is not above 0 and at most 1.0")
    if config.qk_norm != (config.architecture == "qwen3"):
        nodes["qk_norm"].fail("R26", f"{config.architecture} does not have this value")
    if config.architecture == "qwen2" and not config.attention_bias:
        nodes["attention_bias"].fail("R26", "qwen2 has biases")
    if config.pooling is not None and config.pooling not in POOLINGS:
        nodes["pooling"].fail("R43", f"{config.pooling!a} is none of {', '.join(POOLINGS)}")


def check_tokenizer(
    tokenizer: TokenizerConfig, nodes: dict[str, Node], config: ModelConfig
) -> None:
    """Apply R27, and R44 to what a vector's text ends with.

    Raises:
        FormatError: it is broken.
    """
    vocab_size = config.vocab_size
    if any(token_id >= vocab_size for token_id in tokenizer.eos_ids):
        nodes["eos_ids"].fail("R27", f"an id is not below the vocabulary size {vocab_size}")
    if len(set(tokenizer.eos_ids)) != len(tokenizer.eos_ids):
        nodes["eos_ids"].fail("R27", "an id occurs twice")
    if tokenizer.bos_id is None:
        if tokenizer.add_bos:
            nodes["add_bos"].fail("R27", "there is no bos_id to add")
    elif tokenizer.bos_id >= vocab_size:
        nodes["bos_id"].fail("R27", f"the id is not below the vocabulary size {vocab_size}")
    if tokenizer.embedding_end_id is not None:
        if config.pooling is None:
            nodes["embedding_end_id"].fail("R44", "the model makes no vectors")
        if tokenizer.embedding_end_id >= vocab_size:
            nodes["embedding_end_id"].fail("R44", f"the id is not below {vocab_size}")


def check_extents(
    config: ModelConfig, tokenizer: TokenizerConfig, entries: list[ExtentEntry], list_node: Node
) -> Manifest:
    """Apply R28 to R38 and return the manifest with everything where it must be.

    Args:
        config: a checked configuration.
        tokenizer: checked special ids.
        entries: the extents as the file states them.
        list_node: the array of extents, for refusals that concern no single one.

    Raises:
        FormatError: one of the rules is broken.
    """
    _check_unique(entries)
    for entry in entries:
        for tensor in entry.tensors:
            _check_kind(tensor)
    required = required_extents(config)
    _check_order(entries, [extent.name for extent in required], list_node)
    extents: list[Extent] = []
    offset = 0
    for index, entry in enumerate(entries):
        if index < len(required):
            tensors = _checked_tensors(entry, required[index])
        else:
            tensors = _checked_raw(entry)
        if entry.offset != offset:
            entry.node.fail("R38", f"the extent is at {entry.offset} and must be at {offset}")
        extents.append(Extent(entry.name, entry.offset, entry.length, entry.root, tensors))
        offset += extents[-1].size_bytes
    return Manifest(config, tokenizer, tuple(extents))


def _check_unique(entries: list[ExtentEntry]) -> None:
    """Apply R28."""
    extent_names: set[str] = set()
    tensor_names: set[str] = set()
    for entry in entries:
        if entry.name in extent_names:
            entry.node.fail("R28", f"a second extent is named {entry.name}")
        extent_names.add(entry.name)
        for tensor in entry.tensors:
            if tensor.name in tensor_names:
                tensor.node.fail("R28", f"a second tensor is named {tensor.name}")
            tensor_names.add(tensor.name)


def _check_kind(tensor: TensorEntry) -> None:
    """Apply R29 to R31."""
    if tensor.kind not in KINDS:
        tensor.node.fail("R29", f"kind {tensor.kind!a} of {tensor.name} is not known")
    if len(tensor.shape) == 1 and tensor.kind != "F32":
        tensor.node.fail("R30", f"{tensor.name} has one dimension and kind {tensor.kind}, not F32")
    block = KINDS[tensor.kind].block_inputs
    if tensor.shape[-1] % block:
        message = f"the columns of {tensor.name}, {tensor.shape[-1]}, come in {block}"
        tensor.node.fail("R31", message)


def _check_order(entries: list[ExtentEntry], required: list[str], list_node: Node) -> None:
    """Apply R32."""
    names = [*required, *MAX_RAW_BYTES]
    for entry, name in zip(entries, names, strict=False):
        if entry.name != name:
            entry.node.fail("R32", f"extent {entry.name} stands where {name} must be")
    if len(entries) > len(names):
        entries[len(names)].node.fail("R32", f"extent {entries[len(names)].name} is not known")
    if len(entries) < len(names) - 1:
        list_node.fail("R32", f"extent {names[len(entries)]} is missing")


def _checked_raw(entry: ExtentEntry) -> tuple[Tensor, ...]:
    """Apply R33, and R19 to the length, in an extent of bytes."""
    if entry.tensors:
        entry.node.fail("R33", f"extent {entry.name} has tensors")
    if entry.length > MAX_RAW_BYTES[entry.name]:
        most = MAX_RAW_BYTES[entry.name]
        entry.node.fail("R19", f"{entry.length} bytes of {entry.name} are more than {most}")
    return ()


def _checked_tensors(entry: ExtentEntry, required: RequiredExtent) -> tuple[Tensor, ...]:
    """Apply R33 to R37 in an extent of tensors."""
    if not entry.tensors:
        entry.node.fail("R33", f"extent {entry.name} has no tensors")
    for tensor, (name, _) in zip(entry.tensors, required.tensors, strict=False):
        if tensor.name != name:
            tensor.node.fail("R34", f"tensor {tensor.name} stands where {name} must be")
    if len(entry.tensors) > len(required.tensors):
        extra = entry.tensors[len(required.tensors)]
        extra.node.fail("R34", f"tensor {extra.name} does not belong to extent {entry.name}")
    if len(entry.tensors) < len(required.tensors):
        missing = required.tensors[len(entry.tensors)].name
        entry.node.fail("R34", f"tensor {missing} is missing")
    out: list[Tensor] = []
    end = 0
    for tensor, (name, shape) in zip(entry.tensors, required.tensors, strict=True):
        if tensor.shape != shape:
            message = f"{name} has shape {list(tensor.shape)} and must have {list(shape)}"
            tensor.node.fail("R35", message)
        start = up(end, TENSOR_ALIGNMENT)
        if tensor.offset != start:
            tensor.node.fail("R36", f"{name} is at {tensor.offset} and must be at {start}")
        end = start + tensor_bytes(tensor.kind, shape)
        out.append(Tensor(name, tensor.kind, shape, entry.name, start, end - start))
    if entry.length != end:
        entry.node.fail("R37", f"extent {entry.name} has {entry.length} bytes and must have {end}")
    return tuple(out)
