// The trust file (crypto/README.md, section The trust file): keys by role, lines, logs, and what
// is asked of a list of revocations.

const TRUST_ROLES = ["weights", "software", "attest", "witness", "revoke", "unseal"];
const TRUST_TABLES = ["policy", "keys", "lines", "revocations", "logs"];
const LINE_NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;
const INSTANT = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})Z$/;

/** Seconds since 1970 of YYYY-MM-DDThh:mm:ssZ, null for any other text. */
function secondsOfInstant(text) {
  const found = INSTANT.exec(text);
  if (found === null) return null;
  const [year, month, day, hour, minute, second] = found.slice(1).map(Number);
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second);
  const same = date.toISOString() === `${text.slice(0, -1)}.000Z`;
  return year >= 1970 && same ? date.getTime() / 1000 : null;
}

/** Reads the values of one table. */
class TrustTable {
  constructor(table) {
    this.table = table;
  }

  only(...names) {
    for (const [name, entry] of this.table.entries) {
      if (!names.includes(name)) throw new Refused("unknown-key", entry.keyAt ?? entry.at);
    }
    return this;
  }

  has(name) {
    return this.table.entries.has(name);
  }

  item(name, isKind) {
    const entry = this.table.entries.get(name);
    if (entry === undefined) throw new Refused("missing-key", this.table.at);
    if (entry instanceof TomlTable) throw new Refused("kind", entry.at);
    if (!isKind(entry.value)) throw new Refused("kind", entry.keyAt);
    return entry;
  }

  text(name) {
    return this.item(name, (value) => typeof value === "string");
  }

  flag(name, absent) {
    return this.has(name) ? this.item(name, (value) => typeof value === "boolean").value : absent;
  }

  number(name, low, high, absent) {
    if (absent !== undefined && !this.has(name)) return absent;
    const { value, at } = this.item(name, (found) => typeof found === "number");
    if (value < low || value > high) throw new Refused("range", at);
    return value;
  }

  instant(name) {
    if (!this.has(name)) return null;
    const { value, at } = this.text(name);
    const seconds = secondsOfInstant(value);
    if (seconds === null) throw new Refused("instant", at);
    return seconds;
  }

  inner(name) {
    const entry = this.table.entries.get(name);
    if (entry instanceof TomlItem) throw new Refused("kind", entry.keyAt);
    return entry === undefined ? null : new TrustTable(entry);
  }

  named() {
    return [...this.table.entries.keys()].map((name) => [name, this.inner(name)]);
  }
}

class Trust {
  constructor(bytes) {
    const root = new TrustTable(parseToml(bytes));
    this.digest = labelled("windhover/trust;v=1", bytes);
    this.keys = new Map();
    this.lines = new Map();
    this.logs = new Map();
    this.revocations = { required: false, minimumSequence: 0, maximumAgeDays: null };
    root.only("version", ...TRUST_TABLES);
    if (root.number("version", -Infinity, Infinity) !== 1) {
      throw new Refused("version", root.item("version", () => true).at);
    }
    const [policy, keys, lines, revocations, logs] = TRUST_TABLES.map((name) => root.inner(name));
    policy?.only("require_signed", "require_sealed");
    this.requireSigned = policy?.flag("require_signed", true) ?? true;
    this.requireSealed = policy?.flag("require_sealed", true) ?? true;
    for (const [name, table] of keys?.named() ?? []) this.addKey(name, table);
    for (const [name, table] of lines?.named() ?? []) this.addLine(name, table);
    if (revocations) this.setRevocations(revocations);
    for (const [name, table] of logs?.named() ?? []) this.addLog(name, table);
  }

  addKey(name, table) {
    table.only("role", "public_key", "not_before", "not_after");
    const role = table.text("role");
    if (!TRUST_ROLES.includes(role.value)) throw new Refused("role", role.at);
    const { value, at } = table.text("public_key");
    const der = value.length === 124 ? bytesOfBase64(value) : null;
    if (der === null) throw new Refused("public-key", at);
    let publicKey;
    try {
      publicKey = new PublicKey(der);
    } catch (error) {
      throw error instanceof Refused ? new Refused(error.rule, at) : error;
    }
    const id = hexOf(publicKey.keyId);
    if (this.keys.has(id)) throw new Refused("duplicate-id", at);
    const [notBefore, notAfter] = [table.instant("not_before"), table.instant("not_after")];
    if (notBefore !== null && notAfter !== null && notAfter <= notBefore) {
      throw new Refused("window", table.text("not_after").at);
    }
    this.keys.set(id, { name, id, role: role.value, publicKey, notBefore, notAfter });
  }

  addLine(name, table) {
    if (!LINE_NAME.test(name)) throw new Refused("line-name", table.table.at);
    table.only("signers", "threshold", "minimum_release");
    const { value, at } = table.item("signers", Array.isArray);
    const byName = new Map([...this.keys.values()].map((key) => [key.name, key]));
    const signers = new Set();
    for (const signer of value) {
      const key = byName.get(signer);
      if (key?.role === "weights") signers.add(key.id);
    }
    if (signers.size === 0 || signers.size !== value.length) throw new Refused("signers", at);
    const threshold = table.number("threshold", 1, signers.size);
    const minimumRelease = table.number("minimum_release", 1, Number.MAX_SAFE_INTEGER, 1);
    this.lines.set(name, { signers, threshold, minimumRelease });
  }

  setRevocations(table) {
    table.only("required", "minimum_sequence", "maximum_age_days");
    const required = table.flag("required", true);
    const minimumSequence = table.number("minimum_sequence", 0, Number.MAX_SAFE_INTEGER, 0);
    const maximumAgeDays = table.number("maximum_age_days", 1, 36500, null);
    const at = table.has("required") ? table.item("required", () => true).at : table.table.at;
    if (!required && (minimumSequence > 0 || maximumAgeDays !== null)) {
      throw new Refused("not-required", at);
    }
    if (required && ![...this.keys.values()].some((key) => key.role === "revoke")) {
      throw new Refused("no-revoke-key", at);
    }
    this.revocations = { required, minimumSequence, maximumAgeDays };
  }

  addLog(name, table) {
    const { value, at } = table.only("id").text("id");
    if (!/^[0-9a-f]{64}$/.test(value)) throw new Refused("log-id", at);
    if (this.logs.has(value)) throw new Refused("duplicate-id", at);
    this.logs.set(value, name);
  }
}
