"""A Ray cluster of several nodes on this machine, in a process of its own.

    python ray_cluster.py       one JSON object on each line of standard input and output
    {"add": "third", "processors": 1, "variables": {}}  ->  {"raylet": 4711}
    {"remove": "third"}                                 ->  {}

The first line of output has the address. The cluster ends with standard input. Processes of a node
have the variables in their environment.
"""

import json
import os
import sys
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from ray.cluster_utils import Cluster

_STORE_BYTES = 80 << 20


def main() -> None:
    variables = json.loads(sys.argv[1])
    head = {"num_cpus": 1, "object_store_memory": _STORE_BYTES, "env_vars": variables}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={**head, "node_name": "head", "include_dashboard": False},
    )
    nodes = {"head": cluster.head_node}
    reply({"address": cluster.address, "raylet": raylet(cluster.head_node)})
    for line in sys.stdin:
        order = json.loads(line)
        if "add" in order:
            name = order["add"]
            nodes[name] = cluster.add_node(
                num_cpus=order["processors"],
                object_store_memory=_STORE_BYTES,
                node_name=name,
                env_vars={**variables, **order["variables"]},
            )
            reply({"raylet": raylet(nodes[name])})
        else:
            cluster.remove_node(nodes.pop(order["remove"]), allow_graceful=False)
            reply({})
    cluster.shutdown()


def raylet(node: Any) -> int:
    """Return the process that manages a node, whose children are the workers."""
    return int(node.all_processes["raylet"][0].process.pid)


def reply(values: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(values)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
