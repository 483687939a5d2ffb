"""What an answer says: transcripts (SPEC.md section 3)."""

from __future__ import annotations

from verifier import cbor
from verifier.errors import LOWER, require

CONTENT, REFUSAL, NAME, ARGUMENTS, EMBEDDING, FINISH = range(1, 7)
MAX_ENTRIES = 65_536
MAX_INDEX = 65_535
MAX_BYTES = 64 << 20

Place = tuple[int, int, int, int]  # choice, group of the kind, item, kind: in the order of entries
Entries = dict[Place, bytes]
_REASON_SIGNS = (LOWER + "_").encode("ascii")


def place(choice: int, kind: int, item: int = 0) -> Place:
    """Return the place of a choice's piece of this kind; items are calls of tools."""
    return choice, NAME if kind == ARGUMENTS else kind, item, kind


def decode(data: bytes) -> Entries:
    """Read a transcript (MalformedError)."""
    value = cbor.decode(data, max_bytes=MAX_BYTES, max_items=1 + 5 * MAX_ENTRIES)
    require(isinstance(value, list), "transcript")
    entries: Entries = {}
    before: Place | tuple[()] = ()
    for entry in value:
        kinds = [type(part) for part in entry] if isinstance(entry, list) else []
        require(kinds == [int, int, int, bytes], "transcript")
        kind, choice, item, content = entry
        here = place(choice, kind, item)
        require(here > before, "transcript")
        entries[here] = content
        before = here
    return checked(entries)


def finish_reasons(entries: Entries) -> list[bytes]:
    """Return the finish reasons of all choices."""
    return [content for (*_, kind), content in entries.items() if kind == FINISH]


def encode(entries: Entries) -> bytes:
    """Return the transcript's bytes."""
    parts = [cbor.head(4, len(entries))]
    for (choice, _, item, kind), content in sorted(entries.items()):
        heads = (cbor.head(0, kind), cbor.head(0, choice), cbor.head(0, item))
        parts += [b"\x84", *heads, cbor.head(2, len(content)), content]
    return b"".join(parts)


def is_prefix(received: Entries, whole: Entries) -> bool:
    """Return whether each entry that was received begins the one of the same place."""
    return all(
        here in whole
        and (content == whole[here] if here[3] == FINISH else whole[here].startswith(content))
        for here, content in received.items()
    )


def checked(entries: Entries) -> Entries:
    """Return entries of any order if they make a transcript (MalformedError)."""
    require(len(entries) <= MAX_ENTRIES, "transcript")
    for (choice, group, item, kind), content in entries.items():
        good = 0 <= choice <= MAX_INDEX and 0 <= item <= MAX_INDEX
        good = good and place(choice, FINISH) in entries and (item == 0 or group == NAME)
        if kind == FINISH:
            good = good and 0 < len(content) <= 32 and not content.strip(_REASON_SIGNS)
        elif kind == EMBEDDING:
            good = good and len(content) > 0 and len(content) % 4 == 0
        else:
            good = good and CONTENT <= kind <= ARGUMENTS and (kind == NAME or content != b"")
            good = good and (kind != ARGUMENTS or place(choice, NAME, item) in entries)
            good = good and content.decode("utf-8", "replace").encode("utf-8") == content
        require(good, "transcript")
    return entries
