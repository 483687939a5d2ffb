// The fields of the page: files within their limits, and what the auditor fills in.

const FILE_LIMITS = {
  bundle: MAX_BUNDLE_BYTES, trust: TOML_MAX_BYTES, request: MAX_REQUEST_BYTES,
  response: MAX_RESPONSE_BYTES, headFile: MAX_OBJECT_BYTES, software: MAX_RELEASE_BYTES,
  page: 16 << 20,
};
const FIELD_OF_NAME = [
  [/\.bundle$/i, "bundle"], [/\.toml$/i, "trust"], [/\.cose$/i, "software"], [/\.html?$/i, "page"],
];
const files = new Map();
let notice = null;

/** Takes a file into its field if it is not too long; `changed` is called afterwards. */
async function takeFile(field, file, changed) {
  const name = file.name.slice(0, 200);
  notice = null;
  if (file.size > FILE_LIMITS[field]) {
    files.delete(field);
    notice = ["tooLong", { name: escaped(name), most: String(FILE_LIMITS[field]) }];
    changed(field);
    return;
  }
  // the latest choice counts, however long an earlier one takes to be read
  const mark = { name, bytes: null };
  files.set(field, mark);
  try {
    mark.bytes = new Uint8Array(await file.arrayBuffer());
  } catch {
    if (files.get(field) === mark) files.delete(field);
    notice = ["unreadable", { name: escaped(name) }];
  }
  changed(field);
}

/** The field that a dropped file belongs to, by where it fell or by its name; null: unknown. */
function fieldOfDrop(target, file, isOnly) {
  const zone = target instanceof Element ? target.closest("[data-field]") : null;
  if (zone !== null && isOnly) return zone.dataset.field;
  return FIELD_OF_NAME.find(([pattern]) => pattern.test(file.name))?.[1] ?? null;
}

const bytesOfFile = (field) => files.get(field)?.bytes ?? null;
const valueOf = (id) => byId(id).value.trim();

function hexField(id) {
  const value = valueOf(id);
  if (value === "") return null;
  if (!/^(?:[0-9a-fA-F]{2})+$/.test(value)) throw new UsageError(id, value.slice(0, 140));
  return bytesOfHex(value);
}

function timeField(id) {
  const value = valueOf(id);
  if (value === "") return null;
  const seconds = secondsOfInstant(value);
  if (seconds !== null) return 1000 * seconds;
  if (!/^(?:0|[1-9][0-9]{0,15})$/.test(value) || !Number.isSafeInteger(Number(value))) {
    throw new UsageError(id, value.slice(0, 140));
  }
  return Number(value);
}

/** What the auditor expects, as `verify` takes it. */
function readForm() {
  return {
    at: timeField("at") ?? Date.now(),
    need: RUNGS.filter((rung) => byId(`need-${rung}`).checked),
    signer: hexField("signer"),
    model: hexField("model"),
    nonce: hexField("nonce"),
    after: timeField("after"),
    before: timeField("before"),
    request: bytesOfFile("request"),
    response: bytesOfFile("response"),
    prefix: byId("prefix").checked,
    head: valueOf("head") || bytesOfFile("headFile"),
    software: [bytesOfFile("software")].filter((bytes) => bytes !== null),
  };
}

/** The report on what the fields hold, with what was expected. */
function checkForm() {
  let expected = { at: Date.now() };
  try {
    expected = readForm();
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const { field, message } = error;
    return [{ verdict: null, reason: "usage", field, message, steps: [] }, expected];
  }
  const [bundle, trust] = [bytesOfFile("bundle"), bytesOfFile("trust")];
  return [verify({ bundle, trust, expectations: expected }), expected];
}
