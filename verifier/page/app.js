// Ties fields, verification and report together; does nothing where there is no document.

let last = null;
let turn = 0;

function showTexts() {
  document.documentElement.lang = language === 1 ? "zh-CN" : "en";
  document.title = `${text("title")} · Windhover`;
  for (const node of document.querySelectorAll("[data-text]")) {
    node.textContent = text(node.dataset.text);
  }
  for (const node of document.querySelectorAll("[data-label]")) {
    node.setAttribute("aria-label", text(node.dataset.label));
  }
  for (const button of document.querySelectorAll("[data-language]")) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.language) === language));
  }
  showFiles();
  showDigest();
  if (last !== null) showReport(...last);
}

function showFiles() {
  for (const zone of document.querySelectorAll("[data-field]")) {
    const file = files.get(zone.dataset.field);
    const size = file?.bytes?.length.toLocaleString("en");
    zone.classList.toggle("full", size !== undefined);
    zone.querySelector(".state").textContent = size === undefined
      ? text("drop")
      : text("chosen", { name: escaped(file.name), size });
    zone.querySelector(".remove").hidden = size === undefined;
  }
  byId("notice").textContent = notice === null ? "" : text(...notice);
}

function showDigest() {
  const bytes = bytesOfFile("page");
  const digest = bytes === null ? "" : hexOf(sm3(bytes));
  const wanted = valueOf("page-expected").toLowerCase();
  byId("page-digest").textContent = digest || "—";
  let said = "";
  if (digest !== "" && wanted !== "") {
    if (!/^[0-9a-f]{64}$/.test(wanted)) said = "pageNoDigest";
    else said = wanted === digest ? "pageSame" : "pageDiffers";
  }
  byId("page-said").textContent = said === "" ? "" : text(said);
  byId("page-said").className = said;
}

/** Verifies again a moment later, so that the page can say that it works. */
function check() {
  const mine = ++turn;
  const isReady = bytesOfFile("bundle") !== null && bytesOfFile("trust") !== null;
  byId("waiting").hidden = isReady;
  for (const input of document.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
  }
  if (!isReady) {
    last = null;
    byId("report").replaceChildren();
    byId("status").textContent = "";
    return;
  }
  byId("status").textContent = text("working");
  setTimeout(() => {
    if (mine !== turn) return;
    last = checkForm();
    const [{ verdict, field }] = last;
    if (verdict === null) byId(field)?.setAttribute("aria-invalid", "true");
    showReport(...last);
    const name = verdict ?? "None";
    byId("status").textContent = `${text(`verdict${name}`)}. ${text(`meaning${name}`)}`;
  }, 20);
}

function changed(field) {
  showFiles();
  if (field === "page") showDigest();
  else check();
}

function listen() {
  for (const zone of document.querySelectorAll("[data-field]")) {
    const { field } = zone.dataset;
    const input = zone.querySelector("input[type=file]");
    input.addEventListener("change", () => {
      if (input.files.length > 0) takeFile(field, input.files[0], changed);
      input.value = "";
    });
    zone.querySelector(".remove").addEventListener("click", () => {
      files.delete(field);
      changed(field);
      input.focus();
    });
  }
  for (const input of document.querySelectorAll("#known input:not([type=file])")) {
    input.addEventListener("change", check);
  }
  byId("page-expected").addEventListener("input", showDigest);
  for (const button of document.querySelectorAll("[data-language]")) {
    button.addEventListener("click", () => {
      language = Number(button.dataset.language);
      showTexts();
    });
  }
  listenForDrops();
}

function listenForDrops() {
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dragging");
  });
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) document.body.classList.remove("dragging");
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dragging");
    takeDrop(event.target, [...(event.dataTransfer?.files ?? [])]);
  });
}

/** Takes the first file for each field, and says so if one was left aside. */
function takeDrop(target, dropped) {
  const taken = new Set();
  let left = null;
  for (const file of dropped) {
    const field = fieldOfDrop(target, file, dropped.length === 1);
    if (field !== null && !taken.has(field)) {
      taken.add(field);
      takeFile(field, file, changed);
    } else {
      left ??= [field === null ? "unknownFile" : "oneOnly", { name: escaped(file.name.slice(0, 200)) }];
    }
  }
  if (left !== null) {
    notice = left;
    showFiles();
  }
}

if (typeof document !== "undefined") {
  language = /^zh\b/i.test(navigator.language) ? 1 : 0;
  byId("served").hidden = location.protocol === "file:";
  listen();
  showTexts();
  check();
}
