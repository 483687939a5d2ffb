"""A folder with weights, keys and a trust file, and the command line run in it."""

from __future__ import annotations

import base64
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from appliance.cli.keygen import key_name
from appliance.cli.main import run
from crypto import sm2
from crypto.keys import write_private_key, write_public_key
from engine.config import ModelConfig, TokenizerConfig
from engine.vqf import ExtentPlan, TensorSpec, write_vqf
from engine.vqf.families import required_extents
from engine.vqf.panels import pack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = ModelConfig(
    architecture="llama",
    num_layers=2,
    hidden_size=32,
    num_heads=2,
    num_kv_heads=1,
    head_dim=16,
    intermediate_size=64,
    vocab_size=20,
    context_length_tokens=128,
    norm_eps_bits=0x3727C5AC,
    rope_inv_freq_bits=(0x3FF0000000000000,) * 8,
    tied_embeddings=True,
    attention_bias=False,
    qk_norm=False,
)
TOKENIZER = b'{"version":"1.0"}'
PROGRAM = "import sys; from appliance.cli.main import main; sys.argv[0] = 'windhover'; main()"


def write_weights(path: Path, *, vocab_size: int = CONFIG.vocab_size, first: int = 1) -> None:
    """Write a plain VQF file of kind F32, with a tokenizer and without a template.

    Args:
        path: the file.
        vocab_size: 128 bytes of the file each.
        first: value of the first tensor of each extent, by which models differ.
    """
    config = replace(CONFIG, vocab_size=vocab_size)
    plan = [
        ExtentPlan(
            extent.name,
            tuple(TensorSpec(tensor.name, "F32", tensor.shape) for tensor in extent.tensors),
        )
        for extent in required_extents(config)
    ]
    specs = {extent.name: extent.tensors for extent in plan}

    def source(name: str) -> Iterator[np.ndarray | bytes]:
        if name == "tokenizer":
            yield TOKENIZER
            return
        for number, spec in enumerate(specs[name]):
            values = np.full(spec.shape, number + first, np.float32)
            yield values if values.ndim == 1 else pack("F32", {"w": values}, *spec.shape)

    text = ExtentPlan("tokenizer", raw_bytes_length=len(TOKENIZER))
    write_vqf(path, config, TokenizerConfig(None, (2,), False), [*plan, text], source)


@dataclass(frozen=True)
class Result:
    """How a command ended: exit code, the object of `--json`, what it said to a person."""

    exit_code: int
    value: dict[str, Any]
    err: str

    @property
    def reason(self) -> str | None:
        """The stable code of a refusal."""
        return self.value.get("reason")


class Workshop:
    """A folder and what is made in it."""

    def __init__(self, folder: Path) -> None:
        """Work in `folder`."""
        self.folder = folder

    def __call__(self, *words: object) -> Result:
        """Run a command with `--json`; names of files are relative to nothing, so give paths."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            exit_code = run([*map(str, words), "--json"])
        lines = out.getvalue().splitlines()
        value = json.loads(lines[-1]) if lines else {}
        assert exit_code == value.get("exit_code", 0)
        return Result(exit_code, value, err.getvalue())

    def done(self, *words: object) -> Result:
        """Run a command that has to succeed."""
        result = self(*words)
        assert result.exit_code == 0, result.err
        return result

    def path(self, name: str) -> Path:
        """Return the path of a file in the folder."""
        return self.folder / name

    def weights(self, name: str = "model.vqf", **settings: int) -> Path:
        """Make weights."""
        write_weights(self.path(name), **settings)
        return self.path(name)

    def key(self, name: str, role: str, *, passphrase: bytes | None = None) -> Path:
        """Make NAME.pem and NAME.pub.pem; return the private one."""
        key = sm2.generate()
        path = self.path(f"{name}.pem")
        write_private_key(path, key, role=role, passphrase=passphrase)
        write_public_key(self.public(name), key.public_key, role=role)
        return path

    def public(self, name: str) -> Path:
        """Return the public key of a name."""
        return self.path(f"{name}.pub.pem")

    def secret(self, name: str, content: bytes) -> Path:
        """Make a file that only its owner can read."""
        path = self.path(name)
        path.touch(mode=0o600)
        path.write_bytes(content)
        return path

    def trust(
        self,
        *lines: str,
        keys: dict[str, str],
        key_lines: dict[str, str] | None = None,
        sealed: bool = False,
        signed: bool = True,
    ) -> Path:
        """Write trust.toml.

        Args:
            lines: tables of it, as text.
            keys: names and roles of keys that `key` made.
            key_lines: what stands in the table of a key besides.
            sealed: `require_sealed`.
            signed: `require_signed`.
        """
        text = ["version = 1", "[policy]", f"require_sealed = {str(sealed).lower()}"]
        text.append(f"require_signed = {str(signed).lower()}")
        for name, role in keys.items():
            pem = self.public(name).read_text().split("-----")[2]
            der = base64.b64encode(base64.b64decode(pem)).decode()
            text += [f"[keys.{key_name(self.path(name))}]", f'role = "{role}"']
            text += [f'public_key = "{der}"', (key_lines or {}).get(name, "")]
        path = self.path("trust.toml")
        path.write_text("\n".join([*text, *lines]) + "\n")
        return path


def line_table(name: str, *signers: str, threshold: int = 1, minimum_release: int = 1) -> str:
    """Return the table of a line of a trust file."""
    names = ", ".join(f'"{signer}"' for signer in signers)
    return (
        f"[lines.{name}]\nsigners = [{names}]\nthreshold = {threshold}\n"
        f"minimum_release = {minimum_release}"
    )
