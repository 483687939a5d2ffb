// Strict JSON (SPEC.md section 3): one meaning for each text, bounded depth. Objects are Map.

const JSON_MAX_DEPTH = 32;
const JSON_MAX_SIGNS = 1 << 20; // commas and opening brackets outside strings
const JSON_SPACE = /[ \t\r\n]*/y;
const JSON_NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const JSON_PLAIN = /[^"\\\u0000-\u001f]*/y;
const JSON_WORDS = [["true", true], ["false", false], ["null", null]];
const JSON_ESCAPES = new Map(
  Object.entries({
    '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t",
  }),
);

/** The object that is the whole text. */
function parseJson(bytes) {
  const parser = new JsonParser(textOfUtf8(bytes, "json"));
  const value = parser.value(0);
  parser.space();
  if (parser.at !== parser.text.length || !(value instanceof Map)) throw new Refused("json");
  return value;
}

class JsonParser {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.signs = 0;
  }

  take(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found === null) throw new Refused("json", this.at);
    this.at += found[0].length;
    return found[0];
  }

  space() {
    this.take(JSON_SPACE);
  }

  /** Whether the sign stands here, behind white space; it is taken. */
  skips(sign) {
    this.space();
    if (this.text[this.at] !== sign) return false;
    this.at++;
    return true;
  }

  count() {
    if (++this.signs > JSON_MAX_SIGNS) throw new Refused("json-items", this.at);
  }

  /** Whether a comma stands here; it is taken. */
  another() {
    if (!this.skips(",")) return false;
    this.count();
    return true;
  }

  need(sign) {
    if (!this.skips(sign)) throw new Refused("json", this.at);
  }

  value(depth) {
    this.space();
    const head = this.text[this.at];
    if (head === '"') return this.string();
    if (head === "{" || head === "[") {
      if (depth === JSON_MAX_DEPTH) throw new Refused("json-depth", this.at);
      this.count();
      this.at++;
      return head === "{" ? this.object(depth + 1) : this.array(depth + 1);
    }
    for (const [word, meaning] of JSON_WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return meaning;
      }
    }
    return Number(this.take(JSON_NUMBER));
  }

  object(depth) {
    const found = new Map();
    if (this.skips("}")) return found;
    do {
      this.space();
      const name = this.string();
      if (found.has(name)) throw new Refused("json-duplicate", this.at);
      this.need(":");
      found.set(name, this.value(depth));
    } while (this.another());
    this.need("}");
    return found;
  }

  array(depth) {
    const found = [];
    if (this.skips("]")) return found;
    do found.push(this.value(depth));
    while (this.another());
    this.need("]");
    return found;
  }

  string() {
    if (this.text[this.at] !== '"') throw new Refused("json", this.at);
    this.at++;
    const parts = [];
    for (;;) {
      parts.push(this.take(JSON_PLAIN));
      const sign = this.text[this.at++];
      if (sign === '"') return parts.join("");
      if (sign !== "\\") throw new Refused("json", this.at - 1);
      parts.push(this.escape());
    }
  }

  escape() {
    const sign = this.text[this.at++];
    if (sign !== "u") {
      const meaning = JSON_ESCAPES.get(sign);
      if (meaning === undefined) throw new Refused("json", this.at - 1);
      return meaning;
    }
    const digits = this.text.slice(this.at, this.at + 4);
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw new Refused("json", this.at);
    this.at += 4;
    return String.fromCharCode(parseInt(digits, 16));
  }
}
