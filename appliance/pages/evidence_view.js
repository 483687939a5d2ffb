// Shows the attestation of one answer, in the verifier's words where it speaks.

import { button, make, pairs, shape } from "./dom.js";
import { failureText } from "./failure.js";
import { hexOf } from "./request.js";
import { save } from "./save.js";
import { text } from "./strings.js";
import { transcriptOf, verifierText } from "./verifying.js";

const SHAPE_OF_RESULT = { passed: "passed", failed: "failed", open: "open", "not made": "none" };
const SHAPE_OF_VERDICT = { PASS: "passed", FAIL: "failed", INCOMPLETE: "open" };
const SHAPE_OF_COMPARED = { same: "passed", differs: "failed", open: "open" };
const WORD_OF_RESULT = { passed: "passed", failed: "failed", open: "open", "not made": "notMade" };

/** The parts that show how an Evidence stands now. */
export function partsOf(it) {
  const parts = [headline(it)];
  if (it.checked !== null && it.state === "checked") {
    const { report, trust } = it.checked;
    parts.push(trustNote(trust), facts(it, report), comparedList(it, report));
    if (it.flipped !== null) parts.push(tampered(it));
    parts.push(buttons(it), stepList(report), elsewhere(it));
  } else if (it.state === "unfetched" || it.state === "unchecked") {
    parts.push(problemText(it), identity(it));
    parts.push(make("p", { class: "buttons" }, button("verifyHere", () => it.check())));
  } else if (it.id !== null) {
    parts.push(identity(it));
  }
  return parts;
}

function headline(it) {
  if (it.state === "checked") return verdictLine(it.checked.report);
  const [sign, key] = {
    waiting: ["waiting", "evidenceWaiting"],
    fetching: ["waiting", "evidenceFetching"],
    checking: ["waiting", "evidenceChecking"],
    none: ["failed", "evidenceNone"],
    unfetched: ["open", "evidenceUnfetched"],
    unchecked: ["open", "evidenceUnfetched"],
  }[it.state];
  const words = it.state === "unchecked"
    ? text("evidenceUnchecked", { why: it.problem.message })
    : text(key);
  return make("p", { class: `state ${sign}` }, shape(sign), make("strong", {}, words));
}

const fileName = (id) => id.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 80);

function problemText(it) {
  return it.state === "unfetched" ? failureText(it.problem) : make("p");
}

function identity(it, more = []) {
  const rows = [[text("evidenceId"), it.id, true]];
  if (it.place !== null) rows.push([text("evidencePlace"), placeText(it)]);
  rows.push([text("evidenceNonce"), hexOf(it.exchange.nonce), true], ...more);
  return pairs(rows);
}

function placeText(it) {
  const { sequence, logId } = it.place;
  return text("evidencePlaceOf", { index: sequence, log: logId.slice(0, 12) });
}

function trustNote({ name }) {
  const words = name === null ? text("ownTrustMeans") : text("yourTrustMeans", { name });
  return make("p", { class: name === null ? "note" : "small" }, words);
}

function facts(it, { claims, keyName }) {
  if (claims === null) return identity(it);
  const { line, release, outcome, finish, tokens: [prompt, output] } = claims;
  return identity(it, [
    [text("evidenceSigner"), signerText(it, keyName)],
    [text("evidenceRelease"), line === undefined
      ? text("evidenceUnsigned")
      : text("evidenceReleaseOf", { line, release })],
    [text("evidenceTokens"), text("evidenceTokensOf", { prompt, output })],
    [text("evidenceEnd"), `${outcome} (${finish})`],
  ]);
}

function signerText(it, keyName) {
  if (keyName === null) return text("evidenceNoSigner");
  return it.checked.trust.name === null ? text("ownKey") : keyName;
}

