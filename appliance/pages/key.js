// The API key: from the address, at once taken out of it again, or typed; kept for this tab alone.

const NAME = "windhover-key";
const SHAPE = /^[!-~]{8,200}$/;

let key = null;

/** Whether a text can be sent as a key. */
export const isKey = (text) => SHAPE.test(text);

export const currentKey = () => key;

/** Takes the key of `#key=...` if there is one, else the one that this tab had. */
export function findKey() {
  const found = new URLSearchParams(location.hash.slice(1)).get("key");
  if (found !== null) {
    history.replaceState(null, "", location.pathname + location.search);
    if (isKey(found)) setKey(found);
  } else if (key === null) {
    try {
      key = sessionStorage.getItem(NAME);
    } catch {
      key = null; // a browser that keeps nothing: the key is typed each time
    }
  }
  return key;
}

/** Uses a key from now on; null forgets it. */
export function setKey(text) {
  key = text;
  try {
    if (text === null) sessionStorage.removeItem(NAME);
    else sessionStorage.setItem(NAME, text);
  } catch {
    // as above: it lives as long as the page
  }
}
