// The choice between two languages, and the texts that stand in the page itself.

import { setLanguage, text } from "./strings.js";

const NAME = "windhover-language";
const CODES = ["en", "zh-CN"];
const listeners = [];

function kept() {
  try {
    return localStorage.getItem(NAME);
  } catch {
    return null; // a browser that keeps nothing
  }
}

function keep(code) {
  try {
    localStorage.setItem(NAME, code);
  } catch {
    // as above
  }
}

/** Writes every text that an element names, below `root`. */
function showTexts(root = document) {
  for (const node of root.querySelectorAll("[data-text]")) {
    node.textContent = text(node.dataset.text);
  }
  for (const node of root.querySelectorAll("[data-label]")) {
    node.setAttribute("aria-label", text(node.dataset.label));
  }
  for (const node of root.querySelectorAll("[data-placeholder]")) {
    node.setAttribute("placeholder", text(node.dataset.placeholder));
  }
}

function choose(index) {
  setLanguage(index);
  document.documentElement.lang = CODES[index];
  document.title = `${text(document.body.dataset.title)} · Windhover`;
  showTexts();
  for (const node of document.querySelectorAll("[data-language]")) {
    node.setAttribute("aria-pressed", String(Number(node.dataset.language) === index));
  }
  for (const listener of listeners) listener();
}

/** Calls back after each change of the language. */
export const onLanguage = (listener) => listeners.push(listener);

/** Begins with the language chosen before, else with the browser's. */
export function startLanguage() {
  for (const node of document.querySelectorAll("[data-language]")) {
    node.addEventListener("click", () => {
      keep(CODES[Number(node.dataset.language)]);
      choose(Number(node.dataset.language));
    });
  }
  const before = CODES.indexOf(kept());
  choose(before >= 0 ? before : Number(/^zh\b/i.test(navigator.language)));
}
