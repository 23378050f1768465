// The list of samples: controls, one page of rows, and opened samples.

const PAGE = 50;
const MOST_COLUMNS = 5;
const MOST_GROUPS = 500;
const MOST_LETTERS = 200; // of an id or a group
const PAUSE_BEFORE_SEARCH = 150; // milliseconds after the last key

/** Choices of a select: value and words. */
const STATUSES = [["any", "any"], ...Object.entries(STATUS_NAMES)];
const CHANGE_NAMES = [
  ["any", "any"],
  ["better", "better"],
  ["worse", "worse"],
  ["same", "same"],
  ["missing", "missing"],
];
const ORDER_NAMES = [
  ["worst", "worst first"],
  ["best", "best first"],
  ["data", "order of the data"],
];
const SUREST = ["surest", "surest judge first"];
const LABELS = [
  ["any", "any"],
  ["disagree", "judge and annotator disagree"],
];
const JUDGES_OF_A_JURY = [
  ["any", "any"],
  ["divided", "disagree on a verdict"],
  ["agreed", "agree on all verdicts"],
];
const MOVES = [
  ["moved", "moved most"],
  ["worsened", "worsened most"],
  ["improved", "improved most"],
];

class SampleList {
  #config;
  #rows;
  #details = new Details();
  #opened = new Set();
  #listed = [];
  #page = 0;
  #search = 0;
  #pause;
  #chosen;
  #controls = {};
  #status = element("p", { role: "status", class: "slice" });
  #head = element("thead");
  #body = element("tbody");
  #pager = element("nav", { class: "pager", "aria-label": "Pages of samples" });

