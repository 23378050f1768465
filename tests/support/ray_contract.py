"""Check the contract of engines with workers of a Ray cluster, and print the violations as JSON.

    python ray_contract.py MODEL CLUSTER

The contract opens two engines at the same time, so the first one leaves room for the second.
"""

import json
import sys

from localjudge import model_registry
from localjudge.engine import opening
from localjudge.engine.cluster import joined
from localjudge.engine.protocol import EngineSettings, InspectableEngine
from tests.engine.contract import check_engine


def main() -> None:
    model, cluster = sys.argv[1:]
    threads = iter((2, 1))

    def make_engine() -> InspectableEngine:
        settings = EngineSettings(n_ctx=2048, ray=cluster, threads=next(threads))
        return opening.open_engine(model_registry.find(model), settings)

    with joined(cluster):
        sys.stdout.write(json.dumps(check_engine(make_engine)))


if __name__ == "__main__":
    main()
