// Steps 22 to 25, rung A3: the model's release, its signers, and what was revoked.

const MS_PER_DAY = 86400000;
const MAX_RELEASE_PAYLOAD = 1024;

/** Whether a key may sign a list of revocations now. */
function mayRevoke(key, list, at) {
  return (
    key !== null && !list.keyIds.some((id) => hexOf(id) === key.id) &&
    (key.notBefore === null || at >= 1000 * key.notBefore) &&
    (key.notAfter === null || at < 1000 * key.notAfter)
  );
}

const RELEASE_STEPS = {
  22(it) {
    const { trust, bundle, expected } = it;
    const rules = trust.revocations;
    if (bundle.revocations === undefined) {
      if (rules.required) throw open("no-revocations");
      return;
    }
    let sign1;
    let list;
    try {
      [sign1, list] = it.readObject(bundle.revocations, "revocations");
    } catch (error) {
      throw error instanceof StepEnd ? failed("revocations-format") : error;
    }
    const key = it.keyInRole(sign1, "revoke");
    if (key !== null && !it.verifies(sign1, key)) throw failed("revocations-signature");
    const issued = 1000 * list.issued;
    if (!mayRevoke(key, list, expected.at)) throw open("revocations-key");
    if (expected.at < issued) throw open("revocations-not-yet-valid");
    if (list.listSequence < rules.minimumSequence) throw open("revocations-old");
    if (rules.maximumAgeDays !== null && expected.at - issued >= rules.maximumAgeDays * MS_PER_DAY) {
      throw open("revocations-stale");
    }
    it.listInForce = list;
  },
  23(it) {
    const wanted = it.claims.releasePayload;
    const read = (it.bundle.releases ?? []).map((data) => {
      try {
        return it.readObject(data, "release", MAX_RELEASE_BYTES, MAX_RELEASE_PAYLOAD);
      } catch (error) {
        throw error instanceof StepEnd ? failed("release-format") : error;
      }
    });
    for (const [sign1, release] of read) {
      const digest = labelled("windhover/release-payload;v=1", sign1.payload);
      if (wanted === undefined || !equalBytes(digest, wanted)) continue;
      it.released.push(sign1);
      it.release = release;
    }
    if (it.released.length === 0) throw open("no-release");
    const names = ["line", "release", "model"];
    if (names.some((name) => !equalValues(it.release[name], it.claims[name]))) {
      throw failed("release-differs");
    }
  },
  24(it) {
    const known = new Map();
    for (const sign1 of it.released) {
      const key = it.keyInRole(sign1, "weights");
      if (key === null) continue;
      if (!it.verifies(sign1, key)) throw failed("release-signature");
      known.set(key.id, key);
    }
    const line = it.trust.lines.get(it.release.line) ?? null;
    const able = [...known.values()].filter((key) => line?.signers.has(key.id));
    if (known.size > 0 && line !== null && able.length === 0) throw failed("release-signer");
    if (known.size === 0) throw open("release-unknown-signer");
    if (line === null) throw open("release-unknown-line");
    const { started } = it.claims;
    const lapses = able.map((key) => {
      const found = it.lapses(key, started, started);
      return it.isListed(key) ? [...found, "revoked"] : found;
    });
    if (lapses.filter((found) => found.length === 0).length >= line.threshold) return;
    for (const lapse of ["revoked", "expired", "not-yet-valid"]) {
      if (lapses.some((found) => found.includes(lapse))) throw open(`release-key-${lapse}`);
    }
    throw open("release-threshold");
  },
  25(it) {
    const { claims, release } = it;
    if (it.listInForce?.modelDigests.some((digest) => equalBytes(digest, claims.model))) {
      throw failed("model-revoked");
    }
    const before = it.results.get(23);
    if (before.result === "open") throw open(before.reason);
    if (before.result !== "passed") throw new StepEnd("not made", null);
    if (claims.started < 1000 * release.notBefore) throw failed("release-not-yet-valid");
    if (claims.started >= 1000 * release.expires) throw failed("release-expired");
    const line = it.trust.lines.get(release.line);
    if (line !== undefined && release.release < line.minimumRelease) throw failed("release-too-old");
  },
};
