"""Derive the inputs of the lexical judge from prose and labelled data.

    python models/lexical/derive.py --data DIR           everything: two minutes
    python models/lexical/derive.py --data DIR --refit   only the rules: half a minute

DIR holds train_prose.jsonl.gz, train_qa.jsonl.gz, attribution.dev.jsonl and relevance.dev.jsonl.
Only counts and fitted numbers are written. Afterwards run build.py.
"""

import argparse
from pathlib import Path

from lexical_judge import committed, derivation, labelled, rules
from lexical_judge.text import Normaliser, load_table


def main() -> None:
    """Count, fit, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="folder with the data"
    )
    parser.add_argument(
        "--out", type=Path, default=committed.FOLDER, metavar="DIR", help="where to write"
    )
    parser.add_argument("--refit", action="store_true", help="keep the vocabulary")
    arguments = parser.parse_args()
    data = arguments.data
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    if not arguments.refit:
        derivation.save_table(
            derivation.derive_table(derivation.whole_characters()), out / "normalisation.tsv"
        )
    normaliser = Normaliser(load_table(out / "normalisation.tsv"))
    if not arguments.refit:
        counted = derivation.count(labelled.prose(data), labelled.articles(data), normaliser)
        counted.save(out / "vocabulary.tsv")
    vocabulary = committed.load_vocabulary(out / "vocabulary.tsv", normaliser)
    scalars = rules.fit_scalars(
        vocabulary, {task: labelled.examples(data, task) for task in labelled.TASKS}
    )
    scalars.save(out / "scalars.json")
    print(f"{len(vocabulary.tokens)} tokens")
    print(f"attribution {scalars.attribution}")
    print(f"relevance {scalars.relevance}")


if __name__ == "__main__":
    main()
