// What the auditor's software manifests make of a software digest (SPEC.md section 6).

const MAX_MANIFESTS = 16;
const MAX_SOFTWARE_PAYLOAD = 2048;

/** {result, release, signedBy} of one manifest; the last two are null unless it is believed. */
function judgeSoftware(it, data) {
  const said = (result) => ({ result, release: null, signedBy: null });
  let sign1;
  let claims;
  try {
    [sign1, claims] = it.readObject(data, "software", MAX_RELEASE_BYTES, MAX_SOFTWARE_PAYLOAD);
  } catch (error) {
    if (!(error instanceof StepEnd)) throw error;
    return said("software-format");
  }
  const key = it.keyInRole(sign1, "software");
  if (key === null) return said("software-unknown-signer");
  if (!it.verifies(sign1, key)) return said("software-bad-signature");
  if (!it.passed(3) || !it.passed(5)) return said("software-no-statement");
  const { started, software } = it.claims;
  const lapses = it.lapses(key, started, started);
  if (it.isListed(key)) lapses.push("revoked");
  const lapse = ["revoked", "expired", "not-yet-valid"].find((one) => lapses.includes(one));
  if (lapse !== undefined) return said(`software-key-${lapse}`);
  return {
    result: equalBytes(claims.software, software) ? "ok" : "software-differs",
    release: `${claims.product} ${claims.version.join(".")}`,
    signedBy: key.name,
  };
}
