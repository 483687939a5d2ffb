// Asks the worker that holds the verifier's code.

import { language } from "./strings.js";

let worker = null;
let count = 0;
let texts = null;
const waiting = new Map();

function start() {
  worker = new Worker("/assets/verify_worker.js");
  worker.onmessage = ({ data: { id, value, problem } }) => {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (problem === undefined) resolve(value);
    else reject(new Error(problem));
  };
  worker.onerror = (event) => {
    for (const { reject } of waiting.values()) reject(new Error(event.message ?? "worker"));
    waiting.clear();
    worker = null;
  };
}

function ask(operation, given = {}) {
  if (worker === null) start();
  return new Promise((resolve, reject) => {
    waiting.set(++count, { resolve, reject });
    worker.postMessage({ id: count, operation, given });
  });
}

/** What the verifier says: see verify_worker.js. Its texts are there once it has said it. */
export async function verify(given) {
  texts ??= await ask("texts");
  return ask("verify", given);
}

/** The transcript (verifier/SPEC.md, section 3) of a whole stream. */
export const transcriptOf = (stream) => ask("transcript", { stream });

/** The digest of a trust file; an Error says why it is none. */
export const trustDigest = (trust) => ask("trust", { trust });

/** A text of the verifier's page. */
export const verifierText = (name) => texts[name]?.[language()] ?? name;
