"""Errors of the engine: one base class, one line of meaning each."""

from __future__ import annotations


class EngineError(Exception):
    """Base class of every error that the engine raises on purpose."""


class FormatError(EngineError):
    """A VQF file breaks a rule of engine/vqf/FORMAT.md."""

    def __init__(self, rule: str, offset: int, message: str) -> None:
        """Keep the rule's identifier (such as `R12`) and the byte offset at which it was broken."""
        super().__init__(f"{message} (rule {rule}, offset {offset})")
        self.rule = rule
        self.offset = offset


class ConversionError(EngineError):
    """The source of a conversion is damaged, incomplete or contradicts itself."""


class UnsupportedError(EngineError):
    """The source is well formed but uses an architecture, kind or option that is not supported."""


class ConfigError(EngineError):
    """A setting of the caller is outside its range."""


class GrammarError(ConfigError):
    """A grammar was asked for that cannot be held."""

    def __init__(self, keyword: str, reason: str) -> None:
        """Keep which keyword of a schema, or which other part, it is about."""
        super().__init__(f"{keyword}: {reason}")
        self.keyword = keyword
        self.reason = reason


class WeightsError(EngineError):
    """Weights were read and did not verify."""

    def __init__(self, message: str, check: str | None = None) -> None:
        """Keep which comparison of engine/vqf/FORMAT.md section 9 failed (such as `V5`)."""
        super().__init__(message)
        self.check = check


class WeightsUncheckedError(EngineError):
    """Weights could not be checked: unreadable, or changed while they were read."""


class ContextLengthError(EngineError):
    """Prompt and answer do not fit into the model's context."""

    def __init__(self, prompt_tokens: int, max_tokens: int, limit_tokens: int) -> None:
        """Keep the numbers that the caller needs to mend the request."""
        super().__init__(
            f"the prompt has {prompt_tokens} tokens and {max_tokens} were asked for; "
            f"the context holds {limit_tokens}"
        )
        self.prompt_tokens = prompt_tokens
        self.max_tokens = max_tokens
        self.limit_tokens = limit_tokens


class SpillError(EngineError):
    """Cache blocks could not be written to their file, or not be read back."""


class SpillIntegrityError(SpillError):
    """A cache block came back from its file as something else than was written."""


class CancelledError(EngineError):
    """The caller cancelled the generation."""


class NonFiniteError(EngineError):
    """A value that must be finite was not (NUMERICS N12)."""


class TemplateError(EngineError):
    """The chat template is invalid, refused the messages or exceeded its limits."""


class SamplingError(EngineError):
    """Sampling parameters contradict each other or exclude every token."""


class WrongAnswerError(EngineError):
    """The kernels of this machine compute something else than the definition of profile `wh1`."""
