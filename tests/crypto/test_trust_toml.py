"""The subset of TOML against its vectors and against the standard library's parser."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto import trust_toml
from crypto.errors import FormatError
from crypto.trust_toml import line_and_column, parse_toml

PROPERTY = settings(deadline=None, max_examples=150)

NAME = st.text("abcXYZ019_-", min_size=1, max_size=5)
PART = NAME | st.text("ab.-", min_size=1, max_size=4).map(lambda text: f'"{text}"')
STRING = st.text(
    st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"), exclude_characters='"\\'),
    max_size=8,
).map(lambda text: f'"{text}"')
SPACE = st.sampled_from(["", "", " ", "\t", "  "])
BLANK = st.sampled_from(["", "", " ", "\n", "# x ]\n", "\r\n\t"])
END = st.builds(
    "{}{}{}".format, SPACE, st.sampled_from(["", "", "# c"]), st.sampled_from(["\n", "\r\n"])
)
ARRAY = st.builds(
    lambda elements, comma: "[" + ",".join(elements) + comma + "]",
    st.lists(st.builds("{}{}{}".format, BLANK, STRING, BLANK), min_size=1, max_size=3),
    st.sampled_from(["", ",", ", \n"]),
) | BLANK.map("[{}]".format)
INTEGER = st.integers(0, trust_toml.MAX_INTEGER).map(str)
VALUE = st.one_of(STRING, ARRAY, INTEGER, st.sampled_from(["true", "false"]))
PAIR = st.builds("{}{}{}={}{}{}".format, SPACE, NAME, SPACE, SPACE, VALUE, END)
HEADER = st.builds(
    lambda space, parts, end: f"{space}[{'.'.join(parts)}]{end}",
    SPACE,
    st.lists(PART, min_size=1, max_size=2),
    END,
)
FILE = st.lists(PAIR | HEADER | END, max_size=12).map("".join)
# What a person or an attacker writes by mistake or on purpose, in the same alphabet.
NEARLY = st.text("ab=\"'[]{}.,#\\ \t\r\n0123_+-truefals\u00e9\ufeff\x00", max_size=40)


def data_of(vector):
    """Return the file of a vector."""
    if "hex" in vector:
        return bytes.fromhex(vector["hex"])
    if "parts" in vector:
        return "".join(text * count for text, count in vector["parts"]).encode()
    return vector["text"].encode()


def read_by_the_standard_library(data):
    """Return what `tomllib` reads, or None where it refuses."""
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return None


def kinds(value):
    """Return a value with the type of everything in it, because True == 1."""
    if isinstance(value, dict):
        return {name: kinds(inner) for name, inner in value.items()}
    return (type(value), value)


def agrees(data):
    """Say whether the subset accepts a file; if so, it means the same to the standard library."""
    try:
        plain = parse_toml(data).plain()
    except FormatError as error:
        refusal = error
    else:
        assert kinds(plain) == kinds(read_by_the_standard_library(data))
        return True
    assert 0 <= refusal.offset <= len(data)
    return False


def test_valid_vectors(load_vectors):
    vectors = load_vectors("trust_valid.json")["toml"]
    assert len(vectors) > 15
    for vector in vectors:
        data = data_of(vector)
        assert kinds(parse_toml(data).plain()) == kinds(vector["value"]), vector["id"]
        assert kinds(read_by_the_standard_library(data)) == kinds(vector["value"]), vector["id"]


def test_invalid_vectors(load_vectors):
    vectors = load_vectors("trust_invalid.json")["toml"]
    for vector in vectors:
        data = data_of(vector)
        with pytest.raises(FormatError) as caught:
            parse_toml(data)
        assert (caught.value.rule, caught.value.offset) == (vector["rule"], vector["offset"]), (
            vector["id"]
        )
        assert (read_by_the_standard_library(data) is not None) == vector["toml"], vector["id"]


def test_the_limits_themselves_are_allowed():
    tables = "".join(f"[t{n}]\n" for n in range(trust_toml.MAX_TABLES)).encode()
    assert len(parse_toml(tables).entries) == trust_toml.MAX_TABLES
    keys = "".join(f"k{n}=1\n" for n in range(trust_toml.MAX_KEYS)).encode()
    assert len(parse_toml(keys).entries) == trust_toml.MAX_KEYS
    assert parse_toml(b"#" * trust_toml.MAX_BYTES).entries == {}


@PROPERTY
@given(FILE)
def test_files_of_the_grammar_mean_the_same_to_the_standard_library(text):
    data = text.encode()
    # Of these, only names that stand there twice are refused, and the other parser refuses them.
    if not agrees(data):
        assert read_by_the_standard_library(data) is None


@PROPERTY
@given(FILE, st.data())
def test_damaged_files_are_refused_or_mean_the_same(text, draw):
    at = draw.draw(st.integers(0, len(text)))
    cut = draw.draw(st.integers(0, 3))
    agrees((text[:at] + draw.draw(NEARLY.map(lambda t: t[:2])) + text[at + cut :]).encode())


@PROPERTY
@given(NEARLY)
def test_anything_is_refused_or_means_the_same(text):
    agrees(text.encode())


@PROPERTY
@given(st.binary(max_size=30))
def test_bytes_are_refused_or_mean_the_same(data):
    agrees(data)


def test_entries_know_where_they_stand():
    data = b'a = 1\n[t]\nb  =  "x"\n'
    root = parse_toml(data)
    table = root.entries["t"]
    assert (root.offset, table.offset) == (0, 6)
    assert (table.entries["b"].offset, table.entries["b"].value_offset) == (10, 16)


def test_a_table_made_by_one_below_it_stands_there():
    root = parse_toml(b"# c\n[a.b]\n[a]\n")
    assert root.entries["a"].offset == root.entries["a"].entries["b"].offset == 4


@pytest.mark.parametrize(
    ("offset", "place"), [(0, (1, 1)), (2, (1, 3)), (3, (2, 1)), (4, (3, 1)), (6, (3, 3))]
)
def test_line_and_column(offset, place):
    assert line_and_column(b"ab\n\ncd", offset) == place
