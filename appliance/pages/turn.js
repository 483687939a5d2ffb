// One question and its answer: sent, streamed, ended in one of five ways, attested.

import { Answer, AnswerError } from "./answer.js";
import { Failure, call } from "./api.js";
import { byId, make, shape } from "./dom.js";
import { Evidence } from "./evidence.js";
import { failureText } from "./failure.js";
import { currentKey } from "./key.js";
import { PATH, bodyOf, hexOf, newNonce } from "./request.js";
import { EventReader, StreamError } from "./sse.js";
import { text } from "./strings.js";
import { TextFlow } from "./text_flow.js";

const MAX_STREAM_BYTES = 64 << 20;

function join(parts) {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

export class Turn {
  /** How it ended is `end`: null while it runs, then whole, stopped, cut, broken or failed. */
  constructor(question) {
    this.question = question;
    this.answer = new Answer();
    this.end = null;
    this.problem = null;
    this.evidence = null;
    this.isWaiting = true;
    this.control = new AbortController();
    this.ended = new Promise((settle) => { this.settle = settle; });
    this.flow = new TextFlow();
    this.note = make("div", { class: "ending" });
    this.name = make("h3", { class: "who" });
    this.node = make("article", { class: "turn", "aria-busy": "true" },
      make("div", { class: "question" },
        make("h3", { class: "who", "data-text": "you" }, text("you")),
        make("p", { class: "words", dir: "auto" }, question)),
      make("div", { class: "answer" }, this.name, this.flow.node, this.note));
    this.render();
  }

  /** Whether the next question is sent along with this turn. */
  get isKept() {
    return (this.end === "whole" || this.end === "stopped") && this.answer.text !== "" &&
      this.answer.calls.length === 0;
  }

  stop() {
    this.control.abort();
  }

  /** Sends the question and follows the answer to its end; never raises. */
  async run(model, messages, parameters) {
    const exchange = {
      body: bodyOf(model, messages, parameters), nonce: newNonce(), stream: null, isWhole: false,
    };
    const pieces = [];
    try {
      await this.follow(exchange, pieces);
      this.end = "whole";
    } catch (error) {
      this.problem = error;
      this.end = this.endOf(error);
    }
    exchange.stream = join(pieces);
    exchange.isWhole = this.end === "whole";
    this.flow.flush();
    this.node.removeAttribute("aria-busy");
    this.render();
    this.settle();
    await this.evidence?.settle(this.answer.attestation);
  }

  endOf(error) {
    if (error.name === "AbortError") return "stopped";
    if (error instanceof StreamError) return error.rule === "cut" ? "cut" : "broken";
    if (error instanceof Failure || error instanceof AnswerError) return "failed";
    return "cut";
  }

  async follow(exchange, pieces) {
    const response = await call(PATH, {
      method: "POST", key: currentKey(), body: exchange.body, signal: this.control.signal,
      headers: { "Content-Type": "application/json", "Windhover-Nonce": hexOf(exchange.nonce) },
    });
    this.evidence = new Evidence(exchange);
    this.node.append(this.evidence.node);
    this.evidence.announce(response.headers.get("Windhover-Attestation"));
    if (!/^text\/event-stream\b/.test(response.headers.get("Content-Type") ?? "")) {
      throw new StreamError("type");
    }
    const events = new EventReader();
    const reader = response.body.getReader();
    let size = 0;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      size += value.length;
      if (size > MAX_STREAM_BYTES) throw new StreamError("too-long");
      pieces.push(value);
      for (const data of events.push(value)) this.take(data);
    }
    if (!events.finish() || this.answer.finish === null) throw new StreamError("cut");
    if (this.evidence.id !== null && this.evidence.id !== this.answer.attestation.id) {
      throw new StreamError("attestation-id");
    }
  }

  take(data) {
    const added = this.answer.take(data);
    if (added !== "") {
      this.flow.append(added);
      if (this.isWaiting) {
        this.isWaiting = false;
        this.render();
      }
    }
  }

  render() {
    this.name.textContent = this.answer.model ?? text("model");
    const parts = this.answer.calls.map((made) => make("div", { class: "call" },
      make("p", { class: "small" }, text("toolCall", { name: made.name })),
      make("pre", { tabindex: "0" }, made.arguments)));
    if (this.end === null && this.isWaiting) {
      parts.push(make("p", { class: "state waiting small" }, shape("waiting"), text("waitingFirst")));
    }
    parts.push(...this.ending());
    if (this.end !== null && !this.isKept) parts.push(make("p", { class: "small" }, text("leftOut")));
    this.note.replaceChildren(...parts);
    this.evidence?.render();
  }

  ending() {
    const bad = (key, ...inside) => [make("div", { class: "bad", role: "alert" },
      make("p", { class: "state failed" }, shape("failed"), make("strong", {}, text(key))), ...inside)];
    switch (this.end) {
      case "whole":
        return this.answer.finish === "length"
          ? [make("p", { class: "small" }, text("endLength"))]
          : [];
      case "stopped":
        return [make("p", { class: "state open small" }, shape("open"), text("endStopped"))];
      case "cut":
        return bad("endCut", make("p", {}, text("endCutMeans")));
      case "broken":
        return bad("endBrokenTitle", make("p", {}, text("endBroken", { rule: this.problem.rule })));
      case "failed":
        return bad("endFailed", this.problem instanceof AnswerError
          ? failureText(new Failure(200, this.problem.code, this.problem.message))
          : failureText(this.problem));
      default:
        return [];
    }
  }
}

/** Tells those who do not see the page how a turn stands. */
export function say(key) {
  byId("said").textContent = text(key);
}
