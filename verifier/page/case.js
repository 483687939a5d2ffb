// One bundle under verification, and what the steps found (SPEC.md section 6).

const RUNGS = ["A0", "A1", "A2", "A3"];
const rungOfStep = (number) => (number < 10 ? "A0" : number < 18 ? "A1" : number < 22 ? "A2" : "A3");

/** How a step ends that does not pass. */
class StepEnd extends Error {
  constructor(result, reason) {
    super(reason);
    this.result = result;
    this.reason = reason;
  }
}

const failed = (reason) => new StepEnd("failed", reason);
const open = (reason) => new StepEnd("open", reason);

/** What `read` returns; a refusal fails the step. */
function readOrFail(reason, read) {
  try {
    return read();
  } catch (error) {
    throw error instanceof Refused ? failed(reason) : error;
  }
}

class Case {
  constructor(data, trust, expected) {
    this.data = data;
    this.trust = trust;
    this.expected = expected;
    this.results = new Map();
    this.opened = new Map();
    this.released = [];
    this.listInForce = null;
    this.signatures = new Map();
  }

  /** Makes a step, unless one that it needs did not pass. */
  step(number, needs, check) {
    const before = needs.map((needed) => this.results.get(needed));
    const isStopped = before.some(({ result }) => result === "failed" || result === "not made");
    let found = isStopped ? { result: "not made", reason: null } : null;
    found ??= before.find(({ result }) => result === "open") ?? null;
    if (found === null) {
      found = { result: "passed", reason: null };
      try {
        check(this);
      } catch (error) {
        if (!(error instanceof StepEnd)) throw error;
        found = { result: error.result, reason: error.reason };
      }
    }
    this.results.set(number, { result: found.result, reason: found.reason });
  }

  passed(number) {
    return this.results.get(number)?.result === "passed";
  }

  /** Whether the head that the auditor holds covers the statement. */
  get isPinned() {
    return this.expected.head !== null && this.passed(13) && this.passed(17);
  }

  /** The trusted key of an object, in whatever role. */
  keyOf(sign1) {
    return this.trust.keys.get(hexOf(sign1.keyId)) ?? null;
  }

  keyInRole(sign1, role) {
    const key = this.keyOf(sign1);
    return key?.role === role ? key : null;
  }

  /** Whether an object's signature verifies; the same object is computed once. */
  verifies(sign1, key) {
    const id = hexOf(sign1.data);
    if (!this.signatures.has(id)) this.signatures.set(id, sign1Verifies(sign1, key.publicKey));
    return this.signatures.get(id);
  }

  isListed(key) {
    return this.listInForce?.keyIds.some((id) => hexOf(id) === key.id) ?? false;
  }

  /** Why a key does not count from begin to end (ms), all that hold in their order. */
  lapses(key, begin, end) {
    const found = [];
    if (key.notBefore !== null && begin < 1000 * key.notBefore) found.push("not-yet-valid");
    if (key.notAfter !== null) {
      const isOver = this.expected.at >= 1000 * key.notAfter && !this.isPinned;
      if (end >= 1000 * key.notAfter || isOver) found.push("expired");
    }
    if (this.isListed(key) && !this.isPinned) found.push("revoked");
    return found;
  }

  /** An object of a kind: [signed parts, claims]; fails with KIND-format, -type or -claims. */
  readObject(data, kind, maxBytes = MAX_OBJECT_BYTES, maxPayload = MAX_OBJECT_BYTES) {
    const sign1 = readOrFail(`${kind}-format`, () => decodeSign1(data, maxBytes));
    if (sign1.typ !== `windhover/${kind};v=1`) throw failed(`${kind}-type`);
    return [sign1, readOrFail(`${kind}-claims`, () => readClaims(kind, sign1.payload, maxPayload))];
  }
}
