// Which trust file answers are checked with: what the appliance says of itself, or the reader's.

import { call } from "./api.js";
import { byId } from "./dom.js";
import { text } from "./strings.js";
import { trustDigest } from "./verifying.js";

const MAX_BYTES = 65536;
const FILE = "windhover-trust";
const SEEN = "windhover-first-trust";
const encoder = new TextEncoder();

let own = null; // {bytes, digest} that the appliance gives out
let yours = null; // {name, bytes, digest} that the reader chose
let notice = null;
let isChanged = false;
let listener = () => {};

/** The trust file in use: {bytes, name}, name null for the appliance's own; null: there is none. */
export function trustInUse() {
  if (yours !== null) return yours;
  return own === null ? null : { ...own, name: null };
}

function remember(name, value) {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch {
    // a browser that keeps nothing: the file is chosen each time
  }
}

function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** The trust file that says what the appliance says: its key, its log, and nobody's weights. */
export function trustText({ attest_key: key, log_id: log }) {
  if (!/^[A-Za-z0-9+/=]{1,200}$/.test(key) || !/^[0-9a-f]{64}$/.test(log)) {
    throw new Error("/.well-known/windhover");
  }
  return 'version = 1\n\n[keys.appliance]\nrole = "attest"\n' +
    `public_key = "${key}"\n\n[logs.appliance]\nid = "${log}"\n`;
}

/** Takes what /.well-known/windhover gives out. */
export async function takeOwnTrust(wellKnown) {
  const bytes = encoder.encode(trustText(wellKnown));
  own = { bytes, digest: await trustDigest(bytes) };
  const first = remembered(SEEN);
  if (first === null) remember(SEEN, own.digest);
  isChanged = first !== null && first !== own.digest;
  showTrust();
}

async function takeFile(name, bytes) {
  notice = null;
  try {
    if (bytes.length > MAX_BYTES) throw new Error(`more than ${MAX_BYTES} bytes`);
    const content = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    yours = { name, bytes, digest: await trustDigest(bytes) };
    remember(FILE, JSON.stringify({ name, content }));
  } catch (error) {
    notice = ["trustBad", { why: error.message }];
  }
  showTrust();
  listener();
}

export function showTrust() {
  byId("trust-own-digest").textContent = own === null ? text("trustNone") : own.digest;
  byId("trust-changed").textContent = isChanged ? text("trustChanged") : "";
  byId("trust-notice").textContent = notice === null ? "" : text(...notice);
  byId("trust-name").textContent = yours === null ? "" : yours.name;
  byId("trust-digest").textContent = yours === null ? "" : yours.digest;
  byId("trust-remove").hidden = yours === null;
  byId("trust-yours").classList.toggle("used", yours !== null);
  byId("trust-own").classList.toggle("used", yours === null);
  byId("trust-summary").textContent = yours === null ? text("trustOwn") : yours.name;
}

/** Ties the fields; `changed` is called whenever another file is in use. */
export async function startTrust(changed) {
  const input = byId("trust-file");
  input.addEventListener("change", async () => {
    const [file] = input.files;
    if (file === undefined) return;
    const part = file.slice(0, MAX_BYTES + 1);
    input.value = "";
    await takeFile(file.name.slice(0, 100), new Uint8Array(await part.arrayBuffer()));
  });
  byId("trust-remove").addEventListener("click", () => {
    yours = null;
    notice = null;
    remember(FILE, null);
    showTrust();
    changed();
    input.focus();
  });
  try {
    const { name, content } = JSON.parse(remembered(FILE));
    await takeFile(String(name), encoder.encode(content));
  } catch {
    // nothing was kept
  }
  listener = changed;
  showTrust();
}

/** What the appliance publishes of itself, once it can be asked. */
export async function fetchWellKnown() {
  const response = await call("/.well-known/windhover");
  return response.json();
}
