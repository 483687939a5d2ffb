// Transcripts, and saved responses reduced to them (SPEC.md section 3). Entries are a Map from
// "choice,item,kind" to {choice, item, kind, content}.

const KIND = { content: 1, refusal: 2, name: 3, arguments: 4, embedding: 5, finish: 6 };
const MAX_ENTRIES = 65536;
const MAX_INDEX = 65535;
const MAX_RESPONSE_BYTES = 64 << 20;
const FINISH_REASON = /^[a-z_]{1,32}$/;
const DONE = ascii("[DONE]");
const DATA_FIELD = ascii("data:");

const keyOfEntry = (choice, item, kind) => `${choice},${item},${kind}`;
const placeOfKind = (kind) => (kind === KIND.arguments ? KIND.name : kind);

function compareEntries(first, second) {
  return (
    first.choice - second.choice || placeOfKind(first.kind) - placeOfKind(second.kind) ||
    first.item - second.item || first.kind - second.kind
  );
}

function decodeTranscript(bytes) {
  const limits = { maxBytes: MAX_RESPONSE_BYTES, maxItems: 1 + 5 * MAX_ENTRIES };
  const values = decodeCbor(bytes, limits);
  if (!Array.isArray(values) || values.length > MAX_ENTRIES) throw new Refused("transcript");
  const isIndex = isNumber(0, MAX_INDEX);
  const isEntry = isTuple(isIndex, isIndex, isIndex, isBytes);
  const entries = new Map();
  let before = null;
  for (const value of values) {
    if (!isEntry(value)) throw new Refused("transcript");
    const [kind, choice, item, content] = value;
    const entry = { kind, choice, item, content };
    if (before !== null && compareEntries(before, entry) >= 0) throw new Refused("transcript");
    before = entry;
    entries.set(keyOfEntry(choice, item, kind), entry);
  }
  checkTranscript(entries);
  return entries;
}

function encodeTranscript(entries) {
  const parts = [cborHead(4, entries.size)];
  for (const entry of [...entries.values()].sort(compareEntries)) {
    const numbers = [entry.kind, entry.choice, entry.item].map((number) => cborHead(0, number));
    parts.push(cborHead(4, 4), ...numbers, cborHead(2, entry.content.length), entry.content);
  }
  return joinBytes(parts);
}

/** Refuses entries that make no transcript, whatever their order. */
function checkTranscript(entries) {
  for (const { choice, item, kind, content } of entries.values()) {
    let isGood = entries.has(keyOfEntry(choice, 0, KIND.finish));
    if (kind === KIND.name || kind === KIND.arguments) {
      isGood &&= entries.has(keyOfEntry(choice, item, KIND.name));
    } else {
      isGood &&= item === 0;
    }
    if (kind === KIND.finish) {
      isGood &&= content.length <= 32 && FINISH_REASON.test(latin1Of(content));
    } else if (kind === KIND.embedding) {
      isGood &&= content.length > 0 && content.length % 4 === 0;
    } else {
      isGood &&= kind >= KIND.content && kind <= KIND.arguments;
      isGood &&= (kind === KIND.name || content.length > 0) && utf8Fault(content) < 0;
    }
    if (!isGood) throw new Refused("transcript");
  }
}

const finishReasons = (entries) =>
  [...entries.values()].filter((entry) => entry.kind === KIND.finish)
    .map((entry) => latin1Of(entry.content));

/** The entries of a transcript, a JSON body or an SSE stream; a partial stream may lack its end. */
function reduceResponse(bytes, isPartial) {
  if (bytes.length > 0 && bytes[0] >= 0x80 && bytes[0] <= 0x9b) return decodeTranscript(bytes);
  const reduction = new Reduction();
  let at = 0;
  while ([0x20, 0x09, 0x0d, 0x0a].includes(bytes[at])) at++;
  const isStream = bytes[at] !== 0x7b;
  if (!isStream) reduction.addBody(parseJson(bytes));
  else if (!reduction.addStream(bytes) && !isPartial) throw new Refused("response-end");
  const entries = reduction.entries();
  if (entries.size > MAX_ENTRIES) throw new Refused("transcript");
  if (!(isStream && isPartial)) checkTranscript(entries);
  return entries;
}

/** Whether each entry that was received begins the one of its place. */
function isPrefixOf(received, whole) {
  return [...received].every(([key, { kind, content }]) => {
    const other = whole.get(key)?.content;
    if (other === undefined || content.length > other.length) return false;
    if (kind === KIND.finish) return equalBytes(content, other);
    return equalBytes(content, other.subarray(0, content.length));
  });
}

