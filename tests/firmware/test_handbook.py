"""The operator's handbook says the same in both languages, and only what is there."""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache

import click
import pytest

from appliance.cli.main import COMMANDS, cli
from tests.firmware.handbook import (
    LANGUAGES,
    ROLES,
    Block,
    blocks,
    commands,
    headings,
    prose,
    read,
    script,
    spans,
)
from tests.firmware.tools import FIRMWARE, text_of
from tests.structure.source import PACKAGES

CHECKOUT = FIRMWARE.parent
ENGLISH, CHINESE = read("en"), read("zh")
BLOCKS = blocks(ENGLISH)
PATH = re.compile(r"(?<![\w/.~}])/(?:etc|usr|var|srv|run)/[\w./*-]*\w")
OWN = re.compile(r"(?:firmware|crypto|appliance|tests|verifier|engine)/[\w./-]+\.\w+")
LINK = re.compile(r"\]\(([^)#]+)\)")
CODE = re.compile(r"[a-z]+(?:-[a-z]+)+")
MOST_ROWS = 30
UNUSED = {"he_chain", "simd", "verifier"}
"""Packages whose messages the handbook does not quote."""

# of the system, or made by a command of the handbook
OTHERS = {
    "/etc/machine-id", "/etc/nftables.d", "/etc/nginx/windhover", "/srv/windhover",
    "/etc/systemd/system/windhover-check.service.d",
    "/run/handover", "/run/nginx", "/usr/share/doc/NAME/copyright", "/usr/lib/windhover/venv",
}  # fmt: skip


