// The chat page: the conversation, and what it is asked with.

import { Failure, call } from "./api.js";
import { byId } from "./dom.js";
import { askForKey, servedModel, setModel, showHead, startKey, watchReady } from "./head.js";
import { currentKey } from "./key.js";
import { onLanguage, startLanguage } from "./language.js";
import { FieldError, messagesOf, parametersOf } from "./request.js";
import { text } from "./strings.js";
import { fetchWellKnown, showTrust, startTrust, takeOwnTrust, trustInUse } from "./trust.js";
import { Turn, say } from "./turn.js";

const FIELDS = ["temperature", "max-tokens", "seed"];
const NEAR_END = 120;

let turns = [];
let running = null;
let fault = null;
let meeting = null;

function showState() {
  byId("send").hidden = running !== null;
  byId("stop").hidden = running === null;
  byId("empty").hidden = turns.length > 0;
  byId("clear").hidden = turns.length === 0;
  byId("fault").textContent = fault === null ? "" : text(fault);
}

const isAtEnd = () =>
  innerHeight + scrollY >= document.documentElement.scrollHeight - NEAR_END;

/** Keeps the end in sight while an answer grows, unless the reader went elsewhere. */
function followEnd() {
  let wasAtEnd = true;
  addEventListener("scroll", () => { wasAtEnd = isAtEnd(); }, { passive: true });
  new ResizeObserver(() => {
    if (wasAtEnd && turns.length > 0) scrollTo({ top: document.documentElement.scrollHeight });
  }).observe(byId("conversation"));
}

function readFields() {
  const values = Object.fromEntries(FIELDS.map((name) => [name, byId(name).value]));
  for (const name of FIELDS) byId(name).removeAttribute("aria-invalid");
  try {
    fault = null;
    return parametersOf(values);
  } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    fault = error.key;
    byId("settings").open = true;
    byId(error.field).setAttribute("aria-invalid", "true");
    byId(error.field).focus();
    return null;
  }
}

async function ask() {
  const question = byId("prompt").value;
  if (running !== null || question.trim() === "") return;
  const parameters = readFields();
  if (parameters === null || currentKey() === null) {
    if (parameters !== null) askForKey();
    showState();
    return;
  }
  if (servedModel() === null || trustInUse() === null) await meet();
  if (running !== null) return;
  const turn = new Turn(question);
  const messages = messagesOf(byId("system").value, turns, question);
  turns.push(turn);
  running = turn;
  byId("prompt").value = "";
  byId("conversation").append(turn.node);
  scrollTo({ top: document.documentElement.scrollHeight });
  showState();
  say("thinking");
  const ended = turn.run(servedModel() ?? "", messages, parameters);
  await turn.ended;
  running = null;
  showState();
  say(turn.end === "whole" ? "answered" : turn.end === "stopped" ? "endStopped" : "endCut");
  if (turn.problem instanceof Failure && turn.problem.status === 401) {
    byId("prompt").value ||= question;
    askForKey(["keyRefused", { message: turn.problem.message }]);
  }
  await ended;
}

/** Learns who the appliance says it is, once at a time. */
function meet() {
  meeting ??= learn().finally(() => { meeting = null; });
  return meeting;
}

async function learn() {
  try {
    const found = await fetchWellKnown();
    setModel(found.model);
    await takeOwnTrust(found);
  } catch (error) {
    console.warn(String(error.message));
  }
  if (servedModel() === null && currentKey() !== null) {
    try {
      const response = await call("/v1/models", { key: currentKey() });
      setModel((await response.json()).data[0].id);
    } catch {
      // the key may not list models: the request itself will say what is wrong
    }
  }
}

function checkAll() {
  for (const turn of turns) {
    if (turn.end !== null && turn.evidence?.id) turn.evidence.check();
  }
}

function listen() {
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  byId("prompt").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      ask();
    }
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.isComposing) running?.stop();
  });
  byId("stop").addEventListener("click", () => running?.stop());
  byId("clear").addEventListener("click", () => {
    running?.stop();
    turns = [];
    byId("conversation").replaceChildren();
    showState();
    byId("prompt").focus();
  });
}

onLanguage(() => {
  showHead();
  showTrust();
  showState();
  for (const turn of turns) turn.render();
});
startLanguage();
startKey(() => byId("prompt").focus());
listen();
followEnd();
await startTrust(checkAll);
await watchReady(meet);
