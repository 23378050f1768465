"""Join a Ray cluster, which opens sockets between the user's own machines.

Nothing is imported unless the user names a cluster. One that is started here listens on the
loopback interface only, requires a token, and keeps its files in a private temporary folder.
"""

import os
import secrets
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from localjudge.engine.protocol import EngineSettings
from localjudge.errors import InputError
from localjudge.resources import private_folder
from localjudge.words import option_name

_LOCAL = "local"
_LOOPBACK = "127.0.0.1"
_MAX_REASON = 200
# Ray reads these when it is imported. Our own warning says that a worker was lost.
_VARIABLES = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS_SKIP_REGEX": "."}
_VARIABLES_TO_START = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
# Otherwise it looks for a missing cluster for two minutes.
_VARIABLES_TO_JOIN = {
    "RAY_NUM_REDIS_GET_RETRIES": "1",
    "RAY_gcs_rpc_server_connect_timeout_s": "1",
    "RAY_py_gcs_connect_timeout_s": "4",
}
_OBJECT_STORE_BYTES = 128 << 20
_FOLDER = "ray-"
_joined: list[str] = []
"""Cluster of each open block of this process, which share one connection."""
_connection = ExitStack()


@contextmanager
def joined(address: str | None) -> Iterator[None]:
    """Join a cluster until the end of the block: `auto`, `local` or HOST:PORT; None joins none.

    An existing connection of the user's program is used. Raises InputError without Ray or if
    the cluster cannot be reached.
    """
    if address is None:
        yield
        return
    if "://" in address:
        problem = f"{address} is not the address of a Ray cluster"
        raise InputError(problem, hint="such as 10.0.0.1:6379, or auto on a machine of the cluster")
    if _joined and address not in _joined:
        problem = f"this process is part of the Ray cluster {_joined[0]}, and not of {address}"
        raise InputError(problem, hint="close the judge that uses it first")
    if not _joined:
        _connect(address)
    _joined.append(address)
    try:
        yield
    finally:
        _joined.pop()
        if not _joined:
            _connection.close()


def _connect(address: str) -> None:
    variables = {**_VARIABLES, **_VARIABLES_TO_JOIN}
    options: dict[str, Any] = {"address": address}
    with ExitStack() as undo:
        if address == _LOCAL:
            token = secrets.token_hex(32)
            variables = {**_VARIABLES, **_VARIABLES_TO_START, "RAY_AUTH_TOKEN": token}
            # Ray lets everybody write into its folder, so it gets one inside of a private one.
            options["_temp_dir"] = str(undo.enter_context(private_folder(_FOLDER)) / "ray")
            options["num_cpus"] = EngineSettings().used_threads
            options["object_store_memory"] = _OBJECT_STORE_BYTES
            options["include_dashboard"] = False
        undo.enter_context(_environment(variables))
        try:
            import ray
        except ImportError as error:
            problem = f"{option_name('ray')} needs a package that is not installed: {error}"
            hint = "pip install '.[ray]' in a copy of localjudge's repository"
            raise InputError(problem, hint=hint) from error
        if ray.is_initialized():
            return
        handler = signal.getsignal(signal.SIGTERM)
        undo.callback(ray.shutdown)
        try:
            ray.init(**options, log_to_driver=False, configure_logging=False)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            reason = " ".join(str(error).split())[:_MAX_REASON]
            hint = "start one here, or let this machine join: ray start --address=HOST:6379"
            raise InputError(
                f"there is no Ray cluster at {address}: {reason}", hint=hint
            ) from error
        finally:
            with suppress(ValueError):  # in another thread, Ray has not set its own
                signal.signal(signal.SIGTERM, handler)
        if address == _LOCAL and ray.nodes()[0]["NodeManagerAddress"] != _LOOPBACK:
            problem = "Ray was imported before, so that other machines could reach a local cluster"
            raise InputError(problem, hint="use another process, or connect by ray.init() first")
        _connection.push(undo.pop_all())


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
