// One opened sample: its scores with their reasons, and its texts with every judged unit highlighted.

const FIELD_NAMES = {
  user_input: "Question",
  response: "Response",
  reference: "Reference",
  retrieved_contexts: "Retrieved contexts",
  reference_contexts: "Reference contexts",
};
const VERDICTS = {
  1: { kind: "yes", sign: "✓", words: "verdict 1" },
  0: { kind: "no", sign: "✗", words: "verdict 0" },
  null: { kind: "none", sign: "?", words: "no verdict" },
};

/** A row of verdict values as an object; `was` is its label and probability in the baseline, `read` what a judge read. */
function verdictOf([field, context, start, end, label, p, words, human, differs], was, evidence = [], read = null) {
  return { field, context, start, end, label, p, words, human, differs, was, evidence, read };
}

/** A sentence of evidence as an object. */
function evidenceOf([context, start, end, supports, words, text]) {
  return { context, start, end, supports, words, text };
}

/** The id of a sentence of evidence in the texts of a sample. */
function evidenceId({ context, start }, { sampleNumber }) {
  return `evidence-${sampleNumber}-${context}-${start}`;
}

/** A link to a sentence of evidence; the closest sentence of an unsupported statement stands beside it. */
function evidenceLink(sentence, config) {
  const { context, supports, words, text } = sentence;
  const quote = supports ? null : element("q", { dir: "auto" }, ...visible(text));
  const kind = supports ? "evidence" : "evidence closest";
  if (context === null) return element("span", { class: kind }, inLine(words), " ", quote ?? inLine(text));
  const id = evidenceId(sentence, config);
  const show = (event) => {
    event.preventDefault();
    showEvidence(id);
  };
  const link = element("a", { href: `#${id}`, click: show }, inLine(words));
  return element("span", { class: kind }, link, quote && " ", quote);
}

/** Show the evidence of a clicked statement. */
function evidenceOnClick(verdicts, config) {
  const sentence = verdicts.flatMap(({ evidence }) => evidence).find(({ context }) => context !== null);
  if (!sentence) return {};
  return { click: () => showEvidence(evidenceId(sentence, config)), "data-evidence": true };
}

/** The sign of a verdict and its probability, with words for screen readers. */
function badge(label, p) {
  const { kind, sign, words } = VERDICTS[label];
  return element(
    "span",
    { class: `badge ${kind}` },
    element("span", { "aria-hidden": "true" }, sign),
    element("span", { class: "heard" }, p === null ? words : `${words}, probability `),
    p === null ? null : ` ${threeDigits(p)}`,
  );
}

/** The verdict of the baseline. */
function earlier([label, p]) {
  const words = label === null ? ["no verdict in the baseline"] : ["was", badge(label, p)];
  return element("span", { class: "was" }, ...words);
}

/** What the judge has read for a statement, closed at first. */
function whatWasRead(text) {
  const words = element("summary", {}, "what the judge has read");
  return element("details", { class: "note" }, words, element("q", { dir: "auto" }, ...visible(text, { lines: true })));
}

/** The notes behind a unit: its verdicts, human labels, different verdicts of the baseline, and remarks. */
function verdictNotes(verdicts, config) {
  return verdicts.map(({ label, p, words, human, differs, was, evidence, read }) =>
    element(
      "span",
      { class: "verdict" },
      badge(label, p),
      human ? element("span", { class: differs ? "human differs" : "human" }, inLine(human)) : null,
      was && was[0] !== label ? earlier(was) : null,
      words ? element("span", { class: "note", dir: "auto" }, inLine(words)) : null,
      ...evidence.map((sentence) => evidenceLink(sentence, config)),
      read ? whatWasRead(read) : null,
    ),
  );
}

/** The style of a unit with one verdict or several. */
function kindOf(verdicts, { threshold, near }) {
  const kinds = new Set(verdicts.map(({ label }) => VERDICTS[label].kind));
  const close = verdicts.some(({ p }) => p !== null && Math.abs(p - threshold) <= near);
  return kinds.size > 1 ? "mixed" : `${[...kinds][0]}${close ? " near" : ""}`;
}

/** Verdicts on the same piece of text together, in the order of the text. */
function byPlace(verdicts) {
  const places = Map.groupBy(verdicts, ({ start, end }) => `${start}-${end}`);
  return [...places.values()].sort(([one], [other]) => one.start - other.start || one.end - other.end);
}

/** The text with its judged units marked. */
function judgedText(text, verdicts, config) {
  return textBlock(text, (shown) => judgedPieces(shown, verdicts, config));
}

function judgedPieces(text, verdicts, config) {
  const pieces = [];
  let at = 0;
  for (const together of byPlace(verdicts)) {
    const [{ start, end }] = together;
    if (start >= text.length) break;
    const from = Math.max(start, at);
    const to = Math.max(Math.min(end, text.length), from);
    pieces.push(
      ...visible(text.slice(at, from), { lines: true }),
      element(
        "mark",
        { class: kindOf(together, config), ...evidenceOnClick(together, config) },
        ...visible(text.slice(from, to), { lines: true }),
      ),
      ...verdictNotes(together, config),
    );
    at = to;
  }
  return [...pieces, ...visible(text.slice(at), { lines: true })];
}

