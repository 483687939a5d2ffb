// Shows a report: the verdict, each step, what the appliance only says, what stays open.

const MAX_TEXT_BYTES = 20000;
const MAX_ENTRIES_SHOWN = 50;
const RESULT_WORDS = { passed: "passed", failed: "failed", open: "open", "not made": "notMade" };
const NEVER = ["never1", "never2", "never3", "never4", "never5", "never6"];
let showsLetters = false;

function instantText(ms) {
  return ms < 253402300800000 ? new Date(ms).toISOString() : `${ms} ms`;
}

function showReport(report, expected) {
  const place = byId("report");
  const parts = [verdictPanel(report, expected)];
  if (report.claims) parts.push(glancePanel(report));
  if (report.steps.length > 0) parts.push(...RUNGS.map((rung) => rungPanel(report, rung)));
  if (report.opened?.size > 0) parts.push(textsPanel(report));
  if (report.claims) parts.push(saysPanel(report));
  if (report.verdict !== null) parts.push(limitsPanel(report, expected));
  place.replaceChildren(...parts);
}

function verdictPanel(report, expected) {
  const { verdict, reason } = report;
  const name = verdict ?? "None";
  const box = make("section", { class: `panel verdict ${name.toLowerCase()}` });
  const word = make("h2", { id: "verdict" }, text(`verdict${name}`));
  if (verdict !== null) word.append(" ", make("span", { class: "latin" }, verdict));
  const why = make("p", { class: "why" }, make("strong", {}, `${text("why")}: `));
  why.append(verdict === "PASS" ? text("whyPASS") : reasonText(reason));
  if (verdict === null) {
    why.append(" ", text("fieldWrong", { field: text(FIELD_NAMES[report.field]) }));
    why.append(" ", make("code", {}, escaped(report.message)));
  } else {
    why.append(" ", make("code", { title: text("code") }, reason));
  }
  const print = make("button", { type: "button", class: "plain" }, text("print"));
  print.addEventListener("click", () => window.print());
  const time = text("checkedAt", { time: instantText(expected.at) });
  box.append(
    shape(SHAPE_OF_VERDICT[verdict] ?? "none"),
    make("div", { class: "said" },
      word, make("p", { class: "meaning" }, text(`meaning${name}`)), why, otherReasons(report),
      make("p", { class: "small row" }, time, print)),
  );
  return box;
}

/** What else is wrong or open in the parts that were asked for, each reason once. */
function otherReasons({ steps, reason, need }) {
  const counted = steps.filter(({ result, rung }) => result === "failed" || need.has(rung));
  const found = new Set(counted.map((step) => step.reason));
  found.delete(null);
  found.delete(reason);
  if (found.size === 0) return null;
  const items = [...found].map((code) => make("li", {}, reasonText(code), " ", make("code", {}, code)));
  return make("div", { class: "also" }, make("strong", {}, `${text("also")}:`), make("ul", {}, ...items));
}

function glancePanel({ claims, keyName, isSigned, head, witnesses, trustDigest }) {
  const place = { sequence: String(claims.sequence), size: String(head?.size) };
  const names = witnesses.map(({ name, time }) => `${escaped(name)} (${instantText(time)})`);
  const release = claims.line === undefined
    ? text("glanceUnsigned")
    : text("glanceRelease", { line: claims.line, release: String(claims.release) });
  const [prompt, output] = claims.tokens.map(String);
  const known = keyName === null
    ? text("glanceKeyUnknown")
    : text("glanceKeyNamed", { name: escaped(keyName) });
  return make("section", { class: "panel" },
    make("h3", {}, text("glance")),
    isSigned ? null : make("p", { class: "warning" }, text("glanceUnchecked")),
    pairs([
      [text("glanceKey"), known],
      [text("glanceModel"), release],
      [text("glancePlace"), text(head === null ? "glanceEntry" : "glanceOf", place)],
      [text("glanceTokens"), text("glanceCounts", { prompt, output })],
      [text("glanceWitness"), names.join(", ") || text("glanceNoWitness")],
      [text("glanceTrust"), hexOf(trustDigest), true],
    ]));
}

function rungPanel(report, rung) {
  const steps = report.steps.filter((step) => step.rung === rung);
  const made = steps.filter(({ step }) => !report.idle.has(step));
  const passed = made.filter(({ result }) => result === "passed").length;
  const parts = { passed: String(passed), all: String(made.length) };
  const isNeeded = report.need.has(rung);
  const worst = ["failed", "open", "not made"].find((one) => steps.some(({ result }) => result === one));
  return make("section", { class: "panel rung" },
    make("div", { class: "rung-head" },
      shape(SHAPE_OF_RESULT[worst ?? "passed"]),
      make("h3", {}, make("span", { class: "latin" }, rung), ` ${text(rung)}`),
      make("span", { class: "count" }, text("count", parts), isNeeded ? "" : ` · ${text("notNeeded")}`)),
    make("p", { class: "small" }, text(`${rung}means`)),
    make("ol", { class: "steps" }, ...steps.map(
      (step) => stepItem(step, report.idle.has(step.step), isFirstOf(report, step)),
    )));
}

/** Whether a step is the first that has its reason: such a one is shown at once. */
function isFirstOf({ steps }, { step, reason }) {
  return reason !== null && steps.find((one) => one.reason === reason).step === step;
}

