// The payloads of SPEC.md section 2, crypto/README.md and engine/vqf/FORMAT.md, by tables.

const MAX_OBJECT_BYTES = 65536;
const MAX_RELEASE_BYTES = 4096;
const COMMITTED = ["request", "prompt_ids", "transcript", "output_ids", "trace"];
const PROFILE_GENERATE = "windhover/generate;v=1";

const CLAIM = {
  model: -70101, line: -70102, release: -70103, notBefore: -70104, expires: -70105,
  leastRuntime: -70106, supersedes: -70107,
  listSequence: -70121, issued: -70122, keyIds: -70123, modelDigests: -70124,
  issuer: -70201, logId: -70202, sequence: -70203, admission: -70204, started: -70205,
  ended: -70206, nonce: -70207, profile: -70208, outcome: -70209, releasePayload: -70211,
  loadVerdict: -70212, mode: -70213, software: -70214, numerics: -70215, kernelPath: -70216,
  residency: -70217, writeXor: -70218, principal: -70219, tokenizer: -70220, template: -70221,
  parameters: -70222, seed: -70223, seedSource: -70224, commitments: -70225, tokens: -70226,
  finish: -70227, trace: -70228, trust: -70229, revocations: -70230, earlierHead: -70231,
  coverage: -70232, requestId: -70233, requestCommitment: -70234,
  size: -70241, root: -70242, time: -70243, previous: -70244,
  product: -70301, version: -70302, files: -70303, fileBytes: -70304, fileList: -70305,
  kernels: -70306, profiles: -70307,
};

const isNumber = (low = 0, high = Number.MAX_SAFE_INTEGER) => (value) =>
  (typeof value === "number" || typeof value === "bigint") && value >= low && value <= high;
const isBytesOf = (low, high) => (value) =>
  isBytes(value) && value.length >= low && value.length <= high;
const isText = (pattern) => (value) => typeof value === "string" && pattern.test(value);
const isWord = (...words) => (value) => words.includes(value);
const isTuple = (...checks) => (value) =>
  Array.isArray(value) && value.length === checks.length &&
  checks.every((check, i) => check(value[i]));
const isAscending = (check, compare, most) => (value) =>
  Array.isArray(value) && value.length <= most && value.every(check) &&
  value.every((part, i) => i === 0 || compare(value[i - 1], part) < 0);
const isMapOf = (isKey, isValue, most) => (value) =>
  value instanceof Map && value.size <= most &&
  [...value].every(([key, part]) => isKey(key) && isValue(part));

const isUint = isNumber();
const isDigest = isBytesOf(32, 32);
const isId = isBytesOf(16, 16);
const isLabel = isText(/^[ -~]{1,64}$/);
const isInteger53 = isNumber(-Number.MAX_SAFE_INTEGER);
const isLine = isText(LINE_NAME);
const isVersion = isTuple(...Array.from({ length: 3 }, () => isNumber(0, 65535)));
const compareSigns = (first, second) => (first < second ? -1 : Number(first > second));
const isNames = isAscending(isText(/^[a-z0-9][a-z0-9-]{0,63}$/), compareSigns, 8);

