"""Alterations that know what they alter: CBOR, bundles, proofs, trust files and saved answers."""

from __future__ import annotations

from crypto import cbor
from tests.verifier.bundle_case import sm3

EDGES = (
    *(0, 1, 23, 24, 255, 256, 65_535, 65_536, (1 << 32) - 1, 1 << 32),
    *((1 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
    *(-1, -24, -25, -256, -(1 << 31), -(1 << 53) + 1, -(1 << 53), -(1 << 63)),
)
HEADS = bytes.fromhex("0001171819 1a1b1c1f20383b3f40575f6060788097989fa0b7bfc0c2d2f4f5f6f7f8f9fbff")


class Draws:
    """Numbers that follow from a seed."""

    def __init__(self, seed):
        self.seed, self.count = seed, 0

    def below(self, limit):
        self.count += 1
        return int.from_bytes(sm3(f"{self.seed} {self.count}".encode())[:6], "big") % limit

    def one_of(self, values):
        values = list(values)
        return values[self.below(len(values))]


def flipped(data, draws):
    """Return bytes with a few of them altered, taken out, doubled, or made heads of CBOR."""
    found = bytearray(data or b"\0")
    for _ in range(1 + draws.below(3)):
        at = draws.below(len(found))
        match draws.below(6):
            case 0 | 1:
                found[at] ^= 1 << draws.below(8)
            case 2:
                found[at] = draws.one_of(HEADS)
            case 3:
                del found[at : at + 1 + draws.below(4)]
            case 4:
                found[at:at] = found[at : at + 1 + draws.below(40)]
            case _:
                found = found[: at + 1]
        found = found or bytearray(b"\0")
    return bytes(found)


def value_edited(value, draws):
    """Return a value of CBOR of which one part, found by going down, is another."""
    if draws.below(4) and isinstance(value, dict) and value:
        key = draws.one_of(value)
        if draws.below(6) == 0:
            return {name: part for name, part in value.items() if name != key}
        if draws.below(8) == 0:
            return value | {draws.one_of((key, "x", -70299, "__proto__")): draws.one_of((0, b""))}
        return value | {key: value_edited(value[key], draws)}
    if draws.below(4) and isinstance(value, list) and value:
        return list_edited(value, draws)
    if isinstance(value, int) and draws.below(3):
        near = min(max(value + draws.one_of((1, -1, 2, 1000, -1000)), EDGES[-1]), EDGES[15])
        return draws.one_of((near, near, draws.one_of(EDGES)))
    if isinstance(value, bytes) and draws.below(3):
        zeros = bytes(len(value))
        return draws.one_of((value[:-1], value + b"\0", b"", zeros, flipped(value, draws)))
    if isinstance(value, str) and draws.below(3):
        texts = (
            value + "\n",
            value + "\0",
            value[:-1],
            value.upper(),
            "",
            value + "é",
            " " + value,
        )
        return draws.one_of((*texts, "production", "dev", "nonce", "server", "stop", "none"))
    return draws.one_of(
        (*EDGES, "", "x", True, False, [], {}, b"", {1: 2}, [[]], value, bytes(32), "\U0001f600")
    )


WORDS = (
    *("production", "dev", "signed", "unsigned", "nonce", "server", "request", "stop", "length"),
    *("none", "error", "full", "stream", "locked", "open", "chat-8b", "chat-9b", "box-2", "lost"),
)


def value_nudged(value, draws):
    """Return a value of which one part is another of the same kind, so that readers mostly pass."""
    if isinstance(value, dict) and value:
        key = draws.one_of(value)
        if draws.below(12) == 0:
            return {name: part for name, part in value.items() if name != key}
        return value | {key: value_nudged(value[key], draws)}
    if isinstance(value, list) and value:
        at = draws.below(len(value))
        return [*value[:at], value_nudged(value[at], draws), *value[at + 1 :]]
    if isinstance(value, bool) or not isinstance(value, int | bytes | str):
        return value
    if isinstance(value, int):
        step = draws.one_of((1, -1, 2, 1000, -1000, 60_000, -60_000, 1 << 40))
        return min(max(0, value + step), (1 << 64) - 1)
    if isinstance(value, str):
        return draws.one_of(WORDS)
    found = bytearray(value or b"\0")
    found[draws.below(len(found))] ^= 1 << draws.below(8)
    return bytes(found)


def list_edited(values, draws):
    """Return a list with an element altered, taken out, doubled, or exchanged; proofs are lists."""
    at, other = draws.below(len(values)), draws.below(len(values))
    match draws.below(6):
        case 0:
            return values[:at] + values[at + 1 :]
        case 1:
            return values[: at + 1] + values[at:]
        case 2:
            swapped = list(values)
            swapped[at], swapped[other] = values[other], values[at]
            return swapped
        case 3:
            return [*values, draws.one_of((bytes(32), values[at]))]
        case 4:
            return values[::-1]
    return [*values[:at], value_edited(values[at], draws), *values[at + 1 :]]


def encoded(value, draws):
    """Encode a value with one thing, somewhere inside it, that is not in the one form."""
    total = _count(value)
    return _encoded(value, [draws.below(total)], draws)


def _count(value):
    if isinstance(value, dict):
        return 1 + sum(1 + _count(part) for part in value.values())
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 1


def _encoded(value, left, draws):
    """Encode; the item at which `left` is 0 is written in another form."""
    here = left[0] == 0
    left[0] -= 1
    if isinstance(value, dict):
        pairs = []
        for key, part in cbor.decode(cbor.encode(value)).items():
            pairs.append((_encoded(key, left, draws), _encoded(part, left, draws)))
        if here and pairs:
            at = draws.below(len(pairs))
            match draws.below(3):
                case 0:
                    pairs.insert(at, pairs[at])
                case 1:
                    pairs.insert(draws.below(len(pairs)), pairs.pop(at))
                case _:
                    pairs.insert(at, (pairs[at][0], draws.one_of((b"\0", b"\xf6", b"\x40"))))
        return _head(5, len(pairs), here, draws) + b"".join(map(b"".join, pairs))
    if isinstance(value, list):
        parts = [_encoded(part, left, draws) for part in value]
        return _head(4, len(parts), here, draws) + b"".join(parts)
    if isinstance(value, bool):
        return draws.one_of((b"\xf8\x15", b"\xf6", b"\xf9\0\0")) if here else cbor.encode(value)
    if isinstance(value, int):
        if here and draws.below(4) == 0:
            return draws.one_of((b"\xf9\x80\x00", b"\xfb\x80" + bytes(7), b"\xc2\x41\x00", b"\xf7"))
        return _head(int(value < 0), value if value >= 0 else -1 - value, here, draws)
    data = value.encode() if isinstance(value, str) else value
    if here and draws.below(4) == 0:
        data += draws.one_of((b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"))
    return _head(3 if isinstance(value, str) else 2, len(data), here, draws) + data


def _head(major, argument, here, draws):
    """Return a head; where `here`, often a longer one, another argument, or no length at all."""
    wider = 0
    if here:
        match draws.below(4):
            case 0:
                wider = 1
            case 1:
                argument = min(max(0, argument + draws.one_of((1, -1, 2))), EDGES[15])
            case 2 if 2 <= major <= 5:
                return bytes([major << 5 | 31])
            case _:
                pass
    limits = (24, 1 << 8, 1 << 16, 1 << 32, 1 << 64)
    size = min(4, wider + next(n for n, limit in enumerate(limits) if argument < limit))
    if size == 0:
        return bytes([major << 5 | argument])
    return bytes([major << 5 | 23 + size]) + argument.to_bytes(1 << (size - 1), "big")


TRUST_WORDS = (
    b"\n", b"\r", b"\r\n", b"\t", b"#", b'"', b"=", b"[", b"]", b".", b",", b" ", b"0", b"-", b"+1",
    b"1e0", b"true", b"false", b"'", b"\\", b"\xef\xbb\xbf", b"\xe2\x80\xae", b"\xff", b"\0", b"[[",
    b"version = 1\n", b"[keys]\n", b"[policy]\n", b"[revocations]\n", b"required = false\n",
    b"minimum_sequence = 5\n", b"maximum_age_days = 36500\n", b"minimum_release = 3\n",
    b"threshold = 2\n", b'["weights"]', b'"weights", "weights"', b"9007199254740992",
    b'not_after = "2026-02-29T00:00:00Z"\n', b'not_before = "2027-01-15T08:00:00Z"\n',
    b'not_after = "2027-01-15T08:00:00Z"\n', b'not_before = "2027-01-15T24:00:00Z"\n',
    b'[lines."chat-8b"]\n', b"[keys.__proto__]\n", b"__proto__ = 1\n", b'[lines.constructor]\n',
    b"require_signed = false\n", b'role = "revoke"\n', b'[logs."a.b"]\n', b"[logs.x.y]\n", b"_=1\n",
)  # fmt: skip


def trust_edited(data, draws):
    """Return a trust file with lines moved or taken out, or words put in."""
    for _ in range(1 + draws.below(2)):
        lines = data.splitlines(keepends=True) or [b"\n"]
        at = draws.below(len(lines))
        match draws.below(7):
            case 0:
                del lines[at]
            case 1:
                lines.insert(draws.below(len(lines)), lines[at])
            case 2:
                lines.insert(at, draws.one_of(TRUST_WORDS))
            case 3:
                line, place = lines[at], draws.below(len(lines[at]) + 1)
                lines[at] = line[:place] + draws.one_of(TRUST_WORDS) + line[place:]
            case 4:
                roles = (b"attest", b"weights", b"revoke", b"witness")
                lines[at] = lines[at].replace(draws.one_of(roles), draws.one_of(roles))
            case 5:
                words = lines[at].split(b" ")
                words[draws.below(len(words))] = draws.one_of(TRUST_WORDS)
                lines[at] = b" ".join(words)
            case _:
                return flipped(data, draws)
        data = b"".join(lines)
    return data


ANSWER_WORDS = (
    b"\n", b"\n\n", b"\r\n", b"\r", b"data:", b"data: ", b"data: [DONE]\n\n", b": x\n",
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u", b"\\u0000", b"\\ud83d", b"\\ude00",
    b"\\ud83d\\ude00", b"\\u00e9", b"\\/", b"\\x", b"\xff", b"\xed\xa0\x80", b"\xc3\xa9", b"\0",
    b"\xef\xbb\xbf", b"\xf0\x9f\x98\x80", b"\xe2\x80\xa8", b"null", b"true", b"0", b"-0", b"-1",
    b"1e400", b"65535", b"65536", b"1.0", b"1.5", b"1e2", b"01", b"1e-400",
    b"123456789012345678901234567890",
    b"NaN", b"Infinity", b"{}", b"[]", b'""', b'"index":0,', b'"index":1,', b'"choices":[],',
    b'"data":[],', b'"content":"a",', b'"content":null,', b'"refusal":"r",',
    b'"finish_reason":null,', b'"finish_reason":"stop",', b'"text":"hello",', b'"message":{},',
    b'"delta":{},',
    b'"__proto__":{},', b'"tool_calls":[{"index":0,"function":{"name":"f"}}],', b'"function":null,',
    b'"name":null,',
    b'"embedding":[1,2.5],', b'"embedding":"AAAAAA==",', b"3.4028235677973366e38", b" ", b"\t",
    b"\x0b",
)  # fmt: skip


def answer_edited(data, draws):
    """Return a saved answer with words put in, pieces doubled or left out, or bytes altered."""
    for _ in range(1 + draws.below(2)):
        at, to = sorted((draws.below(len(data) + 1), draws.below(len(data) + 1)))
        match draws.below(6):
            case 0 | 1:
                data = data[:at] + draws.one_of(ANSWER_WORDS) + data[at:]
            case 2:
                places = [i for i, byte in enumerate(data) if byte in b'{}[],:"\n']
                if places:
                    at = draws.one_of(places) + 1
                    data = data[:at] + draws.one_of(ANSWER_WORDS) + data[at:]
            case 3:
                data = data[:at] + data[min(to, at + 6) :]
            case 4:
                data = data[:to] + data[at:]
            case _:
                data = flipped(data, draws)
    return data
