// What went wrong, in words that a person can use.

import { Failure } from "./api.js";
import { make } from "./dom.js";
import { text } from "./strings.js";

/** A refusal of the service, its message and code, and when to ask again. */
export function failureText(error) {
  if (!(error instanceof Failure)) return make("p", { class: "failure" }, String(error.message));
  const { status, code, message, retryAfter } = error;
  if (status === 0) return make("p", { class: "failure" }, text("unreachable"));
  return make("div", { class: "failure" },
    make("p", {}, message === "" ? text("errorOf", { status }) : message),
    make("p", { class: "small" }, `${text("errorCode")}: `,
      make("code", {}, `${status} ${code}`),
      retryAfter === null ? "" : ` ${text("errorRetry", { seconds: retryAfter })}`));
}
