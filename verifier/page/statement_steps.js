// Steps 1 to 9, rung A0: the statement, its signer, and what is expected of it.

const MAX_AHEAD_MS = 300000;

const STATEMENT_STEPS = {
  1(it) {
    it.bundle = readOrFail("bundle-format", () => readBundle(it.data));
  },
  2(it) {
    const read = () => decodeSign1(it.bundle.statement, MAX_OBJECT_BYTES);
    it.statement = readOrFail("statement-format", read);
    if (it.statement.typ !== "windhover/statement;v=1") throw failed("statement-type");
  },
  3(it) {
    const read = () => readClaims("statement", it.statement.payload);
    it.claims = readOrFail("statement-claims", read);
  },
  4(it) {
    it.key = it.keyOf(it.statement);
    if (it.key === null) throw open("unknown-key");
    if (it.key.role !== "attest") throw failed("key-role");
  },
  5(it) {
    if (!it.verifies(it.statement, it.key)) throw failed("statement-signature");
  },
  6(it) {
    const [lapse] = it.lapses(it.key, it.claims.started, it.claims.ended);
    if (lapse !== undefined) throw open(`key-${lapse}`);
  },
  7({ claims }) {
    if (claims.mode !== "production") throw open("mode-dev");
    if (claims.loadVerdict !== "signed") throw open("load-unsigned");
    const isTraced = claims.trace[0] !== 0 || claims.tokens[1] === 0;
    if (claims.coverage !== 31 || !isTraced) throw open("not-covered");
  },
  8({ claims, expected }) {
    if (claims.ended > expected.at + MAX_AHEAD_MS) throw failed("from-the-future");
  },
  9({ claims, expected, statement }) {
    const differs = (wanted, found) =>
      wanted !== null && (found === undefined || !equalBytes(wanted, found));
    if (differs(expected.signer, statement.keyId)) throw failed("expected-signer");
    if (differs(expected.model, claims.model)) throw failed("expected-model");
    if (differs(expected.nonce, claims.nonce)) throw failed("expected-nonce");
    const { after, before } = expected;
    if ((after !== null && claims.started < after) || (before !== null && claims.ended > before)) {
      throw failed("expected-window");
    }
  },
};
