// Sentences of evidence inside the text that contains them.

/** The length of a text that is shown at first: all evidence is in it. */
function lengthWithEvidence(sentences) {
  return Math.max(MOST_SHOWN, ...sentences.map(({ end }) => end));
}

/**
 * The text as nodes, with each sentence drawn as one element. `drawn` makes nodes of a piece of text, `marked` the
 * element around the nodes of a sentence. Sentences that overlap an earlier one stay unmarked.
 */
function piecesWithEvidence(text, sentences, drawn, marked) {
  const pieces = [];
  let at = 0;
  for (const sentence of [...sentences].sort((one, other) => one.start - other.start)) {
    if (sentence.start < at || sentence.end > text.length) continue;
    const inside = drawn(text.slice(sentence.start, sentence.end));
    pieces.push(...drawn(text.slice(at, sentence.start)), marked(sentence, inside));
    at = sentence.end;
  }
  return [...pieces, ...drawn(text.slice(at))];
}

/** Scroll to a sentence of evidence and mark it, and no other. */
function showEvidence(id) {
  for (const shown of document.querySelectorAll("mark.evidence.shown")) shown.classList.remove("shown");
  const sentence = document.getElementById(id);
  if (!sentence) return;
  sentence.classList.add("shown");
  sentence.scrollIntoView({ block: "center" });
  sentence.focus({ preventScroll: true });
}
