// Bytes, text and the one error that a reader raises.

/** What a reader refuses, by the rule that it breaks and the offset where that shows. */
class Refused extends Error {
  constructor(rule, offset = 0) {
    super(rule);
    this.rule = rule;
    this.offset = offset;
  }
}

const HEX_BYTES = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

const isBytes = (value) => ArrayBuffer.isView(value);

function hexOf(bytes) {
  let text = "";
  for (const byte of bytes) text += HEX_BYTES[byte];
  return text;
}

function bytesOfHex(text) {
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(text.substr(2 * i, 2), 16);
  return bytes;
}

/** Bytes of a text that is ASCII. */
const ascii = (text) => Uint8Array.from(text, (sign) => sign.charCodeAt(0));

/** A string with one character of code 0 .. 255 for each byte: what regular expressions read. */
function latin1Of(bytes) {
  const parts = [];
  for (let at = 0; at < bytes.length; at += 8192) {
    parts.push(String.fromCharCode.apply(null, bytes.subarray(at, at + 8192)));
  }
  return parts.join("");
}

/** -1, 0 or 1 as the first comes before, equals or follows the second, bytewise. */
function compareBytes(first, second) {
  const length = Math.min(first.length, second.length);
  for (let i = 0; i < length; i++) {
    if (first[i] !== second[i]) return first[i] < second[i] ? -1 : 1;
  }
  return Math.sign(first.length - second.length);
}

const equalBytes = (first, second) => compareBytes(first, second) === 0;

function joinBytes(parts) {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** The offset of the first sequence that is not UTF-8, -1 if there is none (RFC 3629). */
function utf8Fault(bytes) {
  let at = 0;
  while (at < bytes.length) {
    const head = bytes[at];
    if (head < 0x80) {
      at++;
      continue;
    }
    const more = head >= 0xc2 && head <= 0xdf ? 1 : (head & 0xf0) === 0xe0 ? 2 : 3;
    if (head < 0xc2 || head > 0xf4 || at + more >= bytes.length) return at;
    const low = head === 0xe0 ? 0xa0 : head === 0xf0 ? 0x90 : 0x80;
    const high = head === 0xed ? 0x9f : head === 0xf4 ? 0x8f : 0xbf;
    if (bytes[at + 1] < low || bytes[at + 1] > high) return at;
    for (let i = 2; i <= more; i++) if ((bytes[at + i] & 0xc0) !== 0x80) return at;
    at += 1 + more;
  }
  return -1;
}

/** The text of UTF-8; `rule` refuses anything else. */
function textOfUtf8(bytes, rule, offset = 0) {
  const fault = utf8Fault(bytes);
  if (fault >= 0) throw new Refused(rule, offset + fault);
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_VALUES = new Map(Array.from(BASE64, (sign, value) => [sign.charCodeAt(0), value]));

/** Bytes of base64 in its one form (RFC 4648 section 4), or null. */
function bytesOfBase64(text) {
  if (text.length % 4 !== 0) return null;
  const filling = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const signs = text.length - filling;
  const bytes = new Uint8Array((text.length / 4) * 3 - filling);
  let bits = 0;
  let count = 0;
  let at = 0;
  for (let i = 0; i < signs; i++) {
    const value = BASE64_VALUES.get(text.charCodeAt(i));
    if (value === undefined) return null;
    bits = ((bits << 6) | value) & 0xffff;
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes[at++] = bits >> count;
    }
  }
  return (bits & ((1 << count) - 1)) === 0 ? bytes : null;
}

/** A text with everything but printable ASCII as escapes (SPEC.md section 7). */
function escaped(text) {
  let shown = "";
  for (const sign of text) {
    if (sign === "\\") shown += "\\\\";
    else if (sign >= " " && sign <= "~") shown += sign;
    else shown += `\\u{${sign.codePointAt(0).toString(16)}}`;
  }
  return shown;
}
