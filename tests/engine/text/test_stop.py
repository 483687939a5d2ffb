from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ConfigError
from engine.text.stop import StopMatcher

letters = st.text("ab", min_size=1, max_size=6)
stop_lists = st.lists(letters, max_size=4)
pieces = st.lists(st.text("abc", max_size=5), max_size=12)


def naive(text: str, stops: list[str]) -> tuple[str, str | None]:
    """Search the whole text: the match that ends first, of those the longest."""
    for end in range(1, len(text) + 1):
        matches = [stop for stop in stops if text[:end].endswith(stop)]
        if matches:
            longest = max(matches, key=len)
            return text[: end - len(longest)], longest
    return text, None


def run(stops: list[str], parts: list[str]) -> tuple[str, str | None]:
    matcher = StopMatcher(stops)
    released = ""
    for part in parts:
        release = matcher.push(part)
        released += release.text
        if release.stop is not None:
            return released, release.stop
    return released + matcher.finish(), None


@given(stop_lists, pieces)
def test_any_split_gives_what_a_search_of_the_whole_gives(stops, parts) -> None:
    assert run(stops, parts) == naive("".join(parts), stops)


@given(stop_lists, st.text("abc", max_size=40))
def test_only_the_possible_beginning_of_a_stop_is_held_back(stops, text) -> None:
    matcher, released = StopMatcher(stops), ""
    for position, character in enumerate(text, start=1):
        release = matcher.push(character)
        released += release.text
        if release.stop is not None:
            return
        held = text[len(released) : position]
        assert text[:position] == released + held
        suffixes = [text[cut:position] for cut in range(position)]
        possible = [s for s in suffixes if any(stop.startswith(s) for stop in stops)]
        assert len(held) == max(map(len, possible), default=0)


def test_a_stop_across_tokens() -> None:
    matcher = StopMatcher([" O P Q"])
    assert [matcher.push(text).text for text in (" M", " N", " O", " P")] == [" M", " N", "", ""]
    assert matcher.push(" Q R") == ("", " O P Q")


def test_held_text_is_released_once_it_cannot_match() -> None:
    matcher = StopMatcher(["User:"])
    assert matcher.push("User") == ("", None)
    assert matcher.push("s are") == ("Users are", None)


def test_held_text_is_released_at_the_end() -> None:
    matcher = StopMatcher(["###"])
    assert matcher.push("a##") == ("a", None)
    assert matcher.finish() == "##"
    assert matcher.finish() == ""


def test_nothing_follows_a_match() -> None:
    matcher = StopMatcher(["x"])
    assert matcher.push("axb") == ("a", "x")
    assert matcher.push("cx") == ("", None)
    assert matcher.finish() == ""


def test_without_stops_text_passes() -> None:
    assert StopMatcher([]).push("anything") == ("anything", None)


def test_the_longest_of_two_at_the_same_end_wins_and_the_first_end_before_all() -> None:
    assert StopMatcher(["b", "ab"]).push("xab") == ("x", "ab")
    assert StopMatcher(["abcd", "bc"]).push("xabcd") == ("xa", "bc")


@pytest.mark.parametrize("stops", [[""], ["a", ""], ["x" * 1001], ["a"] * 17], ids=repr)
def test_bounds(stops: list[str]) -> None:
    with pytest.raises(ConfigError):
        StopMatcher(stops)


def test_the_largest_allowed_search_is_quick() -> None:
    matcher = StopMatcher(["a" * 999 + chr(98 + i) for i in range(16)])
    for _ in range(20):
        matcher.push("a" * 500)
    assert len(matcher.finish()) == 999
