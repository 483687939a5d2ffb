// Runs the pages' code under Node: cases as JSON on standard input, an answer a line.

import fs from "node:fs";

import { Answer, AnswerError } from "./answer.js";
import { bodyOf, messagesOf, parametersOf, requestBytes } from "./request.js";
import { EventReader, StreamError } from "./sse.js";
import { shownValue, signOf, valueAt } from "./status_rows.js";
import { STRINGS, setLanguage, text } from "./strings.js";

const hex = (given) => Uint8Array.from(Buffer.from(given, "hex"));

const OPERATIONS = {
  /** Events of a stream that arrives in pieces of `size` bytes. */
  events({ stream, size }) {
    const bytes = hex(stream);
    const reader = new EventReader();
    const found = [];
    for (let at = 0; at < bytes.length; at += size) {
      found.push(...reader.push(bytes.subarray(at, at + size)));
    }
    return [found, reader.finish()];
  },
  answer({ events }) {
    const answer = new Answer();
    const added = events.map((data) => answer.take(data));
    const { text: said, calls, finish, attestation, usage } = answer;
    return { added, text: said, calls, finish, attestation, usage };
  },
  parameters: ({ fields }) => parametersOf(fields),
  body: ({ model, system, turns, question, parameters }) => Buffer.from(requestBytes(
    bodyOf(model, messagesOf(system, turns, question), parameters),
  )).toString("utf-8"),
  strings: () => STRINGS,
  text: ({ key, parts, language }) => {
    setLanguage(language ?? 0);
    return text(key, parts);
  },
  row: ({ status, path, kind, language }) => {
    setLanguage(language ?? 0);
    const value = valueAt(status, path);
    if (value === undefined) return null;
    return [shownValue(kind, value), signOf(kind, value)];
  },
};

for (const given of JSON.parse(fs.readFileSync(0, "utf-8"))) {
  let answer;
  try {
    answer = { value: OPERATIONS[given.op](given) ?? null };
  } catch (error) {
    if (error instanceof StreamError) answer = { rule: error.rule };
    else if (error instanceof AnswerError) answer = { error: [error.message, error.code] };
    else if (error.key) answer = { field: error.field, key: error.key };
    else throw error;
  }
  fs.writeSync(1, `${JSON.stringify(answer)}\n`);
}
