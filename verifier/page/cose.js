// COSE_Sign1 in its one form (crypto/README.md, section COSE).

const COSE_ALGORITHM = -70001;
const COSE_TYPE = /^[a-z][a-z-]*(?:\/[a-z][a-z-]*)+;v=[1-9][0-9]*$/;
const COSE_CONTEXT = ascii("Signature1");

/** The parts of a signed object; nothing is verified. */
function decodeSign1(data, maxBytes) {
  if (data.length > maxBytes) throw new Refused("max-bytes", maxBytes);
  if (data[0] !== 0xd2) throw new Refused("sign1-tag");
  const parts = decodeCbor(data.subarray(1), { maxBytes });
  if (
    !Array.isArray(parts) || parts.length !== 4 || !isBytes(parts[0]) ||
    !(parts[1] instanceof Map) || !isBytes(parts[2]) || !isBytes(parts[3])
  ) {
    throw new Refused("sign1-structure");
  }
  const [header, unprotected, payload, signature] = parts;
  if (unprotected.size > 0) throw new Refused("sign1-unprotected");
  if (signature.length !== 64) throw new Refused("sign1-signature");
  const values = decodeCbor(header, { maxBytes: 256 });
  if (!(values instanceof Map)) throw new Refused("object-map");
  const [algorithm, keyId, typ] = [1, 4, 16].map((key) => values.get(key));
  if (algorithm === undefined) throw new Refused("missing-key");
  if (algorithm !== COSE_ALGORITHM) {
    throw new Refused(typeof algorithm === "number" ? "sign1-algorithm" : "value-type");
  }
  if (keyId === undefined) throw new Refused("missing-key");
  if (!isBytes(keyId)) throw new Refused("value-type");
  if (keyId.length !== 32) throw new Refused("value-range");
  if (typ === undefined) throw new Refused("missing-key");
  if (typeof typ !== "string") throw new Refused("value-type");
  if (typ.length < 1 || typ.length > 64) throw new Refused("value-range");
  if (!COSE_TYPE.test(typ)) throw new Refused("text-characters");
  if (values.size !== 3) throw new Refused("unknown-key");
  return { data, header, keyId, typ, payload, signature };
}

/** What is signed: the array of context, protected header, no external data, payload. */
function signedMessage(sign1) {
  return joinBytes([
    cborHead(4, 4), cborHead(3, COSE_CONTEXT.length), COSE_CONTEXT,
    cborHead(2, sign1.header.length), sign1.header, cborHead(2, 0),
    cborHead(2, sign1.payload.length), sign1.payload,
  ]);
}

const sign1Verifies = (sign1, key) => key.verifies(signedMessage(sign1), sign1.signature);
