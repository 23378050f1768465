#!/usr/bin/env python3
"""Train the adapter, and go on where the last run stopped: the same command starts and resumes.

    OMP_NUM_THREADS=1 nice -n 19 python train.py --base BASE.gguf --data DIR --out FOLDER

FOLDER receives `latest.pt` (adapter, optimiser, place in the data, random state, log) every 15 minutes, at each
evaluation and on SIGTERM or Ctrl-C; `adapter-ROWS.pt` at each evaluation; `log.jsonl` for people. `--reference FILE`
names the reference judge's log odds on the development rows (score_reference.py).
"""

import argparse
import json
import signal
from pathlib import Path

import torch
from smollm2_judge.batches import steps
from smollm2_judge.model import Judge
from smollm2_judge.training import SEED, STEP_ROWS, Run, development, training_groups


def main() -> None:
    """Train until the data is used up, `--rows` rows are read, or the process is asked to stop."""
    options = parse_arguments()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(SEED)
    judge = Judge(options.base)
    plan = steps(training_groups(options.data, judge.tokenize), STEP_ROWS)
    run = Run(
        judge,
        plan,
        development(options.data, judge.tokenize, options.part),
        read_reference(options.reference),
        options.out,
    )
    run.resume()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: setattr(run, "stopping", True))
    if options.evaluate:
        run.evaluate()
        run.save()
    else:
        run.train(options.rows, options.threads)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, help="SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data files")
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoints, outside the repository")
    parser.add_argument("--reference", type=Path, help="log odds of the reference judge on the development rows")
    parser.add_argument("--rows", type=int, default=1_000_000, help="stop after this number of rows")
    parser.add_argument("--threads", type=int, default=1, help="used while the rest of the machine is idle; else one")
    parser.add_argument("--evaluate", action="store_true", help="measure the last checkpoint now, and train no further")
    parser.add_argument("--part", type=int, default=2, help="judge one of this number of development rows")
    return parser.parse_args()


def read_reference(path: Path | None) -> dict[str, float]:
    """Return the reference judge's log odds by row id."""
    return json.loads(path.read_text()) if path else {}


if __name__ == "__main__":
    main()
