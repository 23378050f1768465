// Decisions in the order in which they were made, stored in this browser and written to a file.

/** Columns of a label that identify its statement. */
const NAMES = ["label_id", "draw", "sample_id", "metric", "position", "text"];

function inAscii(json) {
  return json.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Decisions: [number of the row, 1, 0 or null (cannot tell), time]. A later one replaces an earlier one. */
class Decisions {
  #config;
  #log = [];
  /** By number of the row, the time at which its only answer was undone. A file may contain that answer. */
  #withdrawn = {};
  annotator = "";
  /** Whether the browser stores them. */
  isKept = false;
  /** Whether some are not in a file yet. */
  isUnsaved = false;

  constructor(config) {
    this.#config = config;
    this.annotator = config.annotator ?? "";
    this.read();
  }

  /** Read the stored decisions of this drawing, including other windows. */
  read() {
    this.#change(() => {});
  }

  /** Change the stored decisions, so that windows do not overwrite each other. */
  #change(change) {
    try {
      const kept = JSON.parse(localStorage.getItem(this.#config.key));
      if (kept && (this.isKept || !this.#log.length))
        [this.annotator, this.#log, this.#withdrawn] = [kept.annotator, kept.log, kept.withdrawn ?? {}];
    } catch {
      // a browser may refuse to read; the next lines show whether it does
    }
    change();
    try {
      const kept = { annotator: this.annotator, log: this.#log, withdrawn: this.#withdrawn };
      localStorage.setItem(this.#config.key, JSON.stringify(kept));
      this.isKept = true;
    } catch {
      this.isKept = false;
    }
  }

  rename(annotator) {
    this.#change(() => {
      this.annotator = annotator;
    });
  }

  add(number, human) {
    this.#change(() => this.#log.push([number, human, new Date().toISOString()]));
    this.isUnsaved = true;
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

  /** The decisions by row number: { human, when }. */
  get current() {
    return new Map(this.#log.map(([number, human, when]) => [number, { human, when }]));
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
      const { human = null, when = this.#withdrawn[number] } = current.get(number) ?? {};
      const named = Object.fromEntries(NAMES.map((name) => [name, row[name]]));
      return when ? [{ ...named, human, annotator: this.annotator, when }] : [];
    });
    return labels.map((label) => `${inAscii(JSON.stringify(label))}\n`).join("");
  }
}