/** The text of a context with the sentences marked that are evidence of a statement. */
function textWithEvidence(text, sentences, config) {
  const drawn = (piece) => visible(piece, { lines: true });
  const marked = (sentence, pieces) =>
    element("mark", { class: "evidence", id: evidenceId(sentence, config), tabindex: "-1" }, ...pieces);
  const pieces = (shown) => piecesWithEvidence(shown, sentences, drawn, marked);
  return textBlock(text, pieces, lengthWithEvidence(sentences));
}

/** One context with its number, id and score. */
function contextItem({ text, id, score }, verdicts, sentences, config) {
  const drawn = () =>
    sentences.length ? textWithEvidence(text, sentences, config) : judgedText(text, verdicts, config);
  return element(
    "li",
    {},
    id === undefined ? null : element("span", { class: "known" }, "id ", inLine(id)),
    score === undefined ? null : element("span", { class: "known" }, `retrieval score ${score}`),
    text === undefined ? remark("no text, only an id") : drawn(),
  );
}

/** A field of a sample with the verdicts on it. */
function fieldView(field, value, verdicts, config) {
  const here = verdicts.filter((verdict) => verdict.field === field);
  if (value === null || value === undefined) return remark("missing");
  if (!Array.isArray(value)) return judgedText(value, here, config);
  if (!value.length) return remark("none");
  const sentences = field === "retrieved_contexts" ? verdicts.flatMap(({ evidence }) => evidence) : [];
  const items = value.map((context, at) =>
    contextItem(
      context,
      here.filter((verdict) => verdict.context === at),
      sentences.filter((sentence) => sentence.context === at),
      config,
    ),
  );
  return element("ol", { class: "contexts" }, ...items);
}

/** All fields, one below the other. If text or units differ from the baseline, both are shown side by side. */
function textsView(sample, metric, config) {
  const { texts, before } = sample;
  const threshold = config.thresholds[metric] ?? config.threshold;
  const own = { ...config, threshold, sampleNumber: sample.number };
  const now = sample.metrics[metric];
  const then = before?.metrics[metric];
  const verdicts = (now?.verdicts ?? []).map((values, at) =>
    verdictOf(values, then?.was[at], now.evidence?.[at].map(evidenceOf), now.read?.[at]),
  );
  const old = (then?.verdicts ?? []).map((values) => verdictOf(values));
  const textsBefore = { ...texts, ...before?.texts };
  const fields = Object.keys(FIELD_NAMES).filter((field) => field in texts || field in textsBefore);
  return fields.map((field) => {
    const differs = before && (field in before.texts || old.some((verdict) => verdict.field === field));
    const view = fieldView(field, texts[field], verdicts, own);
    return element(
      "section",
      { class: "field" },
      element("h3", {}, FIELD_NAMES[field]),
      differs
        ? element(
            "div",
            { class: "sides" },
            element("div", {}, element("h4", {}, "Baseline"), fieldView(field, textsBefore[field], old, own)),
            element("div", {}, element("h4", {}, "This run"), view),
          )
        : view,
    );
  });
}

/** The line of a metric: outcome and reason. Choosing it highlights its verdicts. */
function metricLine(sample, { name }, chosen, choose) {
  const { outcome, why, verdicts } = sample.metrics[name];
  const before = sample.before?.metrics[name]?.score;
  const words = [
    element("span", { class: "name", "data-highlighted": " (highlighted)" }, inLine(name)),
    " ",
    element("span", { class: "outcome" }, inLine(outcome)),
    before === null || before === undefined ? null : ` (baseline ${threeDigits(before)})`,
    why ? element("span", { class: "why" }, inLine(why)) : null,
  ];
  if (!verdicts.length) return element("li", { class: "computed" }, element("span", {}, ...words));
  const group = `highlight-${sample.number}`;
  const attributes = { type: "radio", name: group, checked: name === chosen, change: () => choose(name) };
  return element("li", {}, element("label", {}, element("input", attributes), element("span", {}, ...words)));
}

/** Everything about one sample; `metric` is highlighted at first, if it has verdicts. */
function sampleView(sample, metric, config) {
  const scored = config.metrics.filter(({ name }) => name in sample.metrics);
  const judged = scored.filter(({ name }) => sample.metrics[name].verdicts.length);
  const chosen = (judged.find(({ name }) => name === metric) ?? judged[0])?.name;
  const texts = element("div", { class: "fields" });
  const choose = (name) => texts.replaceChildren(...textsView(sample, name, config));
  choose(chosen);
  const renamed = sample.before && sample.before.id !== sample.id;
  return element(
    "div",
    { class: "sample" },
    element(
      "fieldset",
      { class: "scores" },
      element("legend", {}, judged.length ? "Scores; choose one to highlight its verdicts" : "Scores"),
      element("ul", {}, ...scored.map((metric) => metricLine(sample, metric, chosen, choose))),
    ),
    config.compared && !sample.before ? remark("The baseline does not have this sample.") : null,
    renamed ? remark("In the baseline: ", inLine(sample.before.id)) : null,
    texts,
  );
}