  constructor(config, rows, holder) {
    this.#config = config;
    this.#rows = rows;
    const order = config.compared ? "moved" : "worst";
    this.#chosen = {
      metric: 0,
      order,
      status: "any",
      low: 0,
      high: 1,
      change: "any",
      labels: "any",
      judges: "any",
      group: "",
      query: "",
      found: new Set(),
    };
    const table = element("table", { class: "samples", "aria-labelledby": "samples-heading" }, this.#head, this.#body);
    table.classList.toggle("one-metric", config.metrics.length > MOST_COLUMNS);
    holder.append(this.#form(), this.#status, table, legend(config), this.#pager);
    this.#select();
  }

  /** The controls, without those for missing parts of the run. */
  #form() {
    const { metrics, compared, labelled, jury, hasGroups } = this.#config;
    const names = metrics.map(({ name }, at) => [at, visibleText(name)]);
    const orders = [...(compared ? MOVES : []), ...ORDER_NAMES, ...(labelled ? [SUREST] : [])];
    const range = { type: "number", min: 0, max: 1, step: "any" };
    const text = { type: "search", autocomplete: "off", spellcheck: "false" };
    const controls = [
      this.#control("query", "Search ids and texts", element("input", text)),
      this.#control("metric", "Metric", options(names), Number),
      this.#control("order", "Order", options(orders)),
      this.#control("status", "Outcome", options(STATUSES)),
      this.#control("low", "Score from", element("input", { ...range, value: 0 }), (value) => Number(value || 0)),
      this.#control("high", "to", element("input", { ...range, value: 1 }), (value) => Number(value || 1)),
    ];
    if (compared) controls.push(this.#control("change", "Change", options(CHANGE_NAMES)));
    if (labelled) controls.push(this.#control("labels", "Human labels", options(LABELS)));
    if (jury) controls.push(this.#control("judges", "Judges", options(JUDGES_OF_A_JURY)));
    if (hasGroups)
      controls.push(this.#control("group", "Group", element("input", { ...text, list: "groups" }), folded));
    const reset = element("button", { type: "reset" }, "Reset");
    const form = element("form", { class: "controls", role: "search", "aria-label": "Samples" }, ...controls, reset);
    if (hasGroups) form.append(this.#groups());
    form.addEventListener("submit", (event) => event.preventDefault());
    this.#controls.labels?.input.addEventListener("change", ({ target }) => {
      const { input } = this.#controls.order;
      input.value = target.value === "disagree" ? "surest" : input.options[0].value;
      this.#readControls();
    });
    form.addEventListener("reset", () => setTimeout(() => this.#readControls()));
    return form;
  }

  #groups() {
    const names = [...new Set(this.#rows.map((row) => row.group))].slice(0, MOST_GROUPS);
    return element(
      "datalist",
      { id: "groups" },
      ...names.map((name) => element("option", { value: firstOf(name, MOST_LETTERS) })),
    );
  }

  #control(name, label, input, read = String) {
    input.id = `control-${name}`;
    input.addEventListener("input", () => {
      clearTimeout(this.#pause);
      if (input.type !== "search") this.#readControls();
      else this.#pause = setTimeout(() => this.#readControls(), PAUSE_BEFORE_SEARCH);
    });
    this.#controls[name] = { input, read };
    return element("div", { class: `control ${name}` }, element("label", { for: input.id }, label), input);
  }

  #readControls() {
    for (const [name, { input, read }] of Object.entries(this.#controls)) this.#chosen[name] = read(input.value);
    const query = folded(this.#controls.query.input.value.trim());
    this.#chosen = { ...this.#chosen, query, found: new Set() };
    this.#page = 0;
    this.#select();
    this.#searchTexts(query);
  }

  /** Choose the rows that are listed, in their order, and show the page. */
  #select() {
    const rows = this.#rows.filter((row) => isListed(row, this.#chosen, this.#config));
    this.#listed = sorted(rows, this.#chosen, this.#config);
    this.#show();
  }

  /** Search all texts block by block. A later search ends an earlier one. */
  async #searchTexts(query) {
    this.#search += 1;
    const search = this.#search;
    if (!query) return;
    this.#say("searching the texts ...");
    for await (const samples of this.#details.all()) {
      if (search !== this.#search) return;
      for (const [number, sample] of samples) if (holds(sample, query)) this.#chosen.found.add(number);
    }
    if (search === this.#search) this.#select();
  }

  #show() {
    const first = this.#page * PAGE;
    this.#head.replaceChildren(this.#heading());
    this.#body.replaceChildren(...this.#listed.slice(first, first + PAGE).flatMap((row) => this.#rowsOf(row)));
    this.#showPager(first);
    this.#say();
  }

  #say(more) {
    const { name, judged } = this.#config.metrics[this.#chosen.metric];
    const { scored, failed, undefined: without, mean, expected } = inNumbers(this.#listed, this.#chosen.metric);
    const counts = `${grouped(scored)} scored, ${grouped(without)} undefined, ${grouped(failed)} failed`;
    const samples = this.#rows.length === 1 ? "sample" : "samples";
    const shown = `${grouped(this.#listed.length)} of ${grouped(this.#rows.length)} ${samples}`;
    const average = mean === null ? "" : `, mean ${threeDigits(mean)}${judged ? " by the judge" : ""}`;
    const beside = expectedWords(expected, mean);
    const figures = `${counts}${average}${beside ? `, ${beside}` : ""}`;
    this.#status.replaceChildren(`${shown}. `, inLine(name), `: ${figures}${more ? `; ${more}` : ""}`);
  }

  #heading() {
    const { metric, order } = this.#chosen;
    const columns = this.#config.metrics.map(({ name, lowerIsBetter }, at) => {
      const ascending = (order === "worst") !== lowerIsBetter;
      const isSorted = at === metric && (order === "worst" || order === "best");
      const sort = isSorted ? (ascending ? "ascending" : "descending") : null;
      const click = () => this.#sortBy(at, isSorted && order === "worst" ? "best" : "worst");
      const button = element("button", { type: "button", click }, ...breakable(name));
      return element("th", { scope: "col", class: columnClass(at, metric), "aria-sort": sort }, button);
    });
    return element("tr", {}, element("th", { scope: "col" }, "Sample"), ...columns);
  }

  #sortBy(metric, order) {
    this.#controls.metric.input.value = metric;
    this.#controls.order.input.value = order;
    this.#readControls();
    this.#head.querySelectorAll("button")[metric].focus();
  }

  /** The row of a sample, and the row of its details if it is open. */
  #rowsOf(row) {
    const open = this.#opened.has(row.number);
    const id = `sample-${row.number}`;
    const button = element(
      "button",
      { type: "button", class: "opener", "aria-expanded": String(open), "aria-controls": open ? id : null },
      element("span", { class: "id" }, inLine(firstOf(row.id, MOST_LETTERS))),
      element("span", { class: "question" }, inLine(row.question)),
    );
    const cells = row.outcomes.map((outcome, at) => {
      const content = outcomeCell(outcome, row.expected[at], row.before?.[at], this.#config.metrics[at]);
      return element("td", { class: columnClass(at, this.#chosen.metric) }, ...content);
    });
    const closed = element("tr", {}, element("th", { scope: "row" }, button), ...cells);
    button.addEventListener("click", () => this.#toggle(row, closed));
    return open ? [closed, this.#detailsRow(row, id)] : [closed];
  }

  #toggle(row, closed) {
    const button = closed.querySelector("button");
    const id = `sample-${row.number}`;
    if (this.#opened.delete(row.number)) {
      document.getElementById(id).remove();
      button.setAttribute("aria-expanded", "false");
      button.removeAttribute("aria-controls");
      return;
    }
    this.#opened.add(row.number);
    closed.after(this.#detailsRow(row, id));
    button.setAttribute("aria-expanded", "true");
    button.setAttribute("aria-controls", id);
  }

  #detailsRow(row, id) {
    const cell = element("td", { colspan: this.#config.metrics.length + 1 });
    const { name } = this.#config.metrics[this.#chosen.metric];
    this.#details.of(row.number).then(
      (sample) => cell.append(sampleView({ ...sample, number: row.number }, name, this.#config)),
      () => cell.append(remark("These details cannot be read. The file may be incomplete.")),
    );
    return element("tr", { id, class: "details" }, cell);
  }

  #showPager(first) {
    const pages = Math.max(1, Math.ceil(this.#listed.length / PAGE));
    const go = (by) => () => {
      this.#page += by;
      this.#show();
      const [back, on] = this.#pager.querySelectorAll("button");
      const [same, other] = by > 0 ? [on, back] : [back, on];
      (same.disabled ? other : same).focus();
      document.getElementById("samples").scrollIntoView();
    };
    const last = Math.min(first + PAGE, this.#listed.length);
    const place = `${first + 1} to ${last}, page ${this.#page + 1} of ${pages}`;
    this.#pager.replaceChildren(
      element("button", { type: "button", disabled: this.#page === 0, click: go(-1) }, "Previous"),
      element("span", {}, this.#listed.length ? place : "none"),
      element("button", { type: "button", disabled: this.#page + 1 >= pages, click: go(1) }, "Next"),
    );
  }
}

/** The meaning of the highlighting. */
function legend({ threshold, thresholds, near }) {
  const signs = `${VERDICTS[1].sign} verdict 1, ${VERDICTS[0].sign} verdict 0`;
  const which = Object.keys(thresholds).length ? "the threshold of its metric" : `the threshold, ${threshold}`;
  return remark(`In a sample: ${signs}, with the probability of 1; no colour: within ${near} of ${which}.`);
}

function options(choices) {
  return element("select", {}, ...choices.map(([value, words]) => element("option", { value }, words)));
}

function columnClass(at, metric) {
  return at === metric ? "score chosen" : "score";
}

/** A metric's name with possible line breaks after underscores. */
function breakable(name) {
  return visible(name).flatMap((part) =>
    typeof part === "string" ? part.split(/(?<=_)/).flatMap((piece) => [piece, element("wbr")]) : [part],
  );
}

/** The expected score or mean in words, "" if it is the counted one. */
function expectedWords(expected, counted) {
  if (expected === null || threeDigits(expected) === threeDigits(counted)) return "";
  return `expected ${threeDigits(expected)}`;
}

/** A score with its expected score, a bar of its length, and its change. */
function outcomeCell(outcome, expected, before, { lowerIsBetter }) {
  if (typeof outcome !== "number") return [element("span", { class: statusOf(outcome) }, STATUS_NAMES[statusOf(outcome)])];
  const bar = element("span", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--share", outcome);
  const moved = typeof before === "number" ? outcome - before : 0;
  const direction = moved > 0 === !lowerIsBetter ? "better" : "worse";
  const difference = moved ? element("span", { class: `moved ${direction}` }, signed(moved)) : null;
  const words = expectedWords(expected, outcome);
  const beside = words ? element("span", { class: "expected" }, words) : null;
  return [threeDigits(outcome), beside, bar, difference].filter(Boolean);
}

/** Print the worst samples opened. They are unpacked early because printing does not wait. */
async function putOnPaper(config, section) {
  const details = new Details();
  const samples = [];
  for (const [number, metric] of config.worst) {
    const sample = await details.of(number).catch(() => null);
    if (sample) samples.push([metric, { ...sample, number: `paper-${number}` }]);
  }
  const views = ([metric, sample]) => [
    element("h3", {}, inLine(firstOf(sample.id, MOST_LETTERS))),
    sampleView(sample, metric, config),
  ];
  const paper = element("div", { class: "paper" });
  addEventListener("beforeprint", () => {
    paper.replaceChildren(element("h2", {}, "The worst samples"), ...samples.flatMap(views));
    if (samples.length) section.before(paper);
  });
  addEventListener("afterprint", () => paper.remove());
}

const section = document.getElementById("samples");
const unlisted = document.getElementById("unlisted");
if ("DecompressionStream" in globalThis && "groupBy" in Map) {
  const config = JSON.parse(document.getElementById("config").textContent);
  if (config.metrics.length && config.samples) new SampleList(config, await listedSamples(), section);
  unlisted.remove();
  await putOnPaper(config, section);
} else {
  unlisted.textContent = "The list of samples needs a browser from 2024 or later.";
}
document.documentElement.dataset.ready = "";
