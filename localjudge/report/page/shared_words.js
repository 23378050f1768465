// Words shared by a statement and its texts, which lead the eye to the right place.

const LETTERS_OF_A_WORD = 3;
const LETTERS_OF_A_DENSE_WORD = 2;
const LETTERS_OF_A_COMMON_WORD = 4;
const SHARE_OF_A_COMMON_WORD = 0.1;
const TEXTS_OF_A_COMMON_WORD = 3;
/** Letters and digits. A point or a comma between digits is part of the number. */
const WORD = /[\p{L}\p{M}\p{N}]+(?:(?<=\p{N})[.,](?=\p{N})[\p{L}\p{M}\p{N}]+)*/gu;
const DENSE = /[\p{Script=Han}\p{Script=Hangul}]/u;
const WITHOUT_SPACES = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmr}\p{sc=Mymr}]/u;
const segmenter = "Segmenter" in Intl ? new Intl.Segmenter("en", { granularity: "word" }) : null;

/** The words of a text with their positions. Scripts without spaces are cut by the browser's dictionary. */
function wordsIn(text) {
  return [...text.matchAll(WORD)].flatMap(({ 0: run, index }) =>
    segmenter && WITHOUT_SPACES.test(run)
      ? Array.from(segmenter.segment(run), ({ segment, index: at }) => [segment, index + at])
      : [[run, index]],
  );
}

/** A word without case, or null if it is too short to be useful. */
function keyOf(word) {
  const least = DENSE.test(word) ? LETTERS_OF_A_DENSE_WORD : LETTERS_OF_A_WORD;
  const isTelling = /\p{N}/u.test(word) || (word.match(/\p{L}/gu)?.length ?? 0) >= least;
  return isTelling ? word.normalize("NFKC").toUpperCase().toLowerCase() : null;
}

/** Whether a word may be a function word. Names have a capital in scripts with capitals. */
function isLowerCase(word) {
  return /^[\p{Ll}\p{Lo}\p{M}]+$/u.test(word) && !DENSE.test(word);
}

/** Keys of short words that occur in many texts, such as "the". Needs no word list of a language. */
function commonWords(texts) {
  const counts = new Map();
  for (const text of texts) {
    const short = wordsIn(text).filter(([word]) => word.length <= LETTERS_OF_A_COMMON_WORD && isLowerCase(word));
    for (const key of new Set(short.map(([word]) => keyOf(word)))) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const least = Math.max(texts.length * SHARE_OF_A_COMMON_WORD, TEXTS_OF_A_COMMON_WORD);
  return new Set([...counts.keys()].filter((key) => counts.get(key) >= least));
}

/** The keys of words that a text shares with any other text, without common words. */
function sharedWords(text, others, common) {
  const keys = new Set(others.flatMap(wordsIn).map(([word]) => keyOf(word)));
  return new Set(
    wordsIn(text)
      .map(([word]) => keyOf(word))
      .filter((key) => key !== null && keys.has(key) && !common.has(key)),
  );
}

/** Positions [start, end] of shared words. Words separated only by a space are one position. */
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

/** The text as nodes with shared words marked. */
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
