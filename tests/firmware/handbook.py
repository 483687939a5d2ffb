"""The operator's handbook as a program sees it: headings, blocks, and the command lines in them."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from tests.firmware.tools import text_of

LANGUAGES = {"en": "handbook/README.md", "zh": "handbook/README.zh.md"}
ROLES = ("signer", "operator", "auditor")

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (\d+(?:\.\d+)?)? ?(.*)$", re.MULTILINE)
_EXIT = re.compile(r"  # exit (\d+)$")
_SPAN = re.compile(r"`([^`\n]+)`")
_END = re.compile(r"[|;&<>()]+")
_BEFORE = re.compile(r"[|;&()]+|as_service|with_keys|do|then|\{|[A-Z_]+=.*")


class Block(NamedTuple):
    """A fenced block. kind: what stands behind the fence. section: number of the last heading."""

    kind: str
    section: str
    text: str


def read(language: str) -> str:
    """Return the handbook in a language."""
    return text_of(LANGUAGES[language])


def prose(text: str) -> str:
    """Return a text without its blocks."""
    return _FENCE.sub("", text)


def headings(text: str) -> list[tuple[int, str]]:
    """Return level and number of each heading; the title's number is empty."""
    return [(len(level), number) for level, number, _ in _HEADING.findall(prose(text))]


def blocks(text: str) -> list[Block]:
    """Return all blocks in their order."""
    found = []
    for match in _FENCE.finditer(text):
        numbers = [number for _, number, _ in _HEADING.findall(prose(text[: match.start()]))]
        found.append(Block(match[1], numbers[-1] if numbers else "", match[2]))
    return found


def spans(text: str) -> list[str]:
    """Return what stands in backquotes outside of blocks."""
    return _SPAN.findall(prose(text))


def script(block: str) -> str:
    """Return a block as bash runs it: a line that is meant to fail has to, with its exit code."""
    lines = []
    for line in block.replace("\\\n", "\\\0").splitlines():
        whole = line.replace("\\\0", "\\\n")
        if (match := _EXIT.search(whole)) is None:
            lines.append(whole)
            continue
        lines += ["code=0", f"{whole[: match.start()]} || code=$?", f"test $code = {match[1]}"]
    return "\n".join(lines) + "\n"


def commands(block: str) -> list[list[str]]:
    """Return the words of each `windhover ...` of a block, the name of the program left out."""
    found = []
    for line in block.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
        for place, word in enumerate(words):
            if word == "windhover" and (place == 0 or _BEFORE.fullmatch(words[place - 1])):
                rest = words[place + 1 :]
                end = next((n for n, each in enumerate(rest) if _END.fullmatch(each)), len(rest))
                found.append(rest[:end])
    return found
