"""What a request asks for: value types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from engine.grammar.spec import GrammarSpec, JsonObject, JsonSchema, Tool
from engine.sampling.parameters import SamplingParameters

CHAT_PATH: Final = "/v1/chat/completions"
COMPLETIONS_PATH: Final = "/v1/completions"
EMBEDDINGS_PATH: Final = "/v1/embeddings"

EmbeddingFormat: TypeAlias = Literal["float", "base64"]

_PLAIN: Final = SamplingParameters()
_JSON_OBJECT: Final = 1
_JSON_SCHEMA: Final = 2
_TOOL_CALLS: Final = 3


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool in an earlier answer.

    id: by which its result names it. name: of the tool. arguments: the text of a JSON object.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: system, developer, user, assistant or tool.
        content: its text; text parts are joined without anything between them; empty for null.
        calls: of an assistant.
        call_id: of a tool: the call that this is the result of; None for the other roles.
    """

    role: str
    content: str
    calls: tuple[Call, ...] = ()
    call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What a request asks for.

    Attributes:
        path: the endpoint's path.
        model: the name that the client gave to the model.
        messages: of a chat; empty elsewhere.
        prompt: the text to continue, of a completion; None elsewhere.
        inputs: the texts to embed; empty elsewhere.
        embedding_format: how vectors are to be written.
        max_tokens: at least 1; None leaves it to the appliance.
        seed: 0 .. 2^64 - 1; None leaves it to nonce or appliance.
        sampling: how tokens are chosen; its seed is 0 where the client gave none.
        stops: strings that end the answer.
        stream: whether the answer is wanted piece by piece.
        include_usage: whether a stream ends with the numbers of tokens.
        tools: what the model may call; empty where `tool_choice` is `none`.
        grammar: what the answer has to look like, None for any text.
        prompt_cache_key: what separates prefix caches of one principal, None without one.
    """

    path: str
    model: str
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    inputs: tuple[str, ...] = ()
    embedding_format: EmbeddingFormat = "float"
    max_tokens: int | None = None
    seed: int | None = None
    sampling: SamplingParameters = _PLAIN
    stops: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False
    tools: tuple[Tool, ...] = ()
    grammar: GrammarSpec | None = None
    prompt_cache_key: str | None = None

    def parameters(self, max_tokens: int) -> dict[str, int]:
        """Return the numbers that a statement states; the rest is in the request's bytes.

        `grammar` is there only with one: 1 a JSON object, 2 a JSON schema, 3 calls of tools. Of
        embeddings there is only `inputs`, their number.

        Args:
            max_tokens: what holds for this answer, also where the client left it open.
        """
        if self.path == EMBEDDINGS_PATH:
            return {"inputs": len(self.inputs)}
        sampling = self.sampling
        numbers = {
            "max_tokens": max_tokens,
            "temperature_millionths": sampling.temperature_millionths,
            "top_k": sampling.top_k,
            "top_p_millionths": sampling.top_p_millionths,
            "min_p_millionths": sampling.min_p_millionths,
            "repetition_penalty_millionths": sampling.repetition_penalty_millionths,
            "presence_penalty_millionths": sampling.presence_penalty_millionths,
            "frequency_penalty_millionths": sampling.frequency_penalty_millionths,
            "logit_biases": len(sampling.logit_bias_millionths),
            "stops": len(self.stops),
        }
        if self.grammar is not None:
            numbers["grammar"] = _number_of(self.grammar)
        return numbers


def _number_of(grammar: GrammarSpec) -> int:
    if isinstance(grammar, JsonObject):
        return _JSON_OBJECT
    return _JSON_SCHEMA if isinstance(grammar, JsonSchema) else _TOOL_CALLS