@cache
def constants() -> tuple[str, ...]:
    """Return every text in the sources; where a value is filled in stands a zero byte."""
    found: set[str] = set()
    folders = [CHECKOUT / package for package in PACKAGES if package not in UNUSED]
    for path in (path for folder in folders for path in sorted(folder.rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = [
                    part.value if isinstance(part, ast.Constant) else "\0" for part in node.values
                ]
                found.add("".join(map(str, parts)))
    return tuple(sorted(found))


def known_paths() -> tuple[set[str], set[str]]:
    """Return what firmware/README.md names: every path, and the folders of its second table."""
    text = text_of("README.md")
    table = text.partition("## Where things are")[2].partition("\n\nBefore")[0]
    folders = {path for row in table.splitlines() for path in PATH.findall(row.split(" | ")[0])}
    return set(PATH.findall(text)), folders


def is_known(path: str, named: set[str], folders: set[str]) -> bool:
    """Whether a path is named, lies in a folder that is, or is the folder of what is named."""
    if path in named or path in OTHERS:
        return True
    if any(path.startswith(f"{folder}/") for folder in folders | OTHERS):
        return True
    return any(each.startswith(f"{path}/") for each in named)


def parse(words: list[str]) -> None:
    """Let click parse a command line, and run nothing."""
    command: click.Command = cli
    context = click.Context(cli, obj={})
    if words == ["--version"]:
        return
    while isinstance(command, click.Group):
        name, words = words[0], words[1:]
        found = command.get_command(context, name)
        assert found is not None, name
        command, context = found, click.Context(found, parent=context, info_name=name)
    command.make_context(command.name, list(words), parent=context.parent)


def test_there_are_all_sections_in_both_languages() -> None:
    found = headings(ENGLISH)
    assert found == headings(CHINESE)
    assert [number for level, number in found if level == 2] == [str(n) for n in range(1, 14)]
    assert found[0] == (1, "")
    numbers = [number for _, number in found[1:]]
    assert len(set(numbers)) == len(numbers)


def test_both_languages_have_the_same_blocks() -> None:
    assert blocks(CHINESE) == BLOCKS
    assert len(BLOCKS) > 40


def test_both_languages_name_the_same_things() -> None:
    assert set(spans(ENGLISH)) == set(spans(CHINESE))
    assert set(LINK.findall(ENGLISH)) - {"README.zh.md"} == set(LINK.findall(CHINESE)) - {
        "README.md"
    }

    def rows(text: str) -> list[tuple[str, int]]:
        """Return the first word and the width of each row of a table."""
        lines = [line for line in prose(text).splitlines() if line.startswith("|")]
        return [("|---" if line.startswith("| ---") else "|", line.count(" | ")) for line in lines]

    assert rows(ENGLISH) == rows(CHINESE)
    assert len(rows(ENGLISH)) > MOST_ROWS


def test_the_other_language_is_chinese() -> None:
    for paragraph in re.split(r"\n\n+", prose(CHINESE)):
        plain = re.sub(r"`[^`]*`|\([^)]*\)|[#|*\-\s]", "", paragraph)
        chinese = len(re.findall(r"[\u4e00-\u9fff]", plain))
        assert paragraph.startswith("#") or chinese >= len(plain) // 4, paragraph


@pytest.mark.parametrize("block", BLOCKS, ids=[f"{n}-{b.section}" for n, b in enumerate(BLOCKS)])
def test_blocks_say_who_types_them(block: Block) -> None:
    language, *role = block.kind.split()
    assert language in {"sh", "text", "toml"}
    assert (role in [[name] for name in ROLES]) == (language == "sh")
    if language == "sh":
        (loop,) = re.findall(r"^for name in (.*); do$", block.text, re.MULTILINE) or [""]
        for name in loop.split() or [""]:
            for words in commands(block.text.replace("$name", name)):
                parse(words)


def test_command_lines_in_texts_are_real() -> None:
    lines = [shlex.split(span)[1:] for span in spans(ENGLISH) if span.startswith("windhover ")]
    assert len(lines) > 3
    for first, *words in lines:
        assert first in COMMANDS, first
        context = click.Context(cli, obj={})
        command = cli.get_command(context, first)
        if isinstance(command, click.Group) and words:
            command = command.get_command(click.Context(command), words[0])
        assert command is not None, (first, words)
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


@pytest.mark.parametrize(
    "line", ["seal model.vqf", "log new log --key k.pem", "check m.vqf --no-such", "no-such"]
)
def test_a_wrong_command_line_is_seen(line: str) -> None:
    with pytest.raises((click.UsageError, AssertionError)):
        parse(shlex.split(line))


@pytest.mark.parametrize("language", LANGUAGES)
def test_paths_are_those_of_the_machine(language: str) -> None:
    named, folders = known_paths()
    text = read(language)
    found = set(PATH.findall(text))
    assert len(found) > 20
    assert sorted(path for path in found if not is_known(path, named, folders)) == []
    files = set(OWN.findall(prose(text)))
    assert len(files) > 5
    assert [path for path in sorted(files) if not (CHECKOUT / path).exists()] == []
    base = FIRMWARE / "handbook"
    assert [link for link in LINK.findall(text) if not (base / link).exists()] == []


def test_messages_are_in_the_sources() -> None:
    sources = constants()
    lines = [
        line.removeprefix("windhover: ")
        for block in BLOCKS
        if (block.kind == "text" and block.section[0] in "678") or block.section == "10.2"
        if block.kind == "text"
        for line in block.text.splitlines()
    ]
    assert len(lines) > 5
    for line in lines:
        parts = [part.strip() for part in re.split(r"\.\.\.|/srv/\S+:|\d+|\bchat\b|: |, or ", line)]
        for part in (part for part in parts if len(part) > 3):
            assert any(part in text or part in joined(text) for text in sources), part


def joined(text: str) -> str:
    """Return a message as its parts stand beside each other, values left out."""
    return text.replace("\0", "")


def test_codes_are_in_the_sources() -> None:
    sources = set(constants())
    table = CHINESE.partition("### 10.3")[2].partition("## 11")[0]
    codes = {code for row in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
             for code in re.findall(r"`([^`]+)`", row)}  # fmt: skip
    assert len(codes) > 8
    section = ENGLISH.partition("## 6 ")[2].partition("## 7 ")[0]
    for _, said in re.findall(r"(: |\()(`[a-z-]+`(?:, `[a-z-]+`)*)", section):
        codes |= set(re.findall(r"`([a-z-]+)`", said))
    assert {"release-too-old", "floors-rolled-back", "floors-missing"} <= codes
    assert sorted(codes - sources) == []
    for code in ("key-revoked", "software-differs", "unknown-key"):
        assert f"`{code}`" in ENGLISH
        assert code in sources


def test_numbers_for_monitors_are_there() -> None:
    sources = set(constants())
    names = {span for span in spans(ENGLISH) if span.startswith("windhover_")}
    assert len(names) > 3
    for name in names:
        assert name.removeprefix("windhover_").removesuffix("_total") in sources, name


def test_make_targets_exist() -> None:
    makefile = (CHECKOUT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^make ([a-z-]+)", "\n".join(b.text for b in BLOCKS), re.MULTILINE))
    assert "wheelhouse" in targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_a_line_that_is_meant_to_fail_has_to() -> None:
    made = script("good\nbad \\\n  --option  # exit 22\nlast\n")
    assert made == "good\ncode=0\nbad \\\n  --option || code=$?\ntest $code = 22\nlast\n"
    assert commands('(x; windhover log head LOG | tail) > f\nwindhover a "b c" \\\n d; ls\n') == [
        ["log", "head", "LOG"], ["a", "b c", "d"],
    ]  # fmt: skip
