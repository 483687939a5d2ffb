// What of /v1/status is shown, where, and how: each row names a text, a path and a kind.

import { language, text } from "./strings.js";

/** Panels in their order: [title, [[name, path, kind], ...]]. */
export const PANELS = [
  ["panelModel", [
    ["rowModel", "model.name"], ["rowLine", "model.line"], ["rowRelease", "model.release", "count"],
    ["rowVerdict", "model.verdict", "verdict"], ["rowMode", "mode", "mode"],
    ["rowWriteXor", "model.write_xor_execute", "lock"],
    ["rowResidency", "model.residency"], ["rowKernel", "model.kernel_path"],
    ["rowContext", "model.context_tokens", "tokens"],
    ["rowModelDigest", "model.model_digest", "code"],
  ]],
  ["panelWork", [
    ["rowOpen", "requests.open", "count"], ["rowRunning", "requests.running", "count"],
    ["rowQueued", "requests.queued", "count"],
    ["rowMaxRunning", "requests.max_running", "count"],
    ["rowMaxQueued", "requests.max_queued", "count"],
    ["rowGenerated", "rates.generated_tokens", "rate"], ["rowPrompt", "rates.prompt_tokens", "rate"],
    ["rowGeneratedAll", "requests.generated_tokens", "tokens"],
    ["rowPromptAll", "requests.prompt_tokens", "tokens"],
    ["rowCachedAll", "requests.cached_tokens", "tokens"],
    ["rowDisconnects", "requests.disconnects", "count"],
  ]],
  ["panelLog", [
    ["rowLogState", "log.state", "state"], ["rowLogSize", "log.size", "count"],
    ["rowLogTime", "log.time_ms", "time"], ["rowLogOpen", "log.open_admissions", "count"],
    ["rowLogRoot", "log.root", "code"], ["rowLogId", "log.log_id", "code"],
  ]],
  ["panelProcess", [
    ["rowIssuer", "issuer"], ["rowProtection", "key_protection"], ["rowUptime", "uptime_s", "duration"],
    ["rowStarted", "started_ms", "time"], ["rowStart", "start.seconds", "seconds"],
    ["rowMemory", "memory.resident_bytes", "bytes"],
    ["rowWeights", "model.resident_bytes", "bytes"],
    ["rowWeightsLocked", "start.memory.locked", "flag"],
    ["rowKeys", "keys.active", "count"], ["rowKeysFailure", "keys.failure", "trouble"],
    ["rowLost", "start.lost_admissions", "count"],
    ["rowLogLines", "access_log_lines_lost", "count"],
  ]],
];

const WINDOW_MS = 10_000;

/** How fast counters grow, over the last ten seconds that were looked at. */
export class Rates {
  constructor() {
    this.seen = [];
  }

  of({ time_ms: time, started_ms: started, requests = {} }) {
    if (this.seen.some((one) => one.started !== started)) this.seen = [];
    this.seen.push({ time, started, requests });
    while (this.seen.length > 2 && time - this.seen[1].time >= WINDOW_MS) this.seen.shift();
    const [first] = this.seen;
    if (time <= first.time) return {};
    const rate = (name) => (requests[name] - first.requests[name]) / ((time - first.time) / 1000);
    return { generated_tokens: rate("generated_tokens"), prompt_tokens: rate("prompt_tokens") };
  }
}

const numbers = () => new Intl.NumberFormat(language() === 1 ? "zh-CN" : "en");

/** A size in the largest binary unit that leaves a number above one. */
function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let size = value;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit++;
  }
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`;
}

function duration(seconds) {
  const whole = Math.floor(seconds);
  const [days, hours] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24];
  const minutes = Math.floor(whole / 60) % 60;
  if (days > 0) return text("daysHours", { days, hours });
  if (hours > 0) return text("hoursMinutes", { hours, minutes });
  return text("minutesSeconds", { minutes, seconds: whole % 60 });
}

// good is shown in green, bad in red; what is in neither list is amber
const GOOD = new Set([true, "signed", "production", "locked", "ready"]);
const BAD = new Set(["failed", "closed", "clock"]);
const SIGNED_KINDS = new Set(["verdict", "mode", "lock", "state", "flag"]);

const SHOWN = {
  count: (value) => numbers().format(value),
  tokens: (value) => text("tokens", { count: numbers().format(value) }),
  rate: (value) => text("perSecond", { count: value.toFixed(1) }),
  bytes,
  duration,
  seconds: (value) => text("seconds", { count: value.toFixed(1) }),
  time: (value) => new Date(value).toLocaleString(language() === 1 ? "zh-CN" : "en-GB"),
  flag: (value) => text(value ? "yes" : "no"),
};

/** The value at a dotted path, undefined where there is none. */
export function valueAt(status, path) {
  return path.split(".").reduce(
    (found, name) => (Object.hasOwn(Object(found), name) ? found[name] : undefined), status,
  );
}

/** Which sign a value has beside it: passed, failed or open; null for none. */
export function signOf(kind, value) {
  if (kind === "trouble") return value === null ? null : "failed";
  if (!SIGNED_KINDS.has(kind) || value === null) return null;
  if (GOOD.has(value)) return "passed";
  return BAD.has(value) ? "failed" : "open";
}

/** A value in words; what does not fit its kind is shown as it came. */
export function shownValue(kind, value) {
  if (value === null || value === "") return text("none");
  const isNumber = typeof value === "number" && Number.isFinite(value);
  const show = SHOWN[kind] ?? String;
  if (typeof value === "object") return JSON.stringify(value);
  return isNumber || kind === "flag" ? show(value) : String(value);
}
