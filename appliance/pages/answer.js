// What a stream of chat.completion.chunk objects says, and whether it was whole.

import { StreamError } from "./sse.js";

/** What the service said instead of an answer, inside a stream that had begun. */
export class AnswerError extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

const isObject = (value) =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isTextOrNothing = (value) =>
  value === undefined || value === null || typeof value === "string";

function need(condition) {
  if (!condition) throw new StreamError("chunk");
}

/** One answer of one choice, while it arrives. */
export class Answer {
  constructor() {
    this.id = null;
    this.model = null;
    this.text = "";
    this.calls = [];
    this.finish = null;
    this.attestation = null;
    this.usage = null;
  }

  /** Takes the data of one event and returns the text that it adds. */
  take(data) {
    let chunk;
    try {
      chunk = JSON.parse(data);
    } catch {
      throw new StreamError("json");
    }
    need(isObject(chunk));
    if (isObject(chunk.error)) {
      throw new AnswerError(String(chunk.error.message ?? ""), String(chunk.error.code ?? ""));
    }
    need(Array.isArray(chunk.choices) && chunk.choices.length <= 1);
    need(typeof chunk.id === "string" && typeof chunk.model === "string");
    need(this.id === null || (this.id === chunk.id && this.model === chunk.model));
    this.id = chunk.id;
    this.model = chunk.model;
    if (isObject(chunk.usage)) this.usage = chunk.usage;
    return chunk.choices.length === 0 ? "" : this.takeChoice(chunk.choices[0], chunk);
  }

  takeChoice(choice, chunk) {
    need(isObject(choice) && choice.index === 0 && isObject(choice.delta));
    const { content, tool_calls: calls } = choice.delta;
    need(isTextOrNothing(content) && isTextOrNothing(choice.finish_reason));
    if (this.finish !== null) throw new StreamError("after-finish");
    if (Array.isArray(calls)) for (const call of calls) this.takeCall(call);
    const added = content ?? "";
    this.text += added;
    if (typeof choice.finish_reason === "string") {
      this.finish = choice.finish_reason;
      this.attestation = this.readAttestation(chunk.attestation ?? choice.attestation);
    }
    return added;
  }

  takeCall(call) {
    need(isObject(call) && Number.isInteger(call.index) && call.index <= this.calls.length);
    const made = call.function ?? {};
    need(isObject(made) && isTextOrNothing(made.name) && isTextOrNothing(made.arguments));
    if (call.index === this.calls.length) this.calls.push({ name: "", arguments: "" });
    this.calls[call.index].name += made.name ?? "";
    this.calls[call.index].arguments += made.arguments ?? "";
  }

  readAttestation(found) {
    need(isObject(found) && typeof found.id === "string" && Number.isSafeInteger(found.sequence));
    need(typeof found.log_id === "string");
    return { id: found.id, sequence: found.sequence, logId: found.log_id };
  }
}
