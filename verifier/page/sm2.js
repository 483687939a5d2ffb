// Verification of SM2 signatures, GB/T 32918.2-2016, over the curve of GB/T 32918.5-2017.

const SM2_P = 0xfffffffeffffffffffffffffffffffffffffffff00000000ffffffffffffffffn;
const SM2_N = 0xfffffffeffffffffffffffffffffffff7203df6b21c6052b53bbf40939d54123n;
const SM2_B = 0x28e9fa9e9d9f5e344d5a9e4bcf6509a7f39789f515ab8f92ddbcbd414d940e93n;
const SM2_G = {
  x: 0x32c4ae2c1f1981195f9904466a39c9948fe30bbff2660be1715a4589334c74c7n,
  y: 0xbc3736a2f4f6779c59bdcee36b692153d0a9877cc62a474002df32e52139f0a0n,
};
const SM2_IDENTITY = ascii("1234567812345678");
// SubjectPublicKeyInfo up to the point: ecPublicKey, the curve's OID, a bit string of 65 bytes
const SPKI_HEAD = bytesOfHex("3059301306072a8648ce3d020106082a811ccf5501822d034200");

const numberOf = (bytes) => BigInt(`0x${hexOf(bytes)}`);
const bytesOfNumber = (number) => bytesOfHex(number.toString(16).padStart(64, "0"));
const reduced = (number) => {
  const rest = number % SM2_P;
  return rest < 0n ? rest + SM2_P : rest;
};

function inverse(number) {
  let [a, b, u, v] = [reduced(number), SM2_P, 1n, 0n];
  while (a > 0n) {
    const quotient = b / a;
    [a, b] = [b - quotient * a, a];
    [u, v] = [v - quotient * u, u];
  }
  return reduced(v);
}

/** A public key on the curve, from its SubjectPublicKeyInfo of 91 bytes. */
class PublicKey {
  constructor(spki) {
    const head = spki.subarray(0, SPKI_HEAD.length);
    if (spki.length !== 91 || !equalBytes(head, SPKI_HEAD) || spki[26] !== 4) {
      throw new Refused("public-key");
    }
    this.x = numberOf(spki.subarray(27, 59));
    this.y = numberOf(spki.subarray(59, 91));
    const right = this.x * this.x * this.x - 3n * this.x + SM2_B;
    if (this.x >= SM2_P || this.y >= SM2_P || reduced(this.y * this.y - right) !== 0n) {
      throw new Refused("public-key");
    }
    this.keyId = sm3(spki);
  }

  /** Whether the 64 bytes r, s are a signature of the message in the default identity. */
  verifies(message, signature) {
    if (signature.length !== 64) return false;
    const r = numberOf(signature.subarray(0, 32));
    const s = numberOf(signature.subarray(32));
    if (r < 1n || r >= SM2_N || s < 1n || s >= SM2_N) return false;
    const t = (r + s) % SM2_N;
    if (t === 0n) return false;
    const x = sumOfProducts(s, SM2_G, t, this);
    if (x === null) return false;
    const digest = numberOf(sm3(this.identityDigest(), message));
    return (digest + x) % SM2_N === r;
  }

  identityDigest() {
    const bits = 8 * SM2_IDENTITY.length;
    const numbers = [SM2_P - 3n, SM2_B, SM2_G.x, SM2_G.y, this.x, this.y];
    const head = Uint8Array.of(bits >> 8, bits & 255);
    return sm3(head, SM2_IDENTITY, ...numbers.map(bytesOfNumber));
  }
}

// Points are Jacobian: [X, Y, Z] is (X / Z^2, Y / Z^3), Z = 0 the point at infinity.
function doubled([x, y, z]) {
  if (z === 0n || y === 0n) return [1n, 1n, 0n];
  const zz = (z * z) % SM2_P;
  const yy = (y * y) % SM2_P;
  const s = (4n * x * yy) % SM2_P;
  const m = (3n * (x - zz) * (x + zz)) % SM2_P;
  const x3 = (m * m - 2n * s) % SM2_P;
  return [x3, (m * (s - x3) - 8n * yy * yy) % SM2_P, (2n * y * z) % SM2_P];
}

function added(first, second) {
  const [x1, y1, z1] = first;
  const [x2, y2, z2] = second;
  if (z1 === 0n) return second;
  if (z2 === 0n) return first;
  const zz1 = (z1 * z1) % SM2_P;
  const zz2 = (z2 * z2) % SM2_P;
  const u1 = (x1 * zz2) % SM2_P;
  const s1 = (y1 * zz2 * z2) % SM2_P;
  const h = reduced(x2 * zz1 - u1);
  const r = reduced(y2 * zz1 * z1 - s1);
  if (h === 0n) return r === 0n ? doubled(first) : [1n, 1n, 0n];
  const hh = (h * h) % SM2_P;
  const hhh = (h * hh) % SM2_P;
  const v = (u1 * hh) % SM2_P;
  const x3 = (r * r - hhh - 2n * v) % SM2_P;
  return [x3, (r * (v - x3) - s1 * hhh) % SM2_P, (((h * z1) % SM2_P) * z2) % SM2_P];
}

/** 0 .. 15 times a point, computed once for each. */
function multiplesOf(point) {
  if (point.multiples === undefined) {
    const found = [[1n, 1n, 0n], [point.x, point.y, 1n]];
    for (let i = 2; i < 16; i++) found.push(added(found[i - 1], found[1]));
    point.multiples = found;
  }
  return point.multiples;
}

/** The affine x of s G + t P, null for the point at infinity: four bits of both at a time. */
function sumOfProducts(s, g, t, p) {
  const ofG = multiplesOf(g);
  const ofP = multiplesOf(p);
  const digitsS = s.toString(16).padStart(64, "0");
  const digitsT = t.toString(16).padStart(64, "0");
  let sum = ofG[0];
  for (let i = 0; i < 64; i++) {
    sum = doubled(doubled(doubled(doubled(sum))));
    sum = added(sum, ofG[parseInt(digitsS[i], 16)]);
    sum = added(sum, ofP[parseInt(digitsT[i], 16)]);
  }
  const z = reduced(sum[2]);
  if (z === 0n) return null;
  const inverted = inverse(z);
  return reduced(sum[0] * inverted * inverted);
}
