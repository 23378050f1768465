// Decisions of one annotator in the order in which they were made, stored in this browser and written to a file.
//
//     localStorage      KEY/ann   { annotator: "Ann", log: [[number, human, when, seen], ...],
//                                 withdrawn: { number: when }, opened: [number, ...] }
//     sessionStorage    KEY       the annotator of this window, for a reload
//
// Every annotator has a log, so that nobody continues or overwrites the answers of somebody else.

/** Columns of a label that identify its statement. */
const NAMES = ["label_id", "draw", "sample_id", "metric", "position", "text", "planned"];
const INVISIBLE = /[\p{Cf}\p{Cc}]/gu;

function inAscii(json) {
  return json.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A name without differences that cannot be seen. Equal names are one annotator. */
function folded(name) {
  return name.normalize("NFKC").replace(INVISIBLE, "").trim().replace(/\s+/g, " ").toUpperCase().toLowerCase();
}

/** The value in a browser's storage, or null. A browser may refuse to read. */
function stored(storage, key) {
  try {
    return JSON.parse(window[storage].getItem(key));
  } catch {
    return null;
  }
}

/** Store a value. Returns whether the browser did. */
function store(storage, key, value) {
  try {
    window[storage].setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/**
 * Decisions: [number of the row, 1, 0 or null (cannot tell), time, how the evidence was seen]. A later one replaces an
 * earlier one.
 */
class Decisions {
  #config;
  #logs = new Map(); // of other annotators in this window, for browsers that store nothing
  #log = [];
  /** By number of the row, the time at which its only answer was undone. A file may contain that answer. */
  #withdrawn = {};
  /** Numbers of rows whose evidence the annotator has opened. It cannot be unseen. */
  #opened = [];
  annotator = "";
  /** Whether the browser stores them. */
  isKept = false;
  /** Whether some are not in a file yet. */
  isUnsaved = false;

  constructor(config) {
    this.#config = config;
    this.isKept = store("localStorage", config.key, "");
  }

  /** The annotator of this window before a reload, or "". */
  get lastAnnotator() {
    return stored("sessionStorage", this.#config.key) ?? "";
  }

  /** Annotators with answers to this drawing in this browser: { annotator, count }. */
  get annotators() {
    const logs = this.#storedKeys().map((key) => stored("localStorage", key));
    return logs
      .filter((entry) => entry?.log.length)
      .map(({ annotator, log }) => ({ annotator, count: new Map(log).size }))
      .sort((one, other) => one.annotator.localeCompare(other.annotator));
  }

  #storedKeys() {
    try {
      return Object.keys(localStorage).filter((key) => key.startsWith(`${this.#config.key}/`));
    } catch {
      return [];
    }
  }

  /** Key of the annotator's log in this browser. */
  get key() {
    return `${this.#config.key}/${folded(this.annotator)}`;
  }

  /** Continue the log of this annotator, or begin one. */
  open(annotator) {
    this.#logs.set(this.key, this.#entry);
    this.annotator = annotator;
    this.#entry = this.#logs.get(this.key) ?? { log: [], withdrawn: {}, opened: [] };
    store("sessionStorage", this.#config.key, annotator);
    this.read();
  }

  /** Read the annotator's stored decisions, including those of other windows. */
  read() {
    this.#change(() => {});
  }

  /** Change the stored decisions, so that windows of one annotator do not overwrite each other. */
  #change(change) {
    const entry = stored("localStorage", this.key);
    if (entry) this.#entry = entry;
    change();
    this.isKept = store("localStorage", this.key, this.#entry);
  }

  get #entry() {
    return { annotator: this.annotator, log: this.#log, withdrawn: this.#withdrawn, opened: this.#opened };
  }

  set #entry({ log, withdrawn, opened }) {
    this.#log = log;
    this.#withdrawn = withdrawn;
    this.#opened = opened;
  }

  add(number, human) {
    this.#change(() => this.#log.push([number, human, new Date().toISOString(), this.#seen(number)]));
    this.isUnsaved = true;
  }

  /** Remember that the annotator has opened the evidence of a row. */
  openEvidence(number) {
    this.#change(() => {
      if (!this.#opened.includes(number)) this.#opened.push(number);
    });
  }

  /** How the annotator has seen the evidence of a row: "shown" at once, "opened" on request, or null. */
  #seen(number) {
    if (!this.#config.rows[number].closest) return null;
    if (this.#config.showsEvidence) return "shown";
    return this.#opened.includes(number) ? "opened" : null;
  }

  /** Undo the last decision. Returns the number of its row, or undefined. */
  undo() {
    let last;
    this.#change(() => {
      last = this.#log.pop();
      if (!last) return;
      const when = new Date().toISOString();
      const earlier = this.#log.findLast(([number]) => number === last[0]);
      if (earlier) earlier[2] = when;
      else this.#withdrawn[last[0]] = when;
    });
    this.isUnsaved ||= last !== undefined;
    return last?.[0];
  }

  /** The decisions by row number: { human, when, seen }. */
  get current() {
    return new Map(this.#log.map(([number, human, when, seen]) => [number, { human, when, seen }]));
  }

  /** Numbers of rows with a label, without one (cannot tell), and without an answer. */
  get counts() {
    const decisions = [...this.current.values()];
    const labelled = decisions.filter(({ human }) => human !== null).length;
    const total = this.#config.rows.length;
    return { total, labelled, unlabelled: decisions.length - labelled, open: total - decisions.length };
  }

  /** The next row without a decision, starting here and continuing from the first; undefined if there is none. */
  nextOpen(from) {
    const { current } = this;
    const open = [...this.#config.rows.keys()].filter((number) => !current.has(number));
    return open.find((number) => number >= from) ?? open[0];
  }

  /** Name of the file, valid on any system. */
  get fileName() {
    return `labels-${this.annotator.replace(/[^\p{L}\p{M}\p{N}._-]+/gu, "-")}.jsonl`;
  }

  /**
   * JSON lines of the rows with an answer or an undone answer (human is null, which withdraws a label), in ASCII, which
   * survives any mail program.
   */
  get fileText() {
    const { current } = this;
    const labels = this.#config.rows.flatMap((row, number) => {
      const { human = null, when = this.#withdrawn[number], seen } = current.get(number) ?? {};
      const named = Object.fromEntries(NAMES.map((name) => [name, row[name]]));
      const evidence = seen ? { evidence_seen: seen } : {};
      return when ? [{ ...named, human, annotator: this.annotator, when, ...evidence }] : [];
    });
    return labels.map((label) => `${inAscii(JSON.stringify(label))}\n`).join("");
  }
}
