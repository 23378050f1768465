// The page for annotators: one statement at a time, next to the texts to compare.

const ANSWERS = { 1: t("yes"), 0: t("no"), null: t("cannot_tell") };
const EVIDENCE = {
  user_input: t("user_input"),
  contexts: t("contexts"),
  reference: t("reference"),
  response: t("response"),
};
const SCREENS = ["start", "switch", "task", "end"];
const NARROW = matchMedia("(max-width: 64rem)"); // as in label.css
const DIGITS = { Digit1: "1", Digit0: "0" }; // where digits need the shift key

const part = (id) => document.getElementById(id);
const config = JSON.parse(part("config").textContent);
const { rows } = config;
const decisions = new Decisions(config);
const common = commonWords(rows.map(({ text }) => text));
let at = 0; // number of the row that is shown; rows.length stands for the end
let isEvidenceOpen = false;

function show(screen, focused) {
  for (const id of SCREENS) part(id).hidden = id !== screen;
  const isLabelling = screen === "task" || screen === "end";
  part("save").hidden = !isLabelling;
  part("state").hidden = !isLabelling;
  part("annotator").replaceChildren(...(isLabelling ? [", ", inLine(decisions.annotator)] : []));
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
  const without = unlabelled ? t("without_label", { n: unlabelled }) : "";
  part("count").textContent = `${t("progress", { n: labelled, total })}${without}`;
  part("progress").value = labelled;
  for (const id of ["download", "early"]) part(id).disabled = isEmpty;
  for (const id of ["undo", "regret"]) part(id).disabled = !decisions.current.size;
  part("download").replaceChildren(...pieces("download_file", { file: inLine(decisions.fileName) }));
}

/** Show the row with this number, or the end. */
function go(number) {
  at = Math.min(Math.max(number, 0), rows.length);
  if (at === rows.length) showEnd();
  else showRow(rows[at]);
}

function showRow(row) {
  isEvidenceOpen = config.showsEvidence && Boolean(row.closest);
  part("place").textContent = t("statement", { n: at + 1, total: rows.length });
  part("asks").replaceChildren(...visible(row.asks ?? t("is_true")));
  showTexts(row);
  part("back").disabled = at === 0;
  showAnswer(row);
  show("task", "place");
}

function showAnswer(row) {
  const answer = decisions.current.get(at)?.human;
  for (const button of document.querySelectorAll("[data-human]"))
    button.setAttribute("aria-pressed", String(button.dataset.human === String(answer)));
  showJudges(row, answer !== undefined);
}

/** Show answers of another window; on a statement, focus and scroll position stay. */
function showOtherAnswers() {
  if (at === rows.length) {
    showEnd();
    return;
  }
  showAnswer(rows[at]);
  showCounts();
}

/** Show the statement and its texts, with the evidence if it is open. */
function showTexts(row) {
  const texts = [row.contexts ?? [], row.reference ?? [], row.response ?? []].flat();
  const compared = texts.length ? texts : [row.user_input ?? ""];
  const shared = sharedWords(row.text, compared.filter(Boolean), common);
  const sentences = isEvidenceOpen ? closestSentences(row) : [];
  const marked = (text, field, context = null) => {
    const here = sentences.filter((sentence) => sentence.field === field && sentence.context === context);
    const drawn = (piece) => markedPieces(piece, shared);
    const pieces = (shown) => piecesWithEvidence(shown, here, drawn, evidenceMark);
    return textBlock(text, pieces, lengthWithEvidence(here));
  };
  part("statement").replaceChildren(marked(row.text));
  part("evidence").replaceChildren(...evidence(row, marked, texts.length > 0));
  showClosest(row, sentences);
}

/** The closest sentences of a row as objects: where they are, and their text. */
function closestSentences(row) {
  return (row.closest ?? []).map(([field, context, start, end], number) => {
    const text = context === null ? row[field] : row[field][context];
    return { id: `closest-${number}`, field, context, start, end, text: text.slice(start, end) };
  });
}

function evidenceMark({ id }, pieces) {
  return element("mark", { class: "evidence", id, tabindex: "-1" }, ...pieces);
}

/**
 * The list of the closest sentences with what the judge has read, and the button that opens it. For a statement without a
 * closest sentence, both are about what the judge has read.
 */
