// The verifier's own code, as verify.html has it, beside the page: a check never stops the page.

"use strict";

importScripts("verifier.js");

const verifier = globalThis.Windhover;
const STEP_OF = { nonce: 9, request: 21, response: 21 };

/** Whether what was sent or received is what the bundle is about: same, differs or open. */
function compare(name, report, { bundle, trust, expectations }) {
  let found = report.steps.find(({ step }) => step === STEP_OF[name]);
  if (found !== undefined && found.result !== "passed") {
    const { at, prefix } = expectations;
    const alone = { at, prefix, [name]: expectations[name] };
    found = verifier.verify({ bundle, trust, expectations: alone }).steps
      .find(({ step }) => step === STEP_OF[name]);
  }
  if (found?.result === "passed") return "same";
  return found?.reason === `expected-${name}` ? "differs" : "open";
}

function shownClaims({ sequence, tokens, line, release, mode, outcome, finish, issuer, model }) {
  const modelDigest = verifier.hexOf(model);
  return { sequence, tokens, line, release, mode, outcome, finish, issuer, modelDigest };
}

const OPERATIONS = {
  texts: () => Object.fromEntries(verifier.texts()),
  verify(given) {
    const report = verifier.verify(given);
    const { verdict, reason, message, steps, keyName, isSigned, head, claims, idle } = report;
    const names = Object.keys(STEP_OF).filter((name) => given.expectations[name] !== undefined);
    return {
      verdict, reason, message, steps, keyName, isSigned,
      idle: [...(idle ?? [])],
      size: head?.size ?? null,
      claims: claims ? shownClaims(claims) : null,
      trustDigest: report.trustDigest ? verifier.hexOf(report.trustDigest) : null,
      compared: Object.fromEntries(names.map((name) => [name, compare(name, report, given)])),
    };
  },
  transcript: ({ stream }) =>
    verifier.encodeTranscript(verifier.reduceResponse(stream, false)),
  /** The digest of a trust file; it is refused if it is none. */
  trust: ({ trust }) => verifier.hexOf(new verifier.Trust(trust).digest),
};

onmessage = ({ data: { id, operation, given } }) => {
  try {
    postMessage({ id, value: OPERATIONS[operation](given) });
  } catch (error) {
    const rule = error instanceof verifier.Refused ? `${error.rule}, byte ${error.offset}` : null;
    postMessage({ id, problem: rule ?? String(error) });
  }
};
