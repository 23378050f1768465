// The words that texts share: they lead the eye to the place that a statement is about.

const LETTERS_OF_A_WORD = 3;
const LETTERS_OF_A_DENSE_WORD = 2;
const LETTERS_OF_A_COMMON_WORD = 4;
const SHARE_OF_A_COMMON_WORD = 0.1;
const TEXTS_OF_A_COMMON_WORD = 3;
/** Letters and digits; a point or a comma between digits belongs to their number. */
const WORD = /[\p{L}\p{M}\p{N}]+(?:(?<=\p{N})[.,](?=\p{N})[\p{L}\p{M}\p{N}]+)*/gu;
const DENSE = /[\p{Script=Han}\p{Script=Hangul}]/u;
const WITHOUT_SPACES = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmr}\p{sc=Mymr}]/u;
const segmenter = "Segmenter" in Intl ? new Intl.Segmenter("en", { granularity: "word" }) : null;

/** Each word of a text and where it starts; those of scripts without spaces as the browser's dictionary cuts them. */
function wordsIn(text) {
  return [...text.matchAll(WORD)].flatMap(({ 0: run, index }) =>
    segmenter && WITHOUT_SPACES.test(run)
      ? Array.from(segmenter.segment(run), ({ segment, index: at }) => [segment, index + at])
      : [[run, index]],
  );
}

/** A word without the difference of capitals; null for one that is too short to lead anywhere. */
function keyOf(word) {
  const least = DENSE.test(word) ? LETTERS_OF_A_DENSE_WORD : LETTERS_OF_A_WORD;
  const isTelling = /\p{N}/u.test(word) || (word.match(/\p{L}/gu)?.length ?? 0) >= least;
  return isTelling ? word.normalize("NFKC").toUpperCase().toLowerCase() : null;
}

/** Whether a word could be one of grammar: a name has a capital where the script has capitals. */
function isLowerCase(word) {
  return /^[\p{Ll}\p{Lo}\p{M}]+$/u.test(word) && !DENSE.test(word);
}

/** Keys of the short words that stand in many of the texts, as "the" does in English: without a list of any language. */
function commonWords(texts) {
  const counts = new Map();
  for (const text of texts) {
    const short = wordsIn(text).filter(([word]) => word.length <= LETTERS_OF_A_COMMON_WORD && isLowerCase(word));
    for (const key of new Set(short.map(([word]) => keyOf(word)))) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const least = Math.max(texts.length * SHARE_OF_A_COMMON_WORD, TEXTS_OF_A_COMMON_WORD);
  return new Set([...counts.keys()].filter((key) => counts.get(key) >= least));
}

/** The keys of the words that a text shares with any of the others, without the common ones. */
function sharedWords(text, others, common) {
  const keys = new Set(others.flatMap(wordsIn).map(([word]) => keyOf(word)));
  return new Set(
    wordsIn(text)
      .map(([word]) => keyOf(word))
      .filter((key) => key !== null && keys.has(key) && !common.has(key)),
  );
}

/** Where shared words stand, [start, end]; those that only a space parts are one place. */
function sharedPlaces(text, shared) {
  const places = [];
  for (const [word, start] of wordsIn(text)) {
    if (!shared.has(keyOf(word))) continue;
    const last = places.at(-1);
    if (last && /^\s?$/.test(text.slice(last[1], start))) last[1] = start + word.length;
    else places.push([start, start + word.length]);
  }
  return places;
}

/** The text as nodes, its shared words marked. */
function markedPieces(text, shared) {
  const pieces = [];
  let at = 0;
  for (const [start, end] of sharedPlaces(text, shared)) {
    pieces.push(...visible(text.slice(at, start), { lines: true }));
    pieces.push(element("mark", {}, ...visible(text.slice(start, end), { lines: true })));
    at = end;
  }
  return [...pieces, ...visible(text.slice(at), { lines: true })];
}
