"""Bodies of good requests, drawn at random over what the interface offers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH

SCHEMA: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
        "kind": {"enum": ["bird", "fish"]},
    },
    "required": ["name", "count", "kind"],
    "additionalProperties": False,
}
TOOL: Final = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {
            "type": "object",
            "properties": {"at": {"enum": ["sky", "sea"]}},
            "required": ["at"],
            "additionalProperties": False,
        },
    },
}
SYSTEM: Final = "You are a warden of a reserve and answer in short sentences."

_SUBJECTS: Final = (
    *("a kestrel over a field", "the tide at noon", "why leaves turn red", "a letter to a friend"),
    *("how bread rises", "rain on a tin roof", "the first snow", "an old map", "a night train"),
)
_WORDS: Final = ("reed", "stone", "river", "wind", "grass", "cloud", "hill", "sand", "owl", "moss")
_STOPS: Final = ("the", ".", "\n\n", " and")


class Asking:
    """Makes bodies for one model."""

    def __init__(
        self, model: str, context_tokens: int, max_tokens: int, draw: np.random.Generator
    ) -> None:
        """Draw from a generator.

        Args:
            model: its name.
            context_tokens: no prompt is longer than a third of them, in characters.
            max_tokens: longest answer.
            draw: where chance comes from.
        """
        self._model = model
        self._prompt_characters = context_tokens // 3
        self._max_tokens = max_tokens
        self._draw = draw

    def request(self, *, is_stream: bool | None, is_long: bool) -> tuple[str, dict[str, Any]]:
        """Return path and fields of a request.

        Args:
            is_stream: whether the answer comes piece by piece; None: either.
            is_long: whether the answer has to be long, in bytes.
        """
        chat = self._chance(0.6)
        fields: dict[str, Any] = {"model": self._model} | self._prompt(chat=chat)
        fields["max_tokens"] = (
            self._max_tokens if is_long else int(self._draw.integers(1, self._max_tokens + 1))
        )
        fields["temperature"] = (0, 0.7, 1.0)[int(self._draw.integers(3))]
        if is_stream or (is_stream is None and self._chance(0.5)):
            fields["stream"] = True
            if self._chance(0.5):
                fields["stream_options"] = {"include_usage": True}
        if is_long or self._chance(0.15):
            most = 20 if is_long else int(self._draw.integers(0, 6))
            fields |= {"logprobs": True, "top_logprobs": most} if chat else {"logprobs": most}
        self._rarely(fields)
        if chat and not is_long:
            self._form(fields)
        return (CHAT_PATH if chat else COMPLETIONS_PATH), fields

    def _rarely(self, fields: dict[str, Any]) -> None:
        """Add what is asked for now and then."""
        if self._chance(0.3):
            fields["seed"] = int(self._draw.integers(1 << 40))
        if self._chance(0.2):
            fields["top_p"] = 0.9
        if self._chance(0.15):
            fields["stop"] = list(_STOPS[: int(self._draw.integers(1, len(_STOPS) + 1))])
        if self._chance(0.1):
            fields["frequency_penalty"] = 0.5

    def _form(self, fields: dict[str, Any]) -> None:
        """Ask for JSON or for calls now and then, and name a cache."""
        if self._chance(0.15):
            fields["prompt_cache_key"] = f"desk {int(self._draw.integers(4))}"
        what = self._draw.random()
        if what < 0.08:
            form = {"name": "found", "strict": True, "schema": SCHEMA}
            fields["response_format"] = {"type": "json_schema", "json_schema": form}
        elif what < 0.12:
            fields["response_format"] = {"type": "json_object"}
        elif what < 0.2 and self._prompt_characters > 200:
            fields["tools"] = [TOOL]
            fields["tool_choice"] = "auto" if self._chance(0.3) else "required"
            fields["parallel_tool_calls"] = self._chance(0.3)
        if what < 0.2:
            # Long enough to come to its end, most of the time.
            fields["max_tokens"] = self._max_tokens

    def _prompt(self, *, chat: bool) -> dict[str, Any]:
        subject = _SUBJECTS[int(self._draw.integers(len(_SUBJECTS)))]
        text = f"Write about {subject}, part {int(self._draw.integers(1000))}."
        if self._chance(0.25):
            text += " Use these words: " + self._words(
                int(self._draw.integers(self._prompt_characters))
            )
        text = text[: self._prompt_characters]
        if not chat:
            return {"prompt": text}
        messages = [{"role": "user", "content": text}]
        if self._chance(0.3) and self._prompt_characters > 200:
            messages.insert(0, {"role": "system", "content": SYSTEM})
        return {"messages": messages}

    def _words(self, characters: int) -> str:
        numbers = self._draw.integers(len(_WORDS), size=characters // 4)
        return " ".join(_WORDS[int(number)] for number in numbers)[:characters]

    def _chance(self, share: float) -> bool:
        return bool(self._draw.random() < share)
