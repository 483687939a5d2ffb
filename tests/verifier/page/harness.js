// Runs the script of verify.html without a browser: a JSON list of cases on standard input, one
// line of JSON for each on standard output, in order. `node harness.js [verify.html]`
//
// {"op": "verify", "bundle": base64, "trust": base64, "expectations": {...}} is the default; of
// the expectations signer, model and nonce are hexadecimal, request, response and a checkpoint as
// `head_checkpoint` base64, `software` a list of these, `head` SIZE:ROOT, `at`, `after`, `before` numbers, `need` a list,
// `prefix` a boolean. A line is {"value": ...}, or {"rule": ..., "offset": ...} of a reader.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

function load(file) {
  const text = fs.readFileSync(file, "utf-8");
  const found = /<script>([^]*)<\/script>/.exec(text);
  const context = vm.createContext({ TextDecoder, TextEncoder });
  new vm.Script(found[1], { filename: file }).runInContext(context);
  return context.Windhover;
}

const page = process.argv[2] ?? path.join(__dirname, "../../../verifier/verify.html");
const W = load(page);
const hex = (text) => new Uint8Array(Buffer.from(text, "hex"));
const base64 = (text) => new Uint8Array(Buffer.from(text, "base64"));

/** A value of CBOR in the notation of cbor_valid.json. */
function shown(value) {
  if (ArrayBuffer.isView(value)) return { bytes: W.hexOf(value) };
  if (typeof value === "bigint") return { int: String(value) };
  if (Array.isArray(value)) return value.map(shown);
  if (typeof value === "object") {
    return { map: [...value].map(([key, part]) => [shown(key), shown(part)]) };
  }
  return value;
}

/** A table of a trust file as an object. */
function plain(table) {
  const found = {};
  for (const [name, entry] of table.entries) {
    const value = entry instanceof W.TomlTable ? plain(entry) : entry.value;
    Object.defineProperty(found, name, { value, enumerable: true });
  }
  return found;
}

function shownTrust(trust) {
  const listed = (map, show) => Object.fromEntries([...map].map(show));
  return {
    digest: W.hexOf(trust.digest),
    require_signed: trust.requireSigned,
    require_sealed: trust.requireSealed,
    keys: listed(trust.keys, ([id, key]) => [
      id, { name: key.name, role: key.role, not_before: key.notBefore, not_after: key.notAfter },
    ]),
    lines: listed(trust.lines, ([name, line]) => [
      name,
      {
        signer_ids: [...line.signers].sort(),
        threshold: line.threshold,
        minimum_release: line.minimumRelease,
      },
    ]),
    revocations: trust.revocations,
    logs: [...trust.logs.keys()].sort(),
  };
}

function expectationsOf(given = {}) {
  const found = { ...given };
  for (const name of ["signer", "model", "nonce"]) {
    if (typeof given[name] === "string") found[name] = hex(given[name]);
  }
  for (const name of ["request", "response"]) {
    if (typeof given[name] === "string") found[name] = base64(given[name]);
  }
  if (given.head_checkpoint) found.head = base64(given.head_checkpoint);
  if (given.software) found.software = given.software.map(base64);
  return found;
}

const OPERATIONS = {
  verify({ bundle, trust, expectations }) {
    const report = W.verify({
      bundle: base64(bundle),
      trust: base64(trust),
      expectations: expectationsOf(expectations),
    });
    const { verdict, reason, message, steps, witnesses, software } = report;
    return {
      verdict, reason, message, steps,
      witnesses: witnesses?.map(({ name }) => name),
      software: software?.map((one) => [one.result, one.release, one.signedBy]),
    };
  },
  sm3: ({ data }) => W.hexOf(W.sm3(hex(data))),
  sm3_pieces({ data, size }) {
    const bytes = hex(data);
    const hash = new W.Sm3();
    for (let at = 0; at < bytes.length; at += size) hash.update(bytes.subarray(at, at + size));
    return W.hexOf(hash.digest());
  },
  sm2({ spki, message, signature }) {
    return new W.PublicKey(hex(spki)).verifies(hex(message), hex(signature));
  },
  sm2_seconds({ spki, message, signature, times }) {
    const key = new W.PublicKey(hex(spki));
    const before = process.hrtime.bigint();
    for (let i = 0; i < times; i++) key.verifies(hex(message), hex(signature));
    return Number(process.hrtime.bigint() - before) / 1e9 / times;
  },
  key_id: ({ spki }) => W.hexOf(new W.PublicKey(hex(spki)).keyId),
  cbor({ data, max_bytes: maxBytes, max_items: maxItems, max_depth: maxDepth }) {
    return shown(W.decodeCbor(hex(data), { maxBytes, maxItems, maxDepth }));
  },
  cose({ data, max_bytes: maxBytes }) {
    const { typ, keyId, payload } = W.decodeSign1(hex(data), maxBytes);
    return { typ, key_id: W.hexOf(keyId), payload: W.hexOf(payload) };
  },
  claims({ kind, payload }) {
    W.readClaims(kind, hex(payload));
    return true;
  },
  inclusion({ root, size, index, leaf, proof }) {
    return W.includes(hex(root), size, index, hex(leaf), proof.map(hex));
  },
  leaf: ({ entry }) => W.hexOf(W.leafHash(hex(entry))),
  consistency({ old_size: oldSize, old_root: oldRoot, new_size: newSize, new_root: newRoot, proof }) {
    return W.extendsTree(oldSize, hex(oldRoot), newSize, hex(newRoot), proof.map(hex));
  },
  toml: ({ data }) => plain(W.parseToml(hex(data))),
  trust: ({ data }) => shownTrust(new W.Trust(hex(data))),
  transcript: ({ data }) => W.decodeTranscript(hex(data)).size,
  reduce({ data, partial }) {
    return W.hexOf(W.encodeTranscript(W.reduceResponse(base64(data), partial === true)));
  },
  escaped: ({ text }) => W.escaped(text),
  strings: () => Object.fromEntries(W.texts()),
};

const lines = [];
for (const given of JSON.parse(fs.readFileSync(0, "utf-8"))) {
  let answer;
  try {
    answer = { value: OPERATIONS[given.op ?? "verify"](given) };
  } catch (error) {
    if (!(error instanceof W.Refused)) throw error;
    answer = { rule: error.rule, offset: error.offset };
  }
  lines.push(JSON.stringify(answer));
}
fs.writeSync(1, lines.map((line) => `${line}\n`).join(""));
