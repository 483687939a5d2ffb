// Steps 18 to 21, rung A2: request, answer, ids and trace are those committed to.

const REQUEST_PATHS = [
  "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages", "/v1/responses",
];

/** Whether the bytes, with the bundle's salt, are what was committed to. */
function opens({ bundle, claims }, name, ...parts) {
  const length = new DataView(new ArrayBuffer(8));
  length.setBigUint64(0, BigInt(parts.reduce((sum, part) => sum + part.length, 0)), true);
  const salt = bundle.salts.get(name);
  const head = [ascii(`${name}\0`), salt, new Uint8Array(length.buffer)];
  const digest = labelled("windhover/commitment;v=1", ...head, ...parts);
  return equalBytes(digest, claims.commitments.get(name));
}

/** Whether step 21 opens the commitment with what the auditor holds. */
function hasStandIn({ expected }, name) {
  if (name === "request") return expected.request !== null;
  return name === "transcript" && expected.response !== null && !expected.isPrefix;
}

function requestOpens(it) {
  const { request } = it.expected;
  if (request[0] === 0x2f) return opens(it, "request", request);
  let paths = REQUEST_PATHS.map(ascii);
  const whole = it.opened.get("request");
  if (whole !== undefined) {
    const zero = whole.indexOf(0);
    paths = [zero < 0 ? whole : whole.subarray(0, zero)];
  }
  return paths.some((path) => opens(it, "request", path, Uint8Array.of(0), request));
}

/** The expected response as entries, null if it does not reduce; computed once. */
function expectedEntries(it) {
  if (it.reduced === undefined) {
    try {
      it.reduced = reduceResponse(it.expected.response, it.expected.isPrefix);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      it.reduced = null;
    }
  }
  return it.reduced;
}

/** The transcript that step 20 looks at: of the bundle, or the expected one that opens; or null. */
function transcriptAtHand(it) {
  const found = it.opened.get("transcript");
  if (found !== undefined) return found;
  if (!hasStandIn(it, "transcript") || !it.bundle.salts.has("transcript")) return null;
  const entries = expectedEntries(it);
  const bytes = entries === null ? null : encodeTranscript(entries);
  return bytes !== null && opens(it, "transcript", bytes) ? bytes : null;
}

/** Why the expected response cannot be compared, null if it is equal; fails if it differs. */
function checkResponse(it) {
  const entries = expectedEntries(it);
  if (entries === null) throw failed("expected-response");
  if (it.expected.isPrefix) {
    const whole = it.opened.get("transcript");
    if (whole === undefined) return "no-transcript";
    const other = readOrFail("expected-response", () => decodeTranscript(whole));
    if (!isPrefixOf(entries, other)) throw failed("expected-response");
    return null;
  }
  if (!it.bundle.salts.has("transcript")) return "no-salt-transcript";
  if (!opens(it, "transcript", encodeTranscript(entries))) throw failed("expected-response");
  return null;
}

const TEXT_STEPS = {
  18(it) {
    let missing = null;
    COMMITTED.forEach((name, bit) => {
      const isCovered = (it.claims.coverage & (1 << bit)) !== 0;
      const content = isCovered ? it.bundle[name === "trace" ? "trace_root" : name] : undefined;
      const hasSalt = it.bundle.salts.has(name);
      if (content === undefined) {
        const isElsewhere = isCovered && hasSalt && hasStandIn(it, name);
        if (!isElsewhere) missing ??= `no-${name}`;
      } else if (!hasSalt) {
        missing ??= `no-salt-${name}`;
      } else if (opens(it, name, content)) {
        it.opened.set(name, content);
      } else {
        throw failed(`opens-${name}`.replace("_", "-"));
      }
    });
    if (missing !== null) throw open(missing.replace("_", "-"));
  },
  19({ claims, opened }) {
    const [promptCount, outputCount] = claims.tokens;
    const [positions] = claims.trace;
    const differs = (name, length) => opened.has(name) && opened.get(name).length !== length;
    const isOfTexts = outputCount === 0 && claims.parameters.has("inputs");
    let possible = outputCount > 0 ? promptCount + outputCount - 1 : 0;
    if (isOfTexts) possible = promptCount;
    if (
      differs("prompt_ids", 4 * promptCount) || differs("output_ids", 4 * outputCount) ||
      differs("trace", positions > 0 ? 32 : 0) || (positions > 0 && positions !== possible)
    ) {
      throw failed("counts");
    }
  },
  20(it) {
    const bytes = transcriptAtHand(it);
    if (bytes === null) return;
    const entries = readOrFail("transcript-format", () => decodeTranscript(bytes));
    const stated = it.claims.finish;
    if (stated !== "none" && finishReasons(entries).some((reason) => reason !== stated)) {
      throw failed("finish-reason");
    }
  },
  21(it) {
    const { claims, expected } = it;
    if (claims.seedSource === "nonce") {
      if (claims.nonce === undefined) throw failed("seed");
      const digest = labelled("windhover/seed;v=1", claims.nonce);
      const seed = new DataView(digest.buffer).getBigUint64(0, true);
      if (seed !== BigInt(claims.seed)) throw failed("seed");
    }
    let missing = null;
    if (expected.request !== null) {
      if (!it.bundle.salts.has("request")) missing = "no-salt-request";
      else if (!requestOpens(it)) throw failed("expected-request");
    }
    if (expected.response !== null) missing = [missing, checkResponse(it)].find(Boolean) ?? null;
    if (missing !== null) throw open(missing);
  },
};
