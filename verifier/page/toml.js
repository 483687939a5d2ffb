// The subset of TOML of a trust file (crypto/README.md). Tables are Map, so that no name has a
// meaning of its own; offsets are in bytes.

const TOML_MAX_BYTES = 65536;
const TOML_REFUSED = new RegExp(
  "[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f" +
    "\\u2028-\\u202e\\u2066-\\u2069\\ufeff]|\\r(?!\\n)",
);
const TOML_PART = '([A-Za-z0-9_-]{1,64}|"[A-Za-z0-9_.-]{1,64}")';
const TOML_HEADER = new RegExp(`\\[${TOML_PART}(?:\\.${TOML_PART})?\\]`, "y");
const TOML_BLANK = /[ \t]*/y;
const TOML_NAME = /[A-Za-z0-9_-]*/y;
const TOML_TOKEN = /[0-9A-Za-z_+.:-]*/y;
const TOML_INTEGER = /^(?:0|[1-9][0-9]{0,15})$/;
const TOML_STRING = /"([^"\\\t\r\n]*)"/y;
const TOML_LINE_END = /[ \t]*(?:#[^\r\n]*)?(?:\r?\n|$)/y;
const TOML_BETWEEN = /(?:[ \t\r\n]+|#[^\r\n]*)*/y;

class TomlItem {
  constructor(value, keyAt, at) {
    this.value = value;
    this.keyAt = keyAt;
    this.at = at;
  }
}

class TomlTable {
  constructor(at, defined) {
    this.at = at;
    this.defined = defined;
    this.entries = new Map();
  }
}

/** The root table of a file. */
function parseToml(bytes) {
  if (bytes.length > TOML_MAX_BYTES) throw new Refused("max-bytes", TOML_MAX_BYTES);
  const text = textOfUtf8(bytes, "utf-8");
  const found = TOML_REFUSED.exec(text);
  if (found) {
    const before = new TextEncoder().encode(text.slice(0, found.index));
    throw new Refused("character", before.length);
  }
  return new TomlParser(bytes).run();
}

class TomlParser {
  constructor(bytes) {
    this.bytes = bytes;
    this.text = latin1Of(bytes);
    this.root = new TomlTable(0, true);
    this.table = this.root;
    this.headers = 0;
    this.pairs = 0;
  }

  match(pattern, at) {
    pattern.lastIndex = at;
    return pattern.exec(this.text);
  }

  skip(pattern, at) {
    return at + this.match(pattern, at)[0].length;
  }

  run() {
    let at = 0;
    while (at < this.text.length) {
      at = this.skip(TOML_BLANK, at);
      const head = this.text[at] ?? "\n";
      if (head === "[") at = this.header(at);
      else if (!"#\r\n".includes(head)) at = this.pair(at);
      const end = this.match(TOML_LINE_END, at);
      if (end === null) throw new Refused("line-end", this.skip(TOML_BLANK, at));
      at += end[0].length;
    }
    return this.root;
  }

  header(start) {
    const found = this.match(TOML_HEADER, start);
    if (found === null) throw new Refused("table-name", start);
    if (++this.headers > 512) throw new Refused("max-tables", start);
    let table = this.root;
    let isNew = false;
    for (const quoted of found.slice(1)) {
      if (quoted === undefined) continue;
      const part = quoted.replaceAll('"', "");
      let entry = table.entries.get(part);
      if (entry instanceof TomlItem) throw new Refused("duplicate-key", start);
      if (entry === undefined) {
        entry = new TomlTable(start, false);
        table.entries.set(part, entry);
      }
      table = entry;
      isNew = !table.defined;
    }
    if (!isNew) throw new Refused("duplicate-table", start);
    table.defined = true;
    this.table = table;
    return start + found[0].length;
  }

  pair(start) {
    const end = this.skip(TOML_NAME, start);
    if (end === start || end - start > 64) throw new Refused("key", start);
    if (++this.pairs > 4096) throw new Refused("max-keys", start);
    const name = this.text.slice(start, end);
    if (this.table.entries.has(name)) throw new Refused("duplicate-key", start);
    let at = this.skip(TOML_BLANK, end);
    if (this.text[at] !== "=") throw new Refused("equals", at);
    at = this.skip(TOML_BLANK, at + 1);
    const [value, after] = this.value(at);
    this.table.entries.set(name, new TomlItem(value, start, at));
    return after;
  }

  value(at) {
    if (this.text[at] === '"') return this.string(at);
    if (this.text[at] === "[") return this.array(at);
    const end = this.skip(TOML_TOKEN, at);
    const token = this.text.slice(at, end);
    if (token === "true" || token === "false") return [token === "true", end];
    if (!/^[0-9]/.test(token)) throw new Refused("value", at);
    if (!TOML_INTEGER.test(token) || BigInt(token) > BigInt(Number.MAX_SAFE_INTEGER)) {
      throw new Refused("integer", at);
    }
    return [Number(token), end];
  }

  string(at) {
    const found = this.match(TOML_STRING, at);
    if (found === null) throw new Refused("string", at);
    if (found[1].length > 1024) throw new Refused("max-string", at);
    const end = at + found[0].length;
    return [textOfUtf8(this.bytes.subarray(at + 1, end - 1), "utf-8"), end];
  }

  array(start) {
    const elements = [];
    let at = start + 1;
    let comma = true;
    for (;;) {
      at = this.skip(TOML_BETWEEN, at);
      if (this.text[at] === "]") return [elements, at + 1];
      if (this.text[at] !== '"' || !comma) throw new Refused("array", at);
      if (elements.length === 256) throw new Refused("max-elements", at);
      const [text, end] = this.string(at);
      elements.push(text);
      at = this.skip(TOML_BETWEEN, end);
      comma = this.text[at] === ",";
      if (comma) at++;
    }
  }
}
