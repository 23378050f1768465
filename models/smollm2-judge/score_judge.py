#!/usr/bin/env python3
"""Write a judge's log odds on the development rows, asked in its own prompt, for `train.py --reference`.

../../.venv/bin/python score_judge.py --judge reference --data DIR --out FILE
"""

import argparse
import json
import math
from pathlib import Path

from smollm2_judge.rows import Line, read_lines

from localjudge.run.judges import OpenJudge, use_judge
from localjudge.run.settings import RunSettings
from localjudge.types import Answer, Attribution, Span, Unit


def main() -> None:
    """Ask about every row; a row that the judge cannot answer is an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge", default="reference")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with use_judge(options.judge, None, RunSettings(n_ctx=4096)) as judge:
        scores = {line["id"]: log_odds(judge, line) for line in read_lines(options.data / "attribution.dev.jsonl")}
    options.out.write_text(json.dumps(scores))


def log_odds(judge: OpenJudge, line: Line) -> float:
    """Return the judge's log odds that the context supports the statement; a long context gives its best window."""
    unit = Unit(kind="statement", index=0, source="response", span=Span.whole(line["statement"]))
    task = Attribution(unit=unit, contexts=(line["context"],), user_input=line["question"])
    answers = [answer for _, answer in judge.engine.answers(judge.judge.requests([task]))]
    p = max(answer.p_yes for answer in answers if isinstance(answer, Answer))
    p = min(max(p, 1e-9), 1 - 1e-9)
    return math.log(p / (1 - p))


if __name__ == "__main__":
    main()