function comparedList(it, { compared }) {
  const whole = it.exchange.isWhole ? "comparedResponse" : "comparedPrefix";
  const names = { request: "comparedRequest", response: whole, nonce: "comparedNonce" };
  const rows = Object.entries(names).map(([name, key]) => {
    const found = compared[name] ?? "open";
    const sign = SHAPE_OF_COMPARED[found];
    return make("li", {}, shape(sign), make("span", {}, text(key)),
      make("span", { class: `result ${sign}` }, text(found)));
  });
  return make("div", { class: "compared" },
    make("h4", {}, text("comparedTitle")), make("ul", { class: "rows" }, ...rows));
}

function tampered(it) {
  const { at, before, after, report } = it.flipped;
  const shown = (byte) => `0x${byte.toString(16).padStart(2, "0")}`;
  const parts = {
    at: at.toLocaleString("en"), size: it.bundle.length.toLocaleString("en"),
    before: shown(before), after: shown(after),
  };
  return make("div", { class: "tampered", role: "status" },
    make("h4", {}, text("flipNamed")), make("p", { class: "small" }, text("flipped", parts)),
    verdictLine(report));
}

function buttons(it) {
  const { stream, body, isWhole } = it.exchange;
  const name = fileName(it.id);
  const flip = button("flip", () => it.flip(), "plain danger");
  flip.title = text("flipHelp");
  return make("p", { class: "buttons" },
    button("verifyHere", () => it.check()), flip,
    button("saveBundle", () => save(`${name}.bundle`, it.bundle, "application/cbor")),
    isWhole
      ? button("saveTranscript", async () =>
        save(`${name}.transcript`, await transcriptOf(stream), "application/cbor"))
      : null,
    button("saveRequest", () => save(`${name}.request.json`, body, "application/json")),
    button("saveResponse", () => save(`${name}.response.sse`, stream, "text/event-stream")));
}

function stepList({ steps, idle }) {
  const items = steps.map(({ step, result, reason }) => {
    const isIdle = idle.includes(step);
    const sign = isIdle ? "none" : SHAPE_OF_RESULT[result];
    const isNoted = reason !== null && (result === "failed" || result === "open");
    return make("li", {}, shape(sign), make("span", { class: "number" }, String(step)),
      make("span", { class: "step" }, verifierText(`step ${step} 0`),
        isNoted ? make("span", { class: "why" }, ` ${verifierText(`reason ${reason}`)} `,
          make("code", {}, reason)) : null),
      make("span", { class: `result ${sign}` },
        verifierText(isIdle ? "idle" : WORD_OF_RESULT[result])));
  });
  return make("details", { class: "steps" },
    make("summary", {}, text("steps")), make("ol", { class: "rows" }, ...items));
}

function elsewhere(it) {
  const name = fileName(it.id);
  const command = `python -m verifier ${name}.bundle --trust trust.toml ` +
    `--request ${name}.request.json ` +
    `${it.exchange.isWhole ? "--response" : "--response-prefix"} ${name}.response.sse ` +
    `--nonce ${hexOf(it.exchange.nonce)}`;
  return make("details", {}, make("summary", {}, text("offline")),
    make("p", { class: "small" }, text("offlineMeans")),
    make("pre", { tabindex: "0" }, command));
}

/** The verdict with its reason, in the verifier's words. */
function verdictLine({ verdict, reason, message }) {
  const name = verdict ?? "None";
  const sign = SHAPE_OF_VERDICT[verdict] ?? "none";
  const why = verdict === "PASS" ? verifierText("whyPASS") : verifierText(`reason ${reason}`);
  return make("div", { class: `verdict ${name.toLowerCase()}` }, shape(sign),
    make("div", {},
      make("p", { class: "word" }, make("strong", {}, verifierText(`verdict${name}`)), " ",
        make("span", { class: "latin" }, verdict ?? "")),
      make("p", {}, why, " ", verdict === "PASS" ? "" : make("code", {}, reason),
        verdict === null ? ` ${message}` : "")));
}
