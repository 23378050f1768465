// What was decided, in the order in which it was: kept in this browser, and written to a file.

/** Columns of a label that say which statement it is about. */
const NAMES = ["label_id", "draw", "sample_id", "metric", "position", "text"];

function inAscii(json) {
  return json.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Decisions on the rows: each [number of the row, 1, 0 or null (cannot tell), time]; a later one replaces. */
class Decisions {
  #config;
  #log = [];
  /** By number of the row, when its only answer was taken back: a file may hold that answer. */
  #withdrawn = {};
  labeller = "";
  /** Whether the browser keeps them. */
  isKept = false;
  /** Whether some are in no file yet. */
  isUnsaved = false;

  constructor(config) {
    this.#config = config;
    this.labeller = config.labeller ?? "";
    this.read();
  }

  /** Read what the browser has kept of this draw, also by another window. */
  read() {
    this.#change(() => {});
  }

  /** Change the decisions that the browser has kept, so that no window overwrites those of another. */
  #change(change) {
    try {
      const kept = JSON.parse(localStorage.getItem(this.#config.key));
      if (kept && (this.isKept || !this.#log.length))
        [this.labeller, this.#log, this.#withdrawn] = [kept.labeller, kept.log, kept.withdrawn ?? {}];
    } catch {
      // a browser may refuse to read; the next lines show whether it does
    }
    change();
    try {
      const kept = { labeller: this.labeller, log: this.#log, withdrawn: this.#withdrawn };
      localStorage.setItem(this.#config.key, JSON.stringify(kept));
      this.isKept = true;
    } catch {
      this.isKept = false;
    }
  }

  rename(labeller) {
    this.#change(() => {
      this.labeller = labeller;
    });
  }

  add(number, human) {
    this.#change(() => this.#log.push([number, human, new Date().toISOString()]));
    this.isUnsaved = true;
  }

  /** Take back the last one; the number of its row, or undefined. */
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

  /** The decision on each row that has one: number to { human, when }. */
  get current() {
    return new Map(this.#log.map(([number, human, when]) => [number, { human, when }]));
  }

  /** How many rows have a label, stay without one (cannot tell), and are open. */
  get counts() {
    const decisions = [...this.current.values()];
    const labelled = decisions.filter(({ human }) => human !== null).length;
    const total = this.#config.rows.length;
    return { total, labelled, unlabelled: decisions.length - labelled, open: total - decisions.length };
  }

  /** The first row without a decision from this one on, then from the first; undefined if there is none. */
  nextOpen(from) {
    const { current } = this;
    const open = [...this.#config.rows.keys()].filter((number) => !current.has(number));
    return open.find((number) => number >= from) ?? open[0];
  }

  /** Name of the file, which any system takes. */
  get fileName() {
    return `labels-${this.labeller.replace(/[^\p{L}\p{M}\p{N}._-]+/gu, "-")}.jsonl`;
  }

  /**
   * JSON lines of the rows with an answer, or with one that was taken back (human is null, which withdraws a label), in
   * ASCII: no character is a line end to anybody, or lost in the mail.
   */
  get fileText() {
    const { current } = this;
    const labels = this.#config.rows.flatMap((row, number) => {
      const { human = null, when = this.#withdrawn[number] } = current.get(number) ?? {};
      const named = Object.fromEntries(NAMES.map((name) => [name, row[name]]));
      return when ? [{ ...named, human, labeller: this.labeller, when }] : [];
    });
    return labels.map((label) => `${inAscii(JSON.stringify(label))}\n`).join("");
  }
}
