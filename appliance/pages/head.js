// The strip at the top of both pages: which model, whether it answers, and the key.

import { byId, shape } from "./dom.js";
import { findKey, isKey, setKey } from "./key.js";
import { text } from "./strings.js";

const READY_MS = 30_000;
const WAITING_MS = 3_000;
const SIGNS = {
  ready: "passed", loading: "waiting", draining: "open", failed: "failed", unreachable: "failed",
};
const WORDS = {
  ready: "stateReady", loading: "stateLoading", draining: "stateDraining", failed: "stateFailed",
  unreachable: "stateUnreachable",
};

let shown = { phase: "loading", reason: "" };
let model = null;
let refusal = null;

/** The served model's name, null before it is known. */
export const servedModel = () => model;

export function setModel(name) {
  model = name;
  showHead();
}

/** Shows the strip in the language chosen. */
export function showHead() {
  const { phase, reason } = shown;
  byId("phase").replaceChildren(shape(SIGNS[phase]), ` ${text(WORDS[phase])}`);
  byId("phase").className = SIGNS[phase];
  byId("reason").textContent = reason;
  byId("model-name").textContent = model ?? text("stateUnknownModel");
  byId("key-notice").textContent = refusal === null ? "" : text(...refusal);
}

async function look() {
  try {
    const response = await fetch("/ready", { cache: "no-store", credentials: "omit" });
    shown = readReady(response.status, await response.json());
  } catch {
    shown = { phase: "unreachable", reason: "" };
  }
  showHead();
}

/** What /ready says, as a phase and a line for a person. */
export function readReady(status, body) {
  const reason = body.reasons?.[0]?.message ?? body.error?.message ?? "";
  const phase = Object.hasOwn(SIGNS, body.status) ? body.status : "loading";
  return { phase: status === 200 ? "ready" : phase === "ready" ? "failed" : phase, reason };
}

/** Looks at /ready again and again; `changed` is called when it becomes ready. */
export async function watchReady(changed) {
  const before = shown.phase;
  await look();
  if (shown.phase === "ready" && before !== "ready") changed();
  setTimeout(() => watchReady(changed), shown.phase === "ready" ? READY_MS : WAITING_MS);
}

/** Asks for a key; `why` is [name of a text, parts] after a refusal. */
export function askForKey(why = null) {
  refusal = why;
  byId("key-form").hidden = false;
  byId("key-forget").hidden = true;
  showHead();
}

/** Ties the form of the key; `changed` is called when there is another one. */
export function startKey(changed) {
  const take = () => {
    const isThere = findKey() !== null;
    byId("key-form").hidden = isThere;
    byId("key-forget").hidden = !isThere;
    return isThere;
  };
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const value = byId("key").value.trim();
    byId("key").value = "";
    if (!isKey(value)) {
      askForKey(["keyBad"]);
      return;
    }
    refusal = null;
    setKey(value);
    take();
    showHead();
    changed();
  });
  byId("key-forget").addEventListener("click", () => {
    setKey(null);
    askForKey();
    byId("key").focus();
  });
  addEventListener("hashchange", () => {
    if (take()) changed();
  });
  take();
}
