// The body of a request, byte for byte as it is sent and compared afterwards.

export const PATH = "/v1/chat/completions";
const encoder = new TextEncoder();

/** A field that cannot be sent; `key` names the text that says so. */
export class FieldError extends Error {
  constructor(field, key) {
    super(key);
    this.field = field;
    this.key = key;
  }
}

function number(fields, name, pattern, low, high, key) {
  const value = fields[name].trim();
  if (value === "") return undefined;
  const found = Number(value);
  if (!pattern.test(value) || found < low || found > high) throw new FieldError(name, key);
  return found;
}

const WHOLE = /^[0-9]{1,16}$/;

/** Parameters from the texts of the fields; what is empty is left out. */
export function parametersOf(fields) {
  const decimal = /^[0-9]{1,3}(?:\.[0-9]{1,6})?$/;
  return {
    temperature: number(fields, "temperature", decimal, 0, 2, "badTemperature"),
    max_tokens: number(fields, "max-tokens", WHOLE, 1, 2 ** 31 - 1, "badMaxTokens"),
    seed: number(fields, "seed", WHOLE, 0, Number.MAX_SAFE_INTEGER, "badSeed"),
  };
}

/** Lone surrogates become U+FFFD: the service takes only text. */
const wellFormed = (value) => value.replace(/\p{Surrogate}/gu, "\ufffd");

/** The messages that a question is sent with. */
export function messagesOf(system, turns, question) {
  const messages = system.trim() === "" ? [] : [{ role: "system", content: wellFormed(system) }];
  for (const turn of turns.filter(({ isKept }) => isKept)) {
    messages.push({ role: "user", content: turn.question });
    messages.push({ role: "assistant", content: turn.answer.text });
  }
  messages.push({ role: "user", content: wellFormed(question) });
  return messages;
}

/** The bytes of the body. */
export const bodyOf = (model, messages, parameters) =>
  encoder.encode(JSON.stringify({ model, messages, stream: true, ...parameters }));

/** What the service commits to: the path, a zero byte, the body. */
export function requestBytes(body) {
  const head = encoder.encode(`${PATH}\0`);
  const bytes = new Uint8Array(head.length + body.length);
  bytes.set(head);
  bytes.set(body, head.length);
  return bytes;
}

/** A nonce that nobody had before. */
export const newNonce = () => crypto.getRandomValues(new Uint8Array(32));

export const hexOf = (bytes) =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
