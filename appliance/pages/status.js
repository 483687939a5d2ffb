// The page for the operator: /v1/status, asked again every two seconds while somebody looks.

import { call } from "./api.js";
import { byId, make, shape } from "./dom.js";
import { failureText } from "./failure.js";
import { askForKey, setModel, showHead, startKey, watchReady } from "./head.js";
import { currentKey } from "./key.js";
import { onLanguage, startLanguage } from "./language.js";
import { PANELS, Rates, shownValue, signOf, valueAt } from "./status_rows.js";
import { language, text } from "./strings.js";

const PERIOD_MS = 2000;

let status = null;
let seenAt = null;
let fault = null;
let timer = null;
let isAsking = false;
const rates = new Rates();

/** The status with what it does not say itself: how fast its counters grow. */
function withRates(found) {
  return { ...found, rates: rates.of(found) };
}

function show() {
  showHead();
  const time = seenAt?.toLocaleTimeString(language() === 1 ? "zh-CN" : "en-GB");
  const isStale = fault !== null && seenAt !== null;
  byId("as-of").textContent = seenAt === null
    ? text("statusLead")
    : text(isStale ? "statusStale" : "statusAt", { time });
  byId("as-of").className = isStale ? "failure" : "small";
  byId("panels").classList.toggle("stale", isStale);
  byId("fault").replaceChildren(...(fault === null ? [] : [failureText(fault)]));
  byId("raw").hidden = status === null;
  if (status === null) byId("panels").replaceChildren();
  else showPanels();
}

function showPanels() {
  const parts = PANELS.map(([title, rows]) => panel(title, rows)).filter((part) => part !== null);
  const reasons = status.reasons ?? [];
  if (reasons.length > 0) parts.unshift(reasonsPanel(reasons));
  byId("panels").replaceChildren(...parts, errorsPanel());
  const { rates: _, ...said } = status;
  byId("raw-text").textContent = JSON.stringify(said, null, 2);
}

function panel(title, rows) {
  const list = make("dl");
  for (const [name, path, kind = "text"] of rows) {
    const value = valueAt(status, path);
    if (value === undefined) continue;
    const sign = signOf(kind, value);
    list.append(make("dt", {}, text(name)), make("dd", { class: kind === "code" ? "code" : sign },
      ...(sign === null ? [] : [shape(sign)]), make("span", {}, shownValue(kind, value))));
  }
  return list.childElementCount === 0
    ? null
    : make("section", { class: "panel" }, make("h2", {}, text(title)), list);
}

/** Why nothing is answered, where that is so. */
function reasonsPanel(reasons) {
  const items = reasons.map(({ code, message }) =>
    make("li", {}, String(message), " ", make("code", {}, String(code))));
  const kind = status.state === "failed" || status.state === "ready" ? "failed" : "open";
  return make("section", { class: `panel wide ${kind}` },
    make("h2", {}, shape(kind), text("statusReasons")), make("ul", { class: "reasons" }, ...items));
}

function errorsPanel() {
  const errors = status.errors ?? [];
  const items = errors.map(({ time_ms: at, kind, where }) => make("li", {},
    make("span", { class: "small" }, shownValue("time", at)), " ", make("code", {}, String(kind)),
    " ", make("span", { class: "code" }, String(where))));
  return make("section", { class: "panel wide" }, make("h2", {}, text("statusErrors")),
    items.length === 0
      ? make("p", { class: "small" }, text("statusNoErrors"))
      : make("ul", { class: "reasons" }, ...items));
}

async function look() {
  if (isAsking) return;
  isAsking = true;
  clearTimeout(timer);
  if (currentKey() !== null && !document.hidden) {
    try {
      const response = await call("/v1/status", { key: currentKey() });
      status = withRates(await response.json());
      seenAt = new Date();
      fault = null;
      setModel(valueAt(status, "model.name") ?? null);
    } catch (error) {
      fault = error;
      if (error.status === 401 || error.status === 403) {
        status = null;
        seenAt = null;
        fault = null;
        askForKey(["keyRefused", { message: error.message }]);
      }
    }
    show();
  }
  isAsking = false;
  const wantsMore = currentKey() !== null && byId("key-form").hidden;
  if (wantsMore) timer = setTimeout(look, PERIOD_MS);
}

onLanguage(show);
startLanguage();
startKey(look);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) look();
});
await Promise.all([look(), watchReady(look)]);