// claim: [check, whether it may be absent]
const REQUEST_FIELDS = [
  ["issuer", isLabel], ["logId", isDigest], ["sequence", isUint], ["started", isUint],
  ["nonce", isBytesOf(16, 64), true], ["profile", isWord(PROFILE_GENERATE)],
  ["model", isDigest], ["principal", isId],
  ["parameters", isMapOf(isText(/^[a-z0-9_]{1,40}$/), isInteger53, 32)],
  ["seed", isNumber(0, 0xffffffffffffffffn)], ["seedSource", isWord("request", "nonce", "server")],
];
const FIELDS = {
  statement: [
    ...REQUEST_FIELDS,
    ["admission", isUint], ["ended", isUint],
    ["outcome", isWord("answered", "error", "refused", "cancelled", "disconnected", "lost")],
    ["line", isLine, true], ["release", isNumber(1), true], ["releasePayload", isDigest, true],
    ["loadVerdict", isWord("signed", "unsigned")], ["mode", isWord("production", "dev")],
    ["software", isDigest], ["numerics", isWord("wh1")], ["kernelPath", isLabel],
    ["residency", isWord("full", "stream", "verified-stream")],
    ["writeXor", isWord("locked", "open")], ["tokenizer", isDigest],
    ["template", isDigest, true], ["commitments", isMapOf(isWord(...COMMITTED), isDigest, 5)],
    ["tokens", isTuple(isUint, isUint)],
    ["finish", isWord(
      "stop", "length", "tool_calls", "content_filter", "error", "cancelled", "none",
    )],
    ["trace", isTuple(isUint, isUint, isUint)], ["trust", isDigest], ["revocations", isUint],
    ["earlierHead", isTuple(isUint, isDigest)], ["coverage", isNumber(0, 31)],
  ],
  admission: [...REQUEST_FIELDS, ["requestId", isId], ["requestCommitment", isDigest]],
  checkpoint: [
    ["issuer", isLabel], ["logId", isDigest], ["size", isNumber(1)], ["root", isDigest],
    ["time", isUint], ["previous", isDigest],
  ],
  cosignature: [["logId", isDigest], ["size", isNumber(1)], ["root", isDigest], ["time", isUint]],
  release: [
    ["model", isDigest], ["line", isLine], ["release", isNumber(1)], ["notBefore", isUint],
    ["expires", isUint, true],
    ["leastRuntime", isVersion],
    ["supersedes", isAscending(isNumber(1), (first, second) => first - second, 64)],
  ],
  software: [
    ["product", isLine], ["version", isVersion], ["software", isDigest],
    ["files", isNumber(1, 100000)], ["fileBytes", isUint], ["fileList", isDigest],
    ["kernels", isNames], ["profiles", isNames], ["issued", isUint],
  ],
  revocations: [
    ["listSequence", isNumber(1)], ["issued", isUint],
    ["keyIds", isAscending(isDigest, compareBytes, 900)],
    ["modelDigests", isAscending(isDigest, compareBytes, 900)],
  ],
};

/** Whether what several claims say together can be. */
const RELATIONS = {
  statement: (claims) =>
    claims.admission < claims.sequence && claims.started <= claims.ended &&
    new Set([claims.line, claims.release, claims.releasePayload].map(
      (value) => value === undefined,
    )).size === 1 &&
    claims.commitments.size === COMMITTED.length &&
    [0, 3].includes(claims.trace.filter((number) => number === 0).length) &&
    claims.earlierHead[0] <= claims.sequence,
  software: ({ profiles }) => profiles.length > 0,
  release: (claims) =>
    !(claims.expires <= claims.notBefore) &&
    claims.supersedes.every((number) => number < claims.release),
};

/** The claims of a payload by name; those that are absent are undefined. */
function readClaims(kind, payload, maxBytes = MAX_OBJECT_BYTES) {
  const values = decodeCbor(payload, { maxBytes });
  if (!(values instanceof Map)) throw new Refused("object-map");
  const claims = {};
  let known = 0;
  for (const [name, check, mayBeAbsent] of FIELDS[kind]) {
    const value = values.get(CLAIM[name]);
    claims[name] = value;
    if (value !== undefined) {
      known++;
      if (!check(value)) throw new Refused("value");
    } else if (!mayBeAbsent) {
      throw new Refused("missing-key");
    }
  }
  if (known !== values.size) throw new Refused("unknown-key");
  if (RELATIONS[kind] && !RELATIONS[kind](claims)) throw new Refused("value-range");
  return claims;
}

/** Whether two values of CBOR are equal. */
function equalValues(first, second) {
  if (isBytes(first) && isBytes(second)) return equalBytes(first, second);
  if (first instanceof Map && second instanceof Map) {
    return first.size === second.size &&
      [...first].every(([key, value]) => second.has(key) && equalValues(value, second.get(key)));
  }
  return first === second;
}
