// Filter and order of the samples: pure functions of the rows and the controls.

const STATUS = { u: "undefined", f: "failed" };
const STATUS_NAMES = { scored: "scored", undefined: "undefined", failed: "failed" };

function statusOf(outcome) {
  return typeof outcome === "number" ? "scored" : (STATUS[outcome] ?? "undefined");
}

/** The improvement of a sample; null if a run has no score. */
function improvement(row, at, { lowerIsBetter }) {
  const [now, then] = [row.outcomes[at], row.before?.[at]];
  if (typeof now !== "number" || typeof then !== "number") return null;
  return lowerIsBetter ? then - now : now - then;
}

/**
 * The quality of a sample by its expected score, which ties less: from 0 to 1, from 1 to 2 if its
 * score is perfect, -1 if it failed, null if it is undefined.
 */
function goodness(row, at, { lowerIsBetter }) {
  const outcome = row.outcomes[at];
  if (typeof outcome !== "number") return outcome === "f" ? -1 : null;
  const expected = row.expected[at] ?? outcome;
  const isPerfect = outcome === (lowerIsBetter ? 0 : 1);
  return (lowerIsBetter ? 1 - expected : expected) + Number(isPerfect);
}

/** Sort keys of rows, ascending; null comes last. */
const ORDERS = {
  worst: goodness,
  best: (...row) => negative(goodness(...row)),
  data: (row) => row.number,
  moved: (...row) => negative(absolute(improvement(...row))),
  worsened: improvement,
  improved: (...row) => negative(improvement(...row)),
  surest: (row, at) => negative(row.disagreements?.[at] ?? null),
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

/** Whether the judge and the annotators differ on a verdict of the sample. */
function isDisagreed(row, at) {
  return typeof row.disagreements?.[at] === "number";
}

const JUDGES = {
  any: () => true,
  divided: (row, at) => row.divided?.[at] === true,
  agreed: (row, at) => row.divided?.[at] === false,
};

/** Whether a row is listed. `found` has the numbers of samples with the searched text. */
function isListed(row, { metric, status, low, high, change, labels, judges, group, query, found }, config) {
  const outcome = row.outcomes[metric];
  if (status !== "any" && statusOf(outcome) !== status) return false;
  if ((low > 0 || high < 1) && !(typeof outcome === "number" && outcome >= low && outcome <= high)) return false;
  if (!CHANGES[change](improvement(row, metric, config.metrics[metric]))) return false;
  if (labels === "disagree" && !isDisagreed(row, metric)) return false;
  if (!JUDGES[judges](row, metric)) return false;
  if (group && !folded(row.group ?? "").includes(group)) return false;
  return !query || found.has(row.number) || folded(row.id).includes(query) || folded(row.question).includes(query);
}

/** The text in lower case. */
function folded(text) {
  return text.toLowerCase();
}

/** Whether any text of a sample in either run contains the query. */
function holds({ texts, before }, query) {
  const fields = [...Object.values(texts), ...Object.values(before?.texts ?? {})].flat();
  return fields.some((field) => folded(field?.text ?? (typeof field === "string" ? field : "")).includes(query));
}

/** Counts and means of the listed rows. */
function inNumbers(rows, metric) {
  const scores = rows.map((row) => row.outcomes[metric]).filter((outcome) => typeof outcome === "number");
  const failed = rows.filter((row) => row.outcomes[metric] === "f").length;
  const expected = rows.map((row) => row.expected[metric]).filter((score) => score !== null);
  const counts = { scored: scores.length, failed, undefined: rows.length - scores.length - failed };
  return { ...counts, mean: meanOf(scores), expected: meanOf(expected) };
}

/** The mean of numbers, null without any. */
function meanOf(scores) {
  return scores.length ? scores.reduce((sum, score) => sum + score, 0) / scores.length : null;
}
