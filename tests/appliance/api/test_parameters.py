"""The published table of fields against the parser, and against the interface's own list."""

from __future__ import annotations

from pathlib import Path

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase as ChatParams
from openai.types.completion_create_params import CompletionCreateParamsBase as CompletionParams
from openai.types.embedding_create_params import EmbeddingCreateParams

from appliance.api import parameters
from appliance.api.parameters import Row, Standing, render, rows
from appliance.api.parse import parse_request
from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH, Parsed
from appliance.api.request_error import UNSUPPORTED, RequestError
from appliance.api.unsupported import NEUTRAL

REQUIRED = {
    CHAT_PATH: {"model": '"m"', "messages": '[{"role":"user","content":"q"}]'},
    COMPLETIONS_PATH: {"model": '"m"', "prompt": '"q"'},
    EMBEDDINGS_PATH: {"model": '"m"', "input": '"q"'},
}
ROWS = list(rows())
ROW_IDS = [f"{row.path[4:]}-{row.name}" for row in ROWS]
TABLE = Path(parameters.__file__).with_name("PARAMETERS.md")


def parse(row: Row, text: str | None) -> Parsed:
    members = dict(REQUIRED[row.path])
    if text is not None:
        members[row.name] = text
    body = ",".join(f'"{name}":{value}' for name, value in members.items())
    return parse_request(row.path, f"{{{body}{row.beside and ','}{row.beside}}}".encode())


@pytest.mark.parametrize("row", ROWS, ids=ROW_IDS)
def test_what_a_row_says_is_what_the_parser_does(row: Row):
    plain = parse(row, None)
    for number, text in enumerate(row.takes):
        changes = parse(row, text) != plain
        if row.standing is not Standing.SUPPORTED:
            assert not changes, text
        elif number == 0:
            assert changes, text
    for text in row.refuses:
        with pytest.raises(RequestError) as caught:
            parse(row, text)
        assert (caught.value.param or "").startswith(row.name), text
        if row.standing is Standing.REFUSED:
            assert (caught.value.param, caught.value.code) == (row.name, UNSUPPORTED)
    if row.name not in REQUIRED[row.path]:
        assert parse(row, "null") == plain
    else:
        assert "null" in row.refuses


@pytest.mark.parametrize(
    ("path", "published"),
    [
        (CHAT_PATH, ChatParams),
        (COMPLETIONS_PATH, CompletionParams),
        (EMBEDDINGS_PATH, EmbeddingCreateParams),
    ],
)
def test_every_field_that_the_client_library_knows_is_in_the_table(path: str, published: type):
    names = [row.name for row in ROWS if row.path == path]
    assert len(set(names)) == len(names)
    ours = set() if path == EMBEDDINGS_PATH else {"top_k", "min_p", "repetition_penalty"}
    streams = set() if path == EMBEDDINGS_PATH else {"stream"}  # in subclasses of the library's
    assert set(names) == {*published.__annotations__, *streams, *ours}
    refused = {row.name for row in ROWS if row.path == path and row.standing is Standing.REFUSED}
    assert refused == NEUTRAL[path].keys()


@pytest.mark.parametrize("path", REQUIRED)
def test_what_is_not_in_the_table_is_refused_by_name(path: str):
    row = Row(path=path, name="colour", standing=Standing.REFUSED, values="", takes=(), refuses=())
    for text in ("null", "0", "{}", '"red"'):
        with pytest.raises(RequestError) as caught:
            parse(row, text)
        assert (caught.value.param, caught.value.code) == ("colour", UNSUPPORTED)


def test_the_published_text_is_rendered_from_the_table():
    assert TABLE.read_text(encoding="utf-8") == render()
