// Server-sent events as bytes arrive. Strict where a browser's own reader guesses: fields that the
// service never sends, text that is no UTF-8 and an event that breaks off are errors.

const MAX_EVENT_BYTES = 8 << 20;
const DONE = "[DONE]";

/** A stream that does not keep to its form; `rule` is one of the names thrown below. */
export class StreamError extends Error {
  constructor(rule) {
    super(rule);
    this.rule = rule;
  }
}

/** Turns pieces of a stream, however it was cut, into the data of its events. */
export class EventReader {
  constructor() {
    this.decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    this.parts = []; // of the line that is still open
    this.size = 0; // bytes of the event that is still open
    this.data = null;
    this.isDone = false;
  }

  /** The data of the events that end in these bytes, in order; `[DONE]` is none of them. */
  push(bytes) {
    const found = [];
    let at = 0;
    for (let end; (end = bytes.indexOf(10, at)) >= 0; at = end + 1) {
      this.keep(bytes.subarray(at, end));
      const data = this.line(this.takeLine());
      if (data === DONE) this.isDone = true;
      else if (data !== null) found.push(data);
    }
    this.keep(bytes.subarray(at));
    return found;
  }

  /** Whether the stream ended with `[DONE]`; an event that broke off is an error. */
  finish() {
    if (this.parts.length > 0 || this.data !== null) throw new StreamError("cut");
    return this.isDone;
  }

  keep(part) {
    if (part.length === 0) return;
    this.size += part.length;
    if (this.size > MAX_EVENT_BYTES) throw new StreamError("too-long");
    this.parts.push(part.slice());
  }

  takeLine() {
    const line = new Uint8Array(this.parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of this.parts) {
      line.set(part, at);
      at += part.length;
    }
    this.parts = [];
    try {
      return this.decoder.decode(line).replace(/\r$/, "");
    } catch {
      throw new StreamError("utf-8");
    }
  }

  /** The data of an event if this line ends one. */
  line(line) {
    if (line === "") {
      const data = this.data;
      this.data = null;
      this.size = 0;
      return data;
    }
    if (line.startsWith(":")) {
      if (this.data === null) this.size = 0;
      return null;
    }
    if (this.isDone) throw new StreamError("after-done");
    if (!line.startsWith("data:")) throw new StreamError("field");
    const part = line.slice(line[5] === " " ? 6 : 5);
    this.data = this.data === null ? part : `${this.data}\n${part}`;
    return null;
  }
}
