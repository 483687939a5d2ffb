// SM3, GB/T 32905-2016.

const SM3_START = [
  0x7380166f, 0x4914b2b9, 0x172442d7, 0xda8a0600, 0xa96f30bc, 0x163138aa, 0xe38dee4d, 0xb0fb0e4e,
];
const SM3_CONSTANTS = Int32Array.from({ length: 64 }, (_, j) => {
  const word = j < 16 ? 0x79cc4519 : 0x7a879d8a;
  const turn = j % 32;
  return turn === 0 ? word : (word << turn) | (word >>> (32 - turn));
});

class Sm3 {
  constructor() {
    this.state = Int32Array.from(SM3_START);
    this.words = new Int32Array(68);
    this.rest = new Uint8Array(64);
    this.filled = 0;
    this.length = 0;
  }

  update(bytes) {
    this.length += bytes.length;
    let at = 0;
    if (this.filled > 0) {
      at = Math.min(64 - this.filled, bytes.length);
      this.rest.set(bytes.subarray(0, at), this.filled);
      this.filled += at;
      if (this.filled < 64) return this;
      this.compress(this.rest, 0);
    }
    for (; at + 64 <= bytes.length; at += 64) this.compress(bytes, at);
    this.rest.set(bytes.subarray(at));
    this.filled = bytes.length - at;
    return this;
  }

  /** The 32 bytes; the object cannot be used any more. */
  digest() {
    const high = Math.floor(this.length / 0x20000000);
    const low = (this.length % 0x20000000) * 8;
    const tail = new Uint8Array((this.filled < 56 ? 64 : 128) - this.filled);
    const view = new DataView(tail.buffer);
    tail[0] = 0x80;
    view.setUint32(tail.length - 8, high);
    view.setUint32(tail.length - 4, low);
    this.update(tail);
    const digest = new DataView(new ArrayBuffer(32));
    this.state.forEach((word, i) => digest.setInt32(4 * i, word));
    return new Uint8Array(digest.buffer);
  }

  compress(bytes, at) {
    const w = this.words;
    const state = this.state;
    for (let j = 0; j < 16; j++, at += 4) {
      w[j] = (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3];
    }
    for (let j = 16; j < 68; j++) {
      const turned = (w[j - 3] << 15) | (w[j - 3] >>> 17);
      const x = w[j - 16] ^ w[j - 9] ^ turned;
      const p1 = x ^ ((x << 15) | (x >>> 17)) ^ ((x << 23) | (x >>> 9));
      w[j] = p1 ^ ((w[j - 13] << 7) | (w[j - 13] >>> 25)) ^ w[j - 6];
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let j = 0; j < 64; j++) {
      const a12 = (a << 12) | (a >>> 20);
      const sum = (a12 + e + SM3_CONSTANTS[j]) | 0;
      const ss1 = (sum << 7) | (sum >>> 25);
      const ff = j < 16 ? a ^ b ^ c : (a & b) | (a & c) | (b & c);
      const gg = j < 16 ? e ^ f ^ g : (e & f) | (~e & g);
      const tt1 = (ff + d + (ss1 ^ a12) + (w[j] ^ w[j + 4])) | 0;
      const tt2 = (gg + h + ss1 + w[j]) | 0;
      d = c;
      c = (b << 9) | (b >>> 23);
      b = a;
      a = tt1;
      h = g;
      g = (f << 19) | (f >>> 13);
      f = e;
      e = tt2 ^ ((tt2 << 9) | (tt2 >>> 23)) ^ ((tt2 << 17) | (tt2 >>> 15));
    }
    state[0] ^= a;
    state[1] ^= b;
    state[2] ^= c;
    state[3] ^= d;
    state[4] ^= e;
    state[5] ^= f;
    state[6] ^= g;
    state[7] ^= h;
  }
}

function sm3(...parts) {
  const hash = new Sm3();
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/** SM3 of an ASCII label, a zero byte and what follows. */
const labelled = (label, ...parts) => sm3(ascii(`${label}\0`), ...parts);