const asObject = (value) => {
  if (!(value instanceof Map)) throw new Refused("response");
  return value;
};
const asArray = (value) => {
  if (!Array.isArray(value)) throw new Refused("response");
  return value;
};
const asIndex = (value) => {
  if (!Number.isInteger(value) || value < 0 || value > MAX_INDEX) throw new Refused("response");
  return value + 0;
};
const asText = (value) => {
  if (value === undefined || value === null) return new Uint8Array(0);
  if (typeof value !== "string" || /\p{Surrogate}/u.test(value)) throw new Refused("response");
  return new TextEncoder().encode(value);
};

class Reduction {
  constructor() {
    this.found = new Map();
  }

  entries() {
    const joined = new Map();
    for (const [key, { pieces, ...place }] of this.found) {
      joined.set(key, { ...place, content: joinBytes(pieces) });
    }
    return joined;
  }

  add(choice, item, kind, content) {
    if (content.length === 0 && kind !== KIND.name && kind !== KIND.finish) return;
    const key = keyOfEntry(choice, item, kind);
    const entry = this.found.get(key);
    if (entry === undefined) this.found.set(key, { choice, item, kind, pieces: [content] });
    else entry.pieces.push(content);
  }

  addBody(body) {
    const isChat = body.has("choices");
    const seen = new Set();
    for (const value of asArray(body.get(isChat ? "choices" : "data"))) {
      const part = asObject(value);
      const choice = indexOfChoice(part);
      if (seen.has(choice)) throw new Refused("response");
      seen.add(choice);
      if (isChat) {
        this.addChoice(choice, part, "message");
      } else {
        this.add(choice, 0, KIND.embedding, bytesOfEmbedding(part.get("embedding")));
        this.add(choice, 0, KIND.finish, ascii("stop"));
      }
    }
  }

  /** Whether the stream was ended by [DONE]. */
  addStream(stream) {
    // the data of an event, which may have as many lines as the stream has bytes
    const event = new Uint8Array(stream.length);
    let length = -1;
    let at = 0;
    for (let end; (end = stream.indexOf(0x0a, at)) >= 0; at = end + 1) {
      const line = stream.subarray(at, end > at && stream[end - 1] === 0x0d ? end - 1 : end);
      if (equalBytes(line.subarray(0, 5), DATA_FIELD)) {
        const part = line.subarray(line[5] === 0x20 ? 6 : 5);
        if (length >= 0) event[length] = 0x0a;
        event.set(part, length + 1);
        length += 1 + part.length;
      } else if (line.length === 0 && length >= 0) {
        const data = event.subarray(0, length);
        length = -1;
        if (equalBytes(data, DONE)) return true;
        this.addEvent(parseJson(data));
      }
    }
    return false;
  }

  addEvent(body) {
    if (!body.has("choices")) return;
    for (const value of asArray(body.get("choices"))) {
      const part = asObject(value);
      this.addChoice(indexOfChoice(part), part, "delta");
    }
  }

  addChoice(choice, part, holder) {
    const isStream = holder === "delta";
    if (part.has(holder)) {
      const message = asObject(part.get(holder));
      this.add(choice, 0, KIND.content, asText(message.get("content")));
      this.add(choice, 0, KIND.refusal, asText(message.get("refusal")));
      asArray(message.get("tool_calls") ?? []).forEach((value, place) => {
        this.addCall(choice, place, asObject(value), isStream);
      });
    } else {
      this.add(choice, 0, KIND.content, asText(part.get("text")));
    }
    const reason = part.get("finish_reason") ?? null;
    if (reason === null) return;
    if (this.found.has(keyOfEntry(choice, 0, KIND.finish))) throw new Refused("response");
    this.add(choice, 0, KIND.finish, asText(reason));
  }

  addCall(choice, place, call, isStream) {
    const item = asIndex(isStream ? call.get("index") : place);
    const isAbsent = !call.has("function");
    const made = isStream && isAbsent ? new Map() : asObject(call.get("function"));
    const name = made.get("name") ?? null;
    if (name === null && !isStream) throw new Refused("response");
    this.add(choice, item, KIND.name, asText(name));
    this.add(choice, item, KIND.arguments, asText(made.get("arguments")));
  }
}

const indexOfChoice = (part) => asIndex(part.has("index") ? part.get("index") : 0);

/** Binary32, little-endian, of an array of numbers or of base64. */
function bytesOfEmbedding(value) {
  if (typeof value === "string") {
    const bytes = bytesOfBase64(value);
    if (bytes === null) throw new Refused("response");
    return bytes;
  }
  const numbers = asArray(value);
  const view = new DataView(new ArrayBuffer(4 * numbers.length));
  numbers.forEach((number, i) => {
    if (typeof number !== "number" || !Number.isFinite(Math.fround(number))) {
      throw new Refused("response");
    }
    view.setFloat32(4 * i, number, true);
  });
  return new Uint8Array(view.buffer);
}
