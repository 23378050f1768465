// Which samples are listed, and in which order: pure functions of the rows and of what was chosen.

const STATUS = { u: "undefined", f: "failed" };

function statusOf(outcome) {
  return typeof outcome === "number" ? "scored" : (STATUS[outcome] ?? "undefined");
}

/** How far a sample moved in the direction that is better; null where one of the runs has no score. */
function improvement(row, at, { lowerIsBetter }) {
  const [now, then] = [row.outcomes[at], row.before?.[at]];
  if (typeof now !== "number" || typeof then !== "number") return null;
  return lowerIsBetter ? then - now : now - then;
}

/** How good an outcome is, from 0 to 1: failed ones come before the worst, and undefined ones are null. */
function goodness(row, at, { lowerIsBetter }) {
  const outcome = row.outcomes[at];
  if (typeof outcome !== "number") return outcome === "f" ? -1 : null;
  return lowerIsBetter ? 1 - outcome : outcome;
}

/** Numbers by which rows are sorted, ascending; null comes last. */
const ORDERS = {
  worst: goodness,
  best: (...row) => negative(goodness(...row)),
  data: (row) => row.number,
  moved: (...row) => negative(absolute(improvement(...row))),
  worsened: improvement,
  improved: (...row) => negative(improvement(...row)),
};

function negative(value) {
  return value === null ? null : -value;
}

function absolute(value) {
  return value === null ? null : Math.abs(value);
}

function sorted(rows, { order, metric }, config) {
  const key = ORDERS[order];
  const keyed = rows.map((row) => [key(row, metric, config.metrics[metric]), row]);
  keyed.sort(([one, a], [other, b]) => (one ?? Infinity) - (other ?? Infinity) || a.number - b.number || 0);
  return keyed.map(([, row]) => row);
}

const CHANGES = {
  any: () => true,
  better: (moved) => moved !== null && moved > 0,
  worse: (moved) => moved !== null && moved < 0,
  same: (moved) => moved === 0,
  missing: (moved) => moved === null,
};

/** Whether a row is in the slice. `found` holds the numbers of samples whose texts hold what is searched for. */
function isListed(row, { metric, status, low, high, change, group, query, found }, config) {
  const outcome = row.outcomes[metric];
  if (status !== "any" && statusOf(outcome) !== status) return false;
  if ((low > 0 || high < 1) && !(typeof outcome === "number" && outcome >= low && outcome <= high)) return false;
  if (!CHANGES[change](improvement(row, metric, config.metrics[metric]))) return false;
  if (group && !folded(row.group ?? "").includes(group)) return false;
  return !query || found.has(row.number) || folded(row.id).includes(query) || folded(row.question).includes(query);
}

/** A text without the difference of capitals. */
function folded(text) {
  return text.toLowerCase();
}

/** Whether any text of a sample, of either run, holds what is searched for. */
function holds({ texts, before }, query) {
  const fields = [...Object.values(texts), ...Object.values(before?.texts ?? {})].flat();
  return fields.some((field) => folded(field?.text ?? (typeof field === "string" ? field : "")).includes(query));
}

/** Counts of a slice, and the mean of what was scored in it. */
function inNumbers(rows, metric) {
  const scores = rows.map((row) => row.outcomes[metric]).filter((outcome) => typeof outcome === "number");
  const failed = rows.filter((row) => row.outcomes[metric] === "f").length;
  const mean = scores.length ? scores.reduce((sum, score) => sum + score, 0) / scores.length : null;
  return { scored: scores.length, failed, undefined: rows.length - scores.length - failed, mean };
}
