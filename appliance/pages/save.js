// Files that the reader keeps.

import { make } from "./dom.js";

/** Hands bytes to the reader as a file. */
export function save(name, bytes, type) {
  const address = URL.createObjectURL(new Blob([bytes], { type }));
  const link = make("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