function stepItem({ step, result, reason }, isIdle, isShown) {
  const [title, covers, coversNot] = STEP_TEXTS[step].map(inLanguage);
  const isNoted = result === "failed" || result === "open";
  const name = isIdle ? "none" : SHAPE_OF_RESULT[result];
  const summary = make("summary", {},
    shape(name),
    make("span", { class: "number" }, String(step)),
    make("span", { class: "step-title" }, title),
    make("span", { class: `result ${name}` }, text(isIdle ? "idle" : RESULT_WORDS[result])));
  const why = isNoted
    ? make("p", { class: "why" }, reasonText(reason), " ", make("code", {}, reason))
    : null;
  return make("li", {},
    make("details", { open: isShown, class: name }, summary,
      make("div", { class: "inside" }, why,
        pairs([[text("covers"), covers], [text("coversNot"), coversNot]]))));
}

/** A text as SPEC.md section 7 says, or with the letters of every script if the reader wants. */
function shownText(bytes) {
  const part = bytes.subarray(0, MAX_TEXT_BYTES);
  const whole = new TextDecoder("utf-8", { ignoreBOM: true }).decode(part);
  let shown = escaped(whole);
  if (showsLetters) {
    shown = "";
    for (const sign of whole) {
      const isSeen = sign === "\n" || /[\p{L}\p{M}\p{N}\p{P}\p{S} \u3000]/u.test(sign);
      shown += isSeen && sign !== "\\" ? sign : escaped(sign);
    }
  }
  const left = bytes.length - part.length;
  return make("pre", { dir: "auto", tabindex: "0" },
    shown, left > 0 ? `\n${text("shortened", { left: String(left) })}` : "");
}

function textsPanel({ opened }) {
  const parts = [];
  if (opened.has("request")) {
    parts.push(make("h4", {}, text("textRequest")), shownText(opened.get("request")));
  }
  if (opened.has("transcript")) parts.push(...answerParts(opened.get("transcript")));
  const box = make("section", { class: "panel" },
    make("h3", {}, text("texts")), make("p", { class: "small" }, text("textsMean")));
  if (parts.length === 0) return box;
  const tick = make("input", { type: "checkbox", id: "letters" });
  tick.checked = showsLetters;
  tick.addEventListener("change", () => {
    showsLetters = tick.checked;
    box.replaceWith(textsPanel({ opened }));
    byId("letters").focus();
  });
  box.append(make("p", { class: "tick" }, tick, make("label", { for: "letters" }, text("letters"))),
    make("p", { class: "small" }, text("lettersHelp")), ...parts);
  return box;
}

function answerParts(bytes) {
  let entries;
  try {
    entries = [...decodeTranscript(bytes).values()];
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return [make("h4", {}, text("textAnswer")), shownText(bytes)];
  }
  return entries.slice(0, MAX_ENTRIES_SHOWN).flatMap(({ choice, kind, content }) => {
    const isNumbers = kind === KIND.embedding;
    const kindText = text(`kind${kind}`, { size: String(content.length) });
    const title = text("textChoice", { choice: String(choice), kind: kindText });
    return [make("h4", {}, title), isNumbers ? null : shownText(content)];
  }).filter((part) => part !== null);
}

function saysPanel({ claims, signer, isSigned, software }) {
  const sources = { server: "saySteerable", request: "saySeedRequest", nonce: "saySeedNonce" };
  const digest = (bytes) => (bytes === undefined ? text("sayNone") : hexOf(bytes));
  const parameters = [...claims.parameters].map(([name, value]) => `${name} = ${value}`).join(", ");
  return make("section", { class: "panel says" },
    make("h3", {}, text("says")), make("p", { class: "small" }, text(isSigned ? "saysMeans" : "saysForged")),
    pairs([
      [text("sayIssuer"), escaped(claims.issuer)],
      [text("sayOutcome"), claims.outcome],
      [text("sayFinish"), claims.finish],
      [text("sayStarted"), instantText(claims.started)],
      [text("sayEnded"), instantText(claims.ended)],
      [text("sayMode"), claims.mode],
      [text("sayLoad"), claims.loadVerdict],
      [text("sayResidency"), claims.residency],
      [text("sayWriteXor"), claims.writeXor],
      [text("sayNumerics"), claims.numerics],
      [text("sayKernel"), escaped(claims.kernelPath)],
      [text("sayParameters"), parameters || text("sayNone")],
      [text("saySeedSource"), text(sources[claims.seedSource])],
      [text("saySeed"), String(claims.seed), true],
      [text("sayNonce"), digest(claims.nonce), true],
      [text("sayModel"), digest(claims.model), true],
      [text("saySoftware"), digest(claims.software), true],
      ...software.map((one) => [text("sayRelease"), softwareText(one)]),
      [text("sayPrincipal"), digest(claims.principal), true],
      [text("sayLog"), digest(claims.logId), true],
      [text("saySigner"), digest(signer), true],
      [text("sayTrust"), digest(claims.trust), true],
      [text("sayRevocations"), String(claims.revocations)],
    ]));
}

/** What a manifest of the software is worth; of one that is not believed nothing is repeated. */
function softwareText({ result, release, signedBy }) {
  const said = inLanguage(SOFTWARE_TEXTS[result]);
  if (release === null) return said;
  return text("sayReleaseOf", { release: escaped(release), name: escaped(signedBy), said });
}

function limitsPanel(report, expected) {
  const open = [text("notChecked1")];
  for (const rung of RUNGS) {
    if (report.need && !report.need.has(rung)) {
      open.push(text("notCheckedNeed", { name: `${rung} ${text(rung)}` }));
    }
  }
  if (!expected.nonce) open.push(text("notCheckedNonce"));
  if (!expected.request && !expected.response) open.push(text("notCheckedTexts"));
  if (!expected.head) open.push(text("notCheckedHead"));
  return make("section", { class: "panel limits" },
    make("div", {}, make("h3", {}, text("notChecked")), bullets(open)),
    make("div", {}, make("h3", {}, text("never")), bullets(NEVER.map((key) => text(key)))));
}
