// Calls of the service: what it refuses becomes a Failure that can be shown.

const MAX_ERROR_BYTES = 65536;

/** A refusal, or a service that was not reached (status 0). */
export class Failure extends Error {
  constructor(status, code, message, retryAfter = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** The response to a request, if it is a good one; a cancelled request raises AbortError. */
export async function call(path, { key = null, headers = {}, ...options } = {}) {
  const sent = key === null ? headers : { ...headers, Authorization: `Bearer ${key}` };
  let response;
  try {
    response = await fetch(path, {
      ...options, headers: sent, cache: "no-store", credentials: "omit", redirect: "error",
      referrerPolicy: "no-referrer",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, "unreachable", "");
  }
  if (!response.ok) throw await failureOf(response);
  return response;
}

async function failureOf(response) {
  const seconds = response.headers.get("Retry-After") ?? "";
  const retryAfter = /^[0-9]{1,6}$/.test(seconds) ? Number(seconds) : null;
  let error = {};
  try {
    const text = await response.text();
    if (text.length <= MAX_ERROR_BYTES) error = JSON.parse(text).error ?? {};
  } catch {
    // a body that is none of ours: the status says what there is to say
  }
  const { message, code } = error;
  return new Failure(
    response.status,
    typeof code === "string" ? code : `http_${response.status}`,
    typeof message === "string" ? message : "",
    retryAfter,
  );
}

/** The bytes of a response, at most `most`. */
export async function bytesOf(response, most) {
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (bytes.length > most) throw new Failure(response.status, "too_long", "");
  return bytes;
}
