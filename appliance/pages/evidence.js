// The attestation of one answer: fetched, checked in this browser, tampered with, saved.

import { bytesOf, call } from "./api.js";
import { make } from "./dom.js";
import { partsOf } from "./evidence_view.js";
import { currentKey } from "./key.js";
import { requestBytes } from "./request.js";
import { text } from "./strings.js";
import { trustInUse } from "./trust.js";
import { transcriptOf, verify } from "./verifying.js";

const MAX_BUNDLE_BYTES = 32 << 20;
const WAITS_MS = [300, 700, 1500, 3000, 5000];

/** Where `part` begins in `whole`, -1 if it is not there. */
function find(whole, part) {
  for (let at = 0; (at = whole.indexOf(part[0], at)) >= 0; at++) {
    if (part.every((byte, i) => whole[at + i] === byte)) return at;
  }
  return -1;
}

export class Evidence {
  /** `exchange` has what was sent and received: {body, nonce, stream, isWhole}. */
  constructor(exchange) {
    this.exchange = exchange;
    this.id = null;
    this.place = null;
    this.state = "waiting";
    this.problem = null;
    this.bundle = null;
    this.checked = null; // {report, trust}
    this.flipped = null; // {at, before, after, report}
    this.turn = 0;
    this.focused = null; // name of the button that was used last
    this.node = make("section", { class: "evidence", "aria-live": "polite" });
    this.render();
  }

  /** The id is known before the answer, from the header of the response. */
  announce(id) {
    this.id = id;
    this.render();
  }

  /** The answer has ended; `attestation` is null if none came with it. */
  async settle(attestation) {
    if (attestation !== null) {
      this.id = attestation.id;
      this.place = attestation;
    }
    if (this.id === null) {
      this.become("none");
      return;
    }
    await this.check();
  }

  become(state, problem = null) {
    this.state = state;
    this.problem = problem;
    this.render();
  }

  async fetchBundle() {
    // an answer that was broken off is closed a moment later
    const waits = this.exchange.isWhole ? [] : [...WAITS_MS];
    for (;;) {
      try {
        const response = await call(`/v1/attestations/${encodeURIComponent(this.id)}`, {
          key: currentKey(), headers: { Accept: "application/cbor" },
        });
        return await bytesOf(response, MAX_BUNDLE_BYTES);
      } catch (error) {
        if (error.status === 401 || error.status === 403 || waits.length === 0) throw error;
        await new Promise((done) => setTimeout(done, waits.shift()));
      }
    }
  }

  /** Fetches the bundle if it is not here yet, and checks it with the trust file in use. */
  async check() {
    const mine = ++this.turn;
    this.flipped = null;
    if (this.bundle === null) {
      this.become("fetching");
      try {
        this.bundle = await this.fetchBundle();
      } catch (error) {
        if (mine === this.turn) this.become("unfetched", error);
        return;
      }
    }
    this.become("checking");
    try {
      const trust = trustInUse();
      const report = await this.reportOn(this.bundle, trust);
      if (mine !== this.turn) return;
      this.checked = { report, trust };
      this.become("checked");
    } catch (error) {
      if (mine === this.turn) this.become("unchecked", error);
    }
  }

  reportOn(bundle, trust) {
    if (trust === null) throw new Error(text("trustNone"));
    const { body, nonce, stream, isWhole } = this.exchange;
    const expectations = {
      at: Date.now(), nonce, request: requestBytes(body), response: stream, prefix: !isWhole,
      // the appliance's own word is no evidence of who released the model
      need: trust.name === null ? ["A0", "A1", "A2"] : ["A0", "A1", "A2", "A3"],
    };
    return verify({ bundle, trust: trust.bytes, expectations });
  }

  /** Changes one byte of what was asked or answered, in a copy, and checks the copy. */
  async flip() {
    const mine = ++this.turn;
    const { stream, isWhole, body } = this.exchange;
    const part = isWhole ? await transcriptOf(stream) : body;
    const start = find(this.bundle, part);
    const [low, size] = start < 0 ? [0, this.bundle.length] : [start, part.length];
    const at = low + crypto.getRandomValues(new Uint32Array(1))[0] % size;
    const copy = this.bundle.slice();
    copy[at] ^= 1;
    try {
      const report = await this.reportOn(copy, this.checked.trust);
      if (mine !== this.turn) return;
      this.flipped = { at, before: this.bundle[at], after: copy[at], report };
      this.render();
    } catch (error) {
      if (mine === this.turn) this.become("unchecked", error);
    }
  }

  render() {
    if (this.node.contains(document.activeElement)) {
      this.focused = document.activeElement.dataset.text ?? null;
    }
    const isOpen = [...this.node.querySelectorAll("details")].map((node) => node.open);
    this.node.replaceChildren(...partsOf(this));
    this.node.querySelectorAll("details").forEach((node, i) => { node.open = isOpen[i] ?? false; });
    // whoever works with the keyboard stays where he was, on the button that was made anew
    if (this.focused !== null && document.activeElement === document.body) {
      this.node.querySelector(`[data-text="${this.focused}"]`)?.focus({ preventScroll: true });
    }
  }
}
