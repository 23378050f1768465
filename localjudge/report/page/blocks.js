// The data blocks of the page: gzipped JSON in base64, unpacked when they are needed.

const BLOCKS_KEPT = 4;

function blocksOf(kind) {
  return [...document.querySelectorAll(`script[data-kind="${kind}"]`)].map((node) => ({
    first: Number(node.dataset.first),
    node,
  }));
}

async function unpacked({ node }) {
  const letters = atob(node.textContent);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at += 1) bytes[at] = letters.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

/** All rows of the list, in the order of the data. */
async function listedSamples() {
  const parts = await Promise.all(blocksOf("list").map(unpacked));
  return parts.flat().map(([id, question, group, outcomes, expected, before, disagreements, divided], number) => ({
    number,
    id,
    question,
    group,
    outcomes,
    expected,
    before,
    disagreements,
    divided,
  }));
}

/** Texts and verdicts of samples. The last used blocks stay unpacked. */
class Details {
  #blocks = blocksOf("details");
  #kept = new Map();

  /** Details of the sample with this number. */
  async of(number) {
    const block = this.#blocks.findLast(({ first }) => first <= number);
    return (await this.#samplesOf(block))[number - block.first];
  }

  /** Number and details of every sample, block by block. */
  async *all() {
    for (const block of this.#blocks) {
      const samples = this.#kept.get(block) ?? (await unpacked(block));
      yield samples.map((sample, at) => [block.first + at, sample]);
    }
  }

  async #samplesOf(block) {
    const samples = this.#kept.get(block) ?? (await unpacked(block));
    this.#kept.delete(block);
    this.#kept.set(block, samples);
    if (this.#kept.size > BLOCKS_KEPT) this.#kept.delete(this.#kept.keys().next().value);
    return samples;
  }
}
