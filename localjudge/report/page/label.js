// The page for annotators: one statement at a time, next to the texts to compare.

const ANSWERS = { 1: "yes", 0: "no", null: "cannot tell" };
const EVIDENCE = { user_input: "Question", contexts: "Contexts", reference: "Reference", response: "Response" };
const SCREENS = ["start", "task", "end"];
const DIGITS = { Digit1: "1", Digit0: "0" }; // where digits need the shift key

const part = (id) => document.getElementById(id);
const config = JSON.parse(part("config").textContent);
const { rows } = config;
const decisions = new Decisions(config);
const common = commonWords(rows.map(({ text }) => text));
let at = 0; // number of the row that is shown; rows.length stands for the end

function show(screen, focused) {
  for (const id of SCREENS) part(id).hidden = id !== screen;
  part("save").hidden = screen === "start";
  part("early").hidden = screen !== "task";
  part("again").hidden = screen !== "end";
  part("unkept").hidden = decisions.isKept;
  showCounts();
  scrollTo(0, 0);
  part(focused).focus({ preventScroll: true });
}

function showCounts() {
  const { total, labelled, unlabelled } = decisions.counts;
  const isEmpty = !decisions.fileText;
  const without = unlabelled ? `, ${grouped(unlabelled)} without a label` : "";
  part("count").textContent = `${grouped(labelled)} of ${grouped(total)} labelled${without}`;
  part("progress").value = labelled;
  for (const id of ["download", "early"]) part(id).disabled = isEmpty;
  for (const id of ["undo", "regret"]) part(id).disabled = !decisions.current.size;
  part("download").replaceChildren("Download ", inLine(decisions.fileName));
}

/** Show the row with this number, or the end. */
function go(number) {
  at = Math.min(Math.max(number, 0), rows.length);
  if (at === rows.length) showEnd();
  else showRow(rows[at]);
}

function showRow(row) {
  const texts = [row.contexts ?? [], row.reference ?? [], row.response ?? []].flat();
  const compared = texts.length ? texts : [row.user_input ?? ""];
  const shared = sharedWords(row.text, compared.filter(Boolean), common);
  const marked = (text) => textBlock(text, (shown) => markedPieces(shown, shared));
  part("place").textContent = `Statement ${grouped(at + 1)} of ${grouped(rows.length)}`;
  part("asks").replaceChildren(...visible(row.asks ?? "Is this true?"));
  part("statement").replaceChildren(marked(row.text));
  part("evidence").replaceChildren(...evidence(row, marked, texts.length > 0));
  part("back").disabled = at === 0;
  const answer = decisions.current.get(at)?.human;
  for (const button of document.querySelectorAll("[data-human]"))
    button.setAttribute("aria-pressed", String(button.dataset.human === String(answer)));
  show("task", "place");
}

/** The texts of a row. Its question is marked only if there are no other texts to compare. */
function evidence(row, marked, hasTexts) {
  const plain = (text) => textBlock(text, (shown) => visible(shown, { lines: true }));
  const drawn = { user_input: hasTexts ? plain : marked, contexts: (texts) => contextList(texts, marked) };
  return Object.entries(EVIDENCE)
    .filter(([field]) => row[field] !== null)
    .map(([field, name]) =>
      element("section", { class: "field" }, element("h3", {}, name), (drawn[field] ?? marked)(row[field])),
    );
}

function contextList(texts, marked) {
  if (!texts.length) return remark("none");
  const items = texts.map((text) => element("li", {}, text === null ? remark("no text") : marked(text)));
  return element("ol", { class: "contexts" }, ...items);
}

function showEnd() {
  const { labelled, unlabelled, open } = decisions.counts;
  part("end-heading").textContent = open ? `${counted(open, "statement")} without an answer` : "All done. Thank you.";
  const have = unlabelled === 1 ? "has" : "have";
  const without = unlabelled ? `, ${grouped(unlabelled)} ${have} none because you could not tell` : "";
  part("summary").textContent = `${counted(labelled, "statement")} ${labelled === 1 ? "has" : "have"} a label${without}.`;
  part("resume").hidden = !open;
  show("end", "end-heading");
}

/** Show the last action, and announce the next statement to screen readers. */
function say(action) {
  const next = part(at === rows.length ? "end-heading" : "place").textContent.replace(/\.$/, "");
  part("status").replaceChildren(`${action}.`, element("span", { class: "heard" }, ` Now: ${next}.`));
}

function answer(human) {
  if (at === rows.length) return;
  const answered = at;
  decisions.add(answered, human);
  go(decisions.nextOpen(answered + 1) ?? rows.length);
  say(`Statement ${grouped(answered + 1)}: ${ANSWERS[human]}`);
}

function undo() {
  const number = decisions.undo();
  if (number === undefined) return;
  go(number);
  say(`Statement ${grouped(number + 1)}: answer undone`);
}

function move(by) {
  if (at + by < 0 || at + by > rows.length) return;
  go(at + by);
  const human = decisions.current.get(at)?.human;
  say(at === rows.length ? "The end" : `Statement ${grouped(at + 1)}: ${ANSWERS[human] ?? "no answer yet"}`);
}

function ask() {
  part("name").value = decisions.labeller;
  part("begin").textContent = decisions.labeller ? "Continue" : "Start";
  show("start", "name");
}

function begin(event) {
  event.preventDefault();
  const labeller = part("name").value.trim();
  part("name").value = labeller;
  if (!part("who").reportValidity()) return;
  decisions.rename(labeller);
  go(decisions.nextOpen(0) ?? rows.length);
}

function download() {
  const url = URL.createObjectURL(new Blob([decisions.fileText], { type: "application/octet-stream" }));
  element("a", { href: url, download: decisions.fileName }).click();
  decisions.isUnsaved = false;
  part("status").replaceChildren("Downloaded ", inLine(decisions.fileName), ".");
}

const ACTIONS = {
  1: () => answer(1),
  0: () => answer(0),
  "?": () => answer(null),
  u: undo,
  U: undo,
  Backspace: undo,
  ArrowLeft: () => move(-1),
  ArrowRight: () => move(1),
};

document.addEventListener("keydown", (event) => {
  const { key, code, ctrlKey, metaKey, altKey, shiftKey, repeat } = event;
  if (ctrlKey || metaKey || altKey || repeat || !part("keys").checked || !part("start").hidden) return;
  const action = ACTIONS[key] ?? (shiftKey ? undefined : ACTIONS[DIGITS[code]]);
  if (!action) return;
  event.preventDefault();
  action();
});
for (const button of document.querySelectorAll("[data-human]"))
  button.addEventListener("click", () => answer(JSON.parse(button.dataset.human)));
const BUTTONS = {
  back: () => move(-1),
  next: () => move(1),
  last: () => move(-1),
  resume: () => go(decisions.nextOpen(0)),
  rename: ask,
  undo,
  regret: undo,
  download,
  early: download,
};
for (const [id, click] of Object.entries(BUTTONS)) part(id).addEventListener("click", click);
part("who").addEventListener("submit", begin);
addEventListener("storage", ({ key }) => {
  if (key !== config.key || !part("start").hidden) return;
  decisions.read();
  go(at);
});
addEventListener("beforeunload", (event) => {
  if (!decisions.isKept && decisions.isUnsaved) event.preventDefault();
});

part("unready").remove();
if (decisions.labeller && (decisions.fileText || !config.labeller)) {
  go(decisions.nextOpen(0) ?? rows.length);
  if (decisions.current.size) say(`Continued with ${counted(decisions.current.size, "answer")} saved in this browser`);
} else ask();
document.documentElement.dataset.ready = "";