function showClosest(row, sentences) {
  const hasSentences = row.closest?.length > 0;
  part("hint").hidden = !row.closest;
  part("reveal-name").textContent = hasSentences ? t("evidence_button") : t("read");
  part("closest-heading").textContent = hasSentences ? t("closest") : t("read");
  part("closest-remark").hidden = !hasSentences;
  part("read").open = !hasSentences;
  part("read-name").hidden = !hasSentences;
  part("reveal").hidden = config.showsEvidence;
  part("reveal").setAttribute("aria-expanded", String(isEvidenceOpen));
  part("closest").hidden = !isEvidenceOpen;
  part("sentences").replaceChildren(...sentences.map(closestItem));
  part("read").hidden = !row.read;
  part("read-text").replaceChildren(...(isEvidenceOpen ? visible(row.read ?? "", { lines: true }) : []));
}

/** One of the closest sentences, with a link to its place in the texts. */
function closestItem({ id, field, context, text }) {
  const name = context === null ? EVIDENCE[field] : `[${context + 1}]`;
  const click = (event) => {
    event.preventDefault();
    showEvidence(id);
  };
  const link = element("a", { href: `#${id}`, click }, name);
  return element("li", {}, link, " ", element("q", { dir: "auto" }, ...visible(text)));
}

/** Open or close the evidence, which is closed until the annotator asks for it. */
function toggleEvidence() {
  const row = rows[at];
  if (!row?.closest || config.showsEvidence) return;
  isEvidenceOpen = !isEvidenceOpen;
  if (isEvidenceOpen) decisions.openEvidence(at);
  showTexts(row);
  const n = row.closest.length;
  const words = isEvidenceOpen ? t("closest_shown", { n }) : t("closest_hidden");
  part("status").replaceChildren(n ? words : "");
  // Beside the texts, the statement stays in sight; above them, it would scroll away.
  if (n && isEvidenceOpen && !NARROW.matches) part("closest-0").scrollIntoView({ block: "center" });
}

/** What each judge of a jury says, closed, and only for an answered statement, so that it biases no answer. */
function showJudges(row, isAnswered) {
  part("judges").hidden = !row.judges || !isAnswered;
  part("judges").open = false;
  const judges = isAnswered ? Object.entries(row.judges ?? {}) : [];
  part("parts").replaceChildren(
    ...judges.flatMap(([name, probability]) => [
      element("dt", {}, inLine(name)),
      element("dd", {}, threeDigits(probability)),
    ]),
  );
}

/**
 * The texts of a row. Its question is marked only if there are no other texts to compare. The answer with the statement
 * comes after the question.
 */
function evidence(row, marked, hasTexts) {
  const plain = (text) => textBlock(text, (shown) => visible(shown, { lines: true }));
  const drawn = {
    user_input: hasTexts ? plain : (text) => marked(text),
    contexts: (texts) => contextList(texts, row.context_ids, marked),
  };
  const [source, ...parts] = row.source_text ?? [];
  if (source) drawn[source] = () => answerAround(...parts);
  const draw = (field) => drawn[field]?.(row[field]) ?? marked(row[field], field);
  return [...new Set(["user_input", source, ...Object.keys(EVIDENCE)])]
    .filter((field) => field && (field === source || row[field] !== null))
    .map((field) =>
      element("section", { class: "field" }, element("h3", {}, EVIDENCE[field]), draw(field)),
    );
}

/** The whole answer with the statement marked. */
function answerAround(before, statement, after) {
  const [start, end] = [before.length, before.length + statement.length];
  const shownText = (text) => visible(text, { lines: true });
  return textBlock(before + statement + after, (shown) => [
    ...shownText(shown.slice(0, start)),
    element("mark", { class: "statement" }, ...shownText(shown.slice(start, end))),
    ...shownText(shown.slice(end)),
  ]);
}

/** The contexts, each with its id if statements can cite it. */
function contextList(texts, ids, marked) {
  if (!texts.length) return remark(t("none"));
  const items = texts.map((text, number) => {
    const id = ids?.[number] ?? null;
    const name = id === null ? null : remark("id ", inLine(id));
    return element("li", {}, name, text === null ? remark(t("no_text")) : marked(text, "contexts", number));
  });
  return element("ol", { class: "contexts" }, ...items);
}

function showEnd() {
  const { labelled, unlabelled, open } = decisions.counts;
  part("end-heading").textContent = open ? t("open", { n: open }) : t("done");
  const undecided = unlabelled ? t("undecided", { n: unlabelled }) : "";
  part("summary").textContent = `${t("labelled", { n: labelled })}${undecided}.`;
  part("resume").hidden = !open;
  show("end", "end-heading");
}

