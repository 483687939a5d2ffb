// Reads a bundle (SPEC.md section 5).

const MAX_BUNDLE_BYTES = 32 << 20;
const MAX_REQUEST_BYTES = 16 << 20;
const BUNDLE_STRINGS = [
  "statement", "checkpoint", "admission", "revocations", "request", "prompt_ids", "transcript",
  "output_ids", "trace_root",
];
const BUNDLE_PROOFS = { inclusion: 64, admission_inclusion: 64, consistency: 128 };
const BUNDLE_LISTS = { cosignatures: 16, releases: 16 };

/** The parts of a bundle by name; those that are absent are undefined, salts are a Map. */
function readBundle(bytes) {
  const values = decodeCbor(bytes, { maxBytes: MAX_BUNDLE_BYTES, maxItems: 1024 });
  if (!(values instanceof Map)) throw new Refused("bundle");
  const limits = { ...BUNDLE_PROOFS, ...BUNDLE_LISTS };
  const names = new Set(["version", "salts", ...BUNDLE_STRINGS, ...Object.keys(limits)]);
  if (![...values.keys()].every((name) => names.has(name))) throw new Refused("bundle");
  const isFit = (name, value) => {
    if (BUNDLE_STRINGS.includes(name)) return isBytes(value);
    if (name === "version") return value === 1;
    if (name === "salts") return isMapOf(isWord(...COMMITTED), isDigest, 5)(value);
    const check = name in BUNDLE_PROOFS ? isDigest : isBytes;
    return Array.isArray(value) && value.length <= limits[name] && value.every(check);
  };
  if (![...values].every(([name, value]) => isFit(name, value))) throw new Refused("bundle");
  const parts = Object.fromEntries(values);
  const traceLength = parts.trace_root?.length ?? 0;
  if (
    parts.version === undefined || parts.statement === undefined ||
    (parts.request?.length ?? 0) > MAX_REQUEST_BYTES || (traceLength !== 0 && traceLength !== 32)
  ) {
    throw new Refused("bundle");
  }
  parts.salts ??= new Map();
  return parts;
}
