// The deterministic subset of CBOR (crypto/README.md, section CBOR). Maps become Map, integers
// beyond 2^53 - 1 BigInt.

const CBOR_SIMPLE = new Map([
  [22, "null"], [23, "undefined"], [25, "float"], [26, "float"], [27, "float"],
  [31, "break"],
]);
const CBOR_LEAST = [24, 0x100, 0x10000, 0x100000000];

/** The one value that the bytes are the encoding of. */
function decodeCbor(bytes, { maxBytes = 65536, maxItems = 65536, maxDepth = 8 } = {}) {
  if (bytes.length > maxBytes) throw new Refused("max-bytes", maxBytes);
  const reader = new CborReader(bytes, maxItems, maxDepth);
  const value = reader.item(0);
  if (reader.at !== bytes.length) throw new Refused("trailing-bytes", reader.at);
  return value;
}

class CborReader {
  constructor(bytes, maxItems, maxDepth) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.left = maxItems;
    this.maxDepth = maxDepth;
    this.at = 0;
  }

  item(depth) {
    const start = this.at;
    if (start >= this.bytes.length) throw new Refused("truncated", start);
    if (this.left-- === 0) throw new Refused("max-items", start);
    const major = this.bytes[start] >> 5;
    const info = this.bytes[start] & 31;
    this.at++;
    if (major === 7) return this.simple(info, start);
    if (major === 6) throw new Refused("tag", start);
    if (info === 31) throw new Refused(major < 2 ? "reserved-code" : "indefinite-length", start);
    const argument = this.argument(info, start);
    if (major === 0) return argument;
    if (major === 1) return this.negative(argument, start);
    if (major === 2) return this.string(argument, start);
    if (major === 3) {
      const text = this.string(argument, start);
      if (utf8Fault(text) >= 0) throw new Refused("text-utf8", start);
      return textOfUtf8(text, "text-utf8");
    }
    const least = major === 5 ? 2 : 1;
    if (argument > Math.floor((this.bytes.length - this.at) / least)) {
      throw new Refused("count-exceeds-input", start);
    }
    if (depth >= this.maxDepth) throw new Refused("max-depth", start);
    return major === 5 ? this.map(argument, depth) : this.array(argument, depth);
  }

  simple(info, start) {
    if (info === 20) return false;
    if (info === 21) return true;
    throw new Refused(CBOR_SIMPLE.get(info) ?? "simple-value", start);
  }

  argument(info, start) {
    if (info < 24) return info;
    if (info > 27) throw new Refused("reserved-code", start);
    const size = 1 << (info - 24);
    if (this.at + size > this.bytes.length) throw new Refused("truncated", start);
    let argument;
    if (size === 1) argument = this.view.getUint8(this.at);
    else if (size === 2) argument = this.view.getUint16(this.at);
    else if (size === 4) argument = this.view.getUint32(this.at);
    else argument = this.view.getBigUint64(this.at);
    this.at += size;
    if (argument < CBOR_LEAST[info - 24]) throw new Refused("shortest-form", start);
    return argument <= Number.MAX_SAFE_INTEGER ? Number(argument) : argument;
  }

  negative(argument, start) {
    if (argument > 0x7fffffffffffffffn) throw new Refused("integer-range", start);
    const value = -1n - BigInt(argument);
    return value >= -Number.MAX_SAFE_INTEGER ? Number(value) : value;
  }

  string(length, start) {
    if (length > this.bytes.length - this.at) throw new Refused("length-exceeds-input", start);
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  array(count, depth) {
    const found = [];
    for (let i = 0; i < count; i++) found.push(this.item(depth + 1));
    return found;
  }

  map(count, depth) {
    const found = new Map();
    let before = null;
    for (let i = 0; i < count; i++) {
      const start = this.at;
      const major = (this.bytes[start] ?? 0) >> 5;
      if (major !== 3 && major > 1) throw new Refused("key-type", start);
      const key = this.item(depth + 1);
      const encoded = this.bytes.subarray(start, this.at);
      const order = before === null ? -1 : compareBytes(before, encoded);
      if (order > 0) throw new Refused("key-order", start);
      if (order === 0) throw new Refused("duplicate-key", start);
      before = encoded;
      found.set(key, this.item(depth + 1));
    }
    return found;
  }
}

/** The head of an item, for arguments below 2^32. */
function cborHead(major, argument) {
  if (argument < 24) return Uint8Array.of((major << 5) | argument);
  const size = argument < 0x100 ? 1 : argument < 0x10000 ? 2 : 4;
  const head = new Uint8Array(1 + size);
  head[0] = (major << 5) | (size === 1 ? 24 : size === 2 ? 25 : 26);
  for (let i = 0; i < size; i++) head[1 + i] = argument / 2 ** (8 * (size - 1 - i));
  return head;
}