/** Show the last action, and announce the next statement to screen readers. */
function say(action) {
  const next = part(at === rows.length ? "end-heading" : "place").textContent.replace(/\.$/, "");
  part("status").replaceChildren(`${action}.`, element("span", { class: "heard" }, ` ${t("now", { next })}`));
}

function answer(human) {
  if (at === rows.length) return;
  const answered = at;
  decisions.add(answered, human);
  go(decisions.nextOpen(answered + 1) ?? rows.length);
  say(t("answered", { n: answered + 1, answer: ANSWERS[human] }));
}

function undo() {
  const number = decisions.undo();
  if (number === undefined) return;
  go(number);
  say(t("undone", { n: number + 1 }));
}

function move(by) {
  if (at + by < 0 || at + by > rows.length) return;
  go(at + by);
  const human = decisions.current.get(at)?.human;
  const place = { n: at + 1, answer: ANSWERS[human] ?? t("no_answer") };
  say(at === rows.length ? t("the_end") : t("answered", place));
}

/** Ask for the name. Annotators with answers in this browser are offered by name. */
function ask() {
  part("name").value = decisions.annotator || (config.annotator ?? "");
  part("others").replaceChildren(...decisions.annotators.map(continueButton));
  nameBeginning();
  show("start", "name");
}

function continueButton({ annotator, count }) {
  const words = pieces("continue_as", { annotator: inLine(annotator), n: count });
  return element("button", { type: "button", click: () => requestName(annotator) }, ...words);
}

/** Name the button after what it does for the typed name. */
function nameBeginning() {
  const isKnown = decisions.annotators.some(({ annotator }) => folded(annotator) === folded(part("name").value));
  part("begin").textContent = isKnown ? t("continue") : t("start");
}

function begin(event) {
  event.preventDefault();
  part("name").value = part("name").value.trim();
  if (part("who").reportValidity()) requestName(part("name").value);
}

/** Begin or continue under a name. Before another name replaces one with answers, ask. */
function requestName(annotator) {
  const isOther = folded(annotator) !== folded(decisions.annotator);
  if (!isOther || !decisions.current.size) {
    continueAs(annotator);
    return;
  }
  const words = (message) =>
    pieces(message, {
      before: inLine(decisions.annotator),
      annotator: inLine(annotator),
      n: decisions.current.size,
    });
  part("switch-heading").replaceChildren(...words("switch_question"));
  part("switch-meaning").replaceChildren(...words("switch_meaning"));
  part("switch-name").replaceChildren(...words("switch_name"));
  part("keep-name").replaceChildren(...words("keep_name"));
  part("switch-name").onclick = () => continueAs(annotator);
  part("keep-name").onclick = () => continueAs(decisions.annotator);
  show("switch", "switch-heading");
}

function continueAs(annotator) {
  decisions.open(annotator);
  part("status").replaceChildren();
  go(decisions.nextOpen(0) ?? rows.length);
  const { size } = decisions.current;
  if (size) say(t("continued", { n: size }));
}

function download() {
  const url = URL.createObjectURL(new Blob([decisions.fileText], { type: "application/octet-stream" }));
  element("a", { href: url, download: decisions.fileName }).click();
  decisions.isUnsaved = false;
  part("status").replaceChildren(...pieces("downloaded", { file: inLine(decisions.fileName) }));
}

const ACTIONS = {
  1: () => answer(1),
  0: () => answer(0),
  "?": () => answer(null),
  e: toggleEvidence,
  E: toggleEvidence,
  u: undo,
  U: undo,
  Backspace: undo,
  ArrowLeft: () => move(-1),
  ArrowRight: () => move(1),
};

document.addEventListener("keydown", (event) => {
  const { key, code, ctrlKey, metaKey, altKey, shiftKey, repeat } = event;
  if (ctrlKey || metaKey || altKey || repeat || !part("keys").checked || part("save").hidden) return;
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
  reveal: toggleEvidence,
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
part("name").addEventListener("input", nameBeginning);
addEventListener("storage", ({ key }) => {
  if (key !== decisions.key || part("save").hidden) return;
  decisions.read();
  showOtherAnswers();
});
addEventListener("beforeunload", (event) => {
  if (!decisions.isKept && decisions.isUnsaved) event.preventDefault();
});

part("unready").remove();
if (decisions.lastAnnotator) continueAs(decisions.lastAnnotator);
else ask();
document.documentElement.dataset.ready = "";
