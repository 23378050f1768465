"""The connection to a Ray cluster: one that is joined, or one of this machine that ends with its last engine.

A cluster of its own listens on loopback alone, asks for a token and keeps its files in a folder that is removed. Ray
offers variables of the environment for that, which it reads when it is imported and when it starts.
"""

import logging
import os
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from typing import Any

from localjudge.errors import InputError
from localjudge.words import option, option_name

LOCAL = "local"
_IMPORTED = {
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # what Ray says of a connection that fails, our error says
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # nor does Ray print each worker that dies
    "RAY_NUM_REDIS_GET_RETRIES": "1",  # else a cluster that is not there is looked for during a quarter of an hour
}
_STARTED = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # without clusters of several machines, all listens on loopback
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_worker_niceness": "0",  # a judge in process does not wait for all else that the machine does,
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # and sees its GPUs
}
_QUIETLY = {"log_to_driver": False, "configure_logging": False}
_OBJECT_STORE_BYTES = 128 << 20
"""Requests on their way to workers, and answers on their way back; Ray would take a third of the memory for it."""
_lock = threading.Lock()
_addresses: list[str] = []
"""Of the engines of this process, which share one connection."""
_undo = ExitStack()


@contextmanager
def connected(address: str, processors: int) -> Iterator[Any]:
    """Ray, connected; `address` is `local`, `auto` or host:port. `processors` is what a local cluster has.

    Where the program has connected to Ray itself, that is taken as it is. Raises InputError without the package, for an
    address where no cluster is, and if Ray does not start.
    """
    with _lock:
        try:
            with _environment(_IMPORTED | (_STARTED if address == LOCAL else {})):
                import ray
        except ImportError as error:
            raise InputError(
                f"{option_name('ray')} needs the package ray: {error}", hint="install it with: pip install ray"
            ) from error
        if _addresses and _addresses[0] != address:
            raise InputError(
                f"this process is in the Ray cluster {_addresses[0]} already, and not in {address}",
                hint="close the judges that are open there first",
            )
        if not ray.is_initialized():
            _connect(ray, address, processors)
        _addresses.append(address)
    try:
        yield ray
    finally:
        with _lock:
            _addresses.pop()
            if not _addresses:
                _undo.close()


def _connect(ray: Any, address: str, processors: int) -> None:
    """Connect until `_undo` is closed. Raises InputError if it cannot be done."""
    with ExitStack() as undo:
        # What Ray says to people who write programs on it; what concerns a run, we say.
        logger = logging.getLogger("ray")
        undo.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)
        before = signal.getsignal(signal.SIGTERM)
        try:
            _start(ray, processors, undo) if address == LOCAL else _join(ray, address, undo)
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(
                f"Ray cannot be used ({address}): {' '.join(str(error).split())}",
                hint=f"name HOST:6379 of a head node, or use {option('ray', LOCAL)}; a program that imports ray itself "
                "calls ray.init() before",
            ) from error
        finally:
            # Ray answers SIGTERM in its own way: a run that is stopped ends as without Ray.
            if before is not None and threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)
        _undo.push(undo.pop_all())


def _join(ray: Any, address: str, undo: ExitStack) -> None:
    undo.callback(ray.shutdown)
    if "://" in (os.environ.get("RAY_ADDRESS", "") if address == "auto" else address):
        raise ValueError("workers cannot be started through a client's address")
    ray.init(address=address, **_QUIETLY)


def _start(ray: Any, processors: int, undo: ExitStack) -> None:
    folder = tempfile.mkdtemp(prefix="localjudge-")
    undo.callback(shutil.rmtree, folder, ignore_errors=True)
    undo.enter_context(_environment(_STARTED | {"RAY_TMPDIR": folder}))
    undo.callback(ray.shutdown)
    store = {"num_cpus": processors, "object_store_memory": _OBJECT_STORE_BYTES, "include_dashboard": False}
    ray.init(address="local", **store, **_QUIETLY)
    where = ray.nodes()[0]["NodeManagerAddress"]
    if not ip_address(where).is_loopback:
        raise RuntimeError(f"it would listen at {where}, where other machines can reach it")


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment; at the end they are as they were."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})
