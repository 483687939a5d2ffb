// Verifies one bundle: the steps of SPEC.md section 6 in an order that serves their needs.

const STEPS = { ...STATEMENT_STEPS, ...LOG_STEPS, ...TEXT_STEPS, ...RELEASE_STEPS };
// those that are not here need step 3
const STEP_NEEDS = {
  1: [], 2: [1], 3: [2], 5: [4], 6: [4], 11: [10], 13: [10], 16: [10], 22: [1], 24: [23],
};
// the list in force first, then what a pinned head needs, before the first key is judged
const STEP_ORDER = [
  1, 22, 2, 3, 4, 5, 10, 13, 17, 6, 7, 8, 9, 11, 12, 14, 15, 16, 18, 19, 20, 21, 23, 24, 25,
];

/** An option, the trust file or an input that cannot be used: no verdict. */
class UsageError extends Error {
  constructor(field, detail) {
    super(detail);
    this.field = field;
  }
}

/** {verdict, reason, steps} and what is shown besides; never raises. Bytes are Uint8Array. */
function verify({ bundle, trust, expectations = {} }) {
  try {
    const expected = readExpectations(expectations);
    const it = new Case(bundle, readTrust(trust), expected);
    for (const number of STEP_ORDER) it.step(number, needsOf(it, number), STEPS[number]);
    return reportOf(it);
  } catch (error) {
    if (error instanceof UsageError) {
      const { field, message } = error;
      return { verdict: null, reason: "usage", field, message, steps: [] };
    }
    // the last guard: whatever is wrong with this program is no pass
    return { verdict: "FAIL", reason: "internal", message: String(error), steps: [] };
  }
}

function readTrust(bytes) {
  try {
    return new Trust(bytes);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    throw new UsageError("trust", `${error.rule}, byte ${error.offset}`);
  }
}

/** A head: SIZE:ROOT, or the bytes of a checkpoint, taken at its word. */
function readHead(value) {
  if (isBytes(value)) {
    try {
      const sign1 = decodeSign1(value, MAX_OBJECT_BYTES);
      if (sign1.typ !== "windhover/checkpoint;v=1") throw new Refused("type");
      const { size, root, logId } = readClaims("checkpoint", sign1.payload);
      return { size, root, logId };
    } catch (error) {
      throw error instanceof Refused ? new UsageError("head", error.rule) : error;
    }
  }
  const found = /^([1-9][0-9]{0,15}):([0-9a-f]{64})$/.exec(value);
  if (found === null || !Number.isSafeInteger(Number(found[1]))) {
    throw new UsageError("head", "SIZE:ROOT");
  }
  return { size: Number(found[1]), root: bytesOfHex(found[2]), logId: null };
}

function readExpectations(given) {
  const bytesOf = (name, low, high) => {
    const value = given[name] ?? null;
    if (value !== null && !isBytesOf(low, high)(value)) throw new UsageError(name, "length");
    return value;
  };
  const timeOf = (name) => {
    const value = given[name] ?? null;
    if (value !== null && !isUint(value)) throw new UsageError(name, "time");
    return value;
  };
  const need = given.need ?? RUNGS;
  if (!need.every((rung) => RUNGS.includes(rung))) throw new UsageError("need", "rung");
  return {
    at: timeOf("at") ?? Date.now(),
    need: new Set(["A0", ...need]),
    signer: bytesOf("signer", 32, 32),
    model: bytesOf("model", 32, 32),
    nonce: bytesOf("nonce", 16, 64),
    after: timeOf("after"),
    before: timeOf("before"),
    request: bytesOf("request", 0, MAX_REQUEST_BYTES),
    response: bytesOf("response", 0, MAX_RESPONSE_BYTES),
    isPrefix: given.prefix === true,
    head: (given.head ?? null) === null ? null : readHead(given.head),
    software: manifestsOf(given.software ?? []),
  };
}

function manifestsOf(given) {
  if (!given.every(isBytes)) throw new UsageError("software", "bytes");
  if (given.length > MAX_MANIFESTS) throw new UsageError("software", "count");
  return given;
}

function needsOf(it, number) {
  if (number === 15) {
    const before = it.results.get(14);
    return before.result === "open" && before.reason === "admission-key" ? [10] : [10, 14];
  }
  if (number === 17) return it.expected.head === null ? [3] : [10];
  return STEP_NEEDS[number] ?? [3];
}

function reportOf(it) {
  const { expected } = it;
  const steps = [...it.results].sort(([first], [second]) => first - second)
    .map(([step, { result, reason }]) => ({ step, rung: rungOfStep(step), result, reason }));
  const isWanted = ({ step, rung }) =>
    expected.need.has(rung) || (step === 17 && expected.head !== null) ||
    (step === 21 && (expected.request !== null || expected.response !== null));
  const wrong = steps.find(({ result }) => result === "failed");
  const absent = steps.find((step) => step.result !== "passed" && isWanted(step));
  const report = { verdict: "PASS", reason: "ok", steps };
  if (wrong !== undefined) [report.verdict, report.reason] = ["FAIL", wrong.reason];
  else if (absent !== undefined) [report.verdict, report.reason] = ["INCOMPLETE", absent.reason];
  report.claims = it.passed(3) ? it.claims : null;
  report.signer = it.passed(3) ? it.statement.keyId : null;
  report.isSigned = it.passed(5);
  report.keyName = it.passed(4) ? it.key.name : null;
  report.head = it.passed(11) ? it.head : null;
  report.witnesses = it.passed(11) ? witnessesOf(it) : [];
  report.opened = it.opened;
  report.software = expected.software.map((data) => judgeSoftware(it, data));
  report.need = expected.need;
  report.trustDigest = it.trust.digest;
  report.idle = idleSteps(it);
  return report;
}

/** Steps that passed because there was nothing to look at. */
function idleSteps(it) {
  const { expected, claims, bundle, opened } = it;
  const isAbsent = (...names) => names.every((name) => expected[name] === null);
  const idle = {
    9: () => isAbsent("signer", "model", "nonce", "after", "before"),
    17: () => isAbsent("head"),
    20: () => !opened.has("transcript") && (it.reduced ?? null) === null,
    21: () => isAbsent("request", "response") && claims.seedSource !== "nonce",
    22: () => bundle.revocations === undefined,
  };
  return new Set(Object.keys(idle).map(Number).filter((step) => it.passed(step) && idle[step]()));
}

/** Who else signed the checkpoint's head; without influence on the verdict. */
function witnessesOf(it) {
  const found = [];
  for (const data of it.bundle.cosignatures ?? []) {
    try {
      const [sign1, claims] = it.readObject(data, "cosignature");
      const key = it.keyInRole(sign1, "witness");
      const isOfHead = ["logId", "size", "root"].every(
        (name) => equalValues(claims[name], it.head[name]),
      );
      const counts = key !== null && isOfHead && !it.isListed(key) &&
        it.lapses(key, claims.time, claims.time).length === 0;
      if (counts && it.verifies(sign1, key)) found.push({ name: key.name, time: claims.time });
    } catch (error) {
      if (!(error instanceof StepEnd)) throw error;
    }
  }
  return found;
}
