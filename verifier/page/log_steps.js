// Steps 10 to 17, rung A1: the log, the admission, and heads of the log.

const AGREED_CLAIMS = [
  "logId", "nonce", "profile", "model", "principal", "parameters", "seed", "seedSource",
];

function checkSigner(it, sign1, kind, at) {
  const key = it.keyOf(sign1);
  if (key === null) throw open(`${kind}-key`);
  if (key.role !== "attest") throw failed(`${kind}-role`);
  if (!it.verifies(sign1, key)) throw failed(`${kind}-signature`);
  if (it.lapses(key, at, at).length > 0) throw open(`${kind}-key`);
}

function checkInclusion({ bundle, head }, sign1, index, name) {
  const reason = name.replace("_", "-");
  if (index >= head.size) throw failed(reason);
  const proof = bundle[name];
  if (proof === undefined) throw open(`no-${reason}`);
  if (!includes(head.root, head.size, index, leafHash(sign1.data), proof)) throw failed(reason);
}

function admissionDiffers({ admitted, claims }) {
  return (
    AGREED_CLAIMS.some((name) => !equalValues(admitted[name], claims[name])) ||
    admitted.sequence !== claims.admission || admitted.started > claims.started ||
    !equalBytes(admitted.requestCommitment, claims.commitments.get("request"))
  );
}

const LOG_STEPS = {
  10(it) {
    if (it.bundle.checkpoint === undefined) throw open("no-checkpoint");
    [it.checkpoint, it.head] = it.readObject(it.bundle.checkpoint, "checkpoint");
  },
  11(it) {
    if (!equalBytes(it.head.logId, it.claims.logId)) throw failed("checkpoint-log");
    checkSigner(it, it.checkpoint, "checkpoint", it.head.time);
  },
  12({ trust, claims }) {
    if (!trust.logs.has(hexOf(claims.logId))) throw open("log-not-pinned");
  },
  13(it) {
    checkInclusion(it, it.statement, it.claims.sequence, "inclusion");
  },
  14(it) {
    if (it.bundle.admission === undefined) throw open("no-admission");
    [it.admission, it.admitted] = it.readObject(it.bundle.admission, "admission");
    let unsettled = null;
    try {
      checkSigner(it, it.admission, "admission", it.admitted.started);
    } catch (error) {
      if (!(error instanceof StepEnd) || error.result !== "open") throw error;
      unsettled = error;
    }
    if (admissionDiffers(it)) throw failed("admission-differs");
    if (unsettled !== null) throw unsettled;
  },
  15(it) {
    checkInclusion(it, it.admission, it.admitted.sequence, "admission_inclusion");
  },
  16({ bundle, claims, head }) {
    const [size, root] = claims.earlierHead;
    const proof = bundle.consistency;
    if (size > head.size) throw failed("consistency");
    if (proof === undefined && size > 0 && size < head.size) throw open("no-consistency");
    if (!extendsTree(size, root, head.size, head.root, proof ?? [])) throw failed("consistency");
  },
  17({ expected, head }) {
    const pinned = expected.head;
    if (pinned === null) return;
    if (pinned.logId !== null && !equalBytes(pinned.logId, head.logId)) throw failed("expected-head");
    if (pinned.size !== head.size) throw open("head-differs");
    if (!equalBytes(pinned.root, head.root)) throw failed("expected-head");
  },
};
