"""How a process is in a Ray cluster: one that is there, or one of its own that ends with it.

A cluster of its own listens on loopback alone, writes into a folder that is removed, and lets nobody in without its
token: Ray runs the code of whoever is let in. Ray reads all of that from the environment when it is imported or
started, so it is set before, and put back; where it is not in force then, the cluster is not used.

Ray's statistics of use are switched off where Ray is started: here for a cluster of our own. One that is there was
started by somebody else, and what its head node sends is decided there.
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
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

from localjudge.errors import UsageError
from localjudge.option_spelling import option, option_name

LOCAL = "local"
_NO_STATISTICS = {"RAY_USAGE_STATS_ENABLED": "0"}
_AS_IN_PROCESS = {"RAY_worker_niceness": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Ray would let workers wait for all else that the machine does, and some versions hide its GPUs from them: a judge in
process does not wait, and sees them."""
_QUIETLY = {"RAY_BACKEND_LOG_LEVEL": "fatal"}
"""What Ray says on standard error of a connection that fails, our error says."""
_CONNECTS = 1
"""Ray tries twenty times to find a cluster, for a quarter of an hour."""
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Called by where it is the default: without clusters of several machines, all listens on loopback."""
_TOKEN = {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
"""Who does not know it is not let into a cluster of our own; Ray would keep one in the home directory."""
_ASK_FOR_IT = {"RAY_AUTH_MODE": "token"}
"""Whatever the environment says of it: `disabled`, exported for another cluster, would open ours to all who log in."""
_ADDRESS_FOR_AUTO = "RAY_ADDRESS"
_NO_PUBLIC_NAME = (
    "_private.ray_constants.ENABLE_RAY_CLUSTER",
    "_private.ray_constants.NUM_REDIS_GET_RETRIES",
    "_private.worker._worker_logs_enabled",
    "_raylet.AuthenticationMode.TOKEN",
    "_raylet.AuthenticationTokenLoader.instance",
    "_raylet.Config.initialize",
    "_raylet.get_authentication_mode",
)
"""What is used of Ray though it is free to change it: a version without is refused before it is started."""
_TRIED = "2.60.0"
_OBJECT_STORE_BYTES = 128 << 20
"""Requests on their way to workers, and answers on their way back; Ray would take a third of the memory for it."""
_lock = threading.Lock()


class NodeRoom(NamedTuple):
    """What a node of the cluster has: processors, bytes that workers may take, and GPUs."""

    processors: float
    memory_bytes: float
    gpus: float


class RayConnection:
    """Ray, connected; `address` is `local`, `auto` or host:port. Close it after use.

    Engines in one process share one connection: the last that is closed ends it. Where the program has connected to Ray
    itself, that is taken as it is, and left so.

    Raises UsageError without the package, for an address where no cluster is, and if Ray does not start.
    """

    _held_by: ClassVar[list["RayConnection"]] = []
    _undo = ExitStack()

    def __init__(self, address: str) -> None:
        _refuse_strange(address)
        self.address = address
        with _lock:
            self.ray = _imported()
            if not self._held_by:
                self.is_own = address == LOCAL and not self.ray.is_initialized()
                RayConnection._undo = ExitStack() if self.ray.is_initialized() else _connected(self.ray, address)
            elif self._held_by[0].address == address:
                self.is_own = self._held_by[0].is_own
            else:
                raise UsageError(
                    f"this process is in the Ray cluster {self._held_by[0].address} already, and not in {address}",
                    hint="close the judges that are open there first",
                )
            self._held_by.append(self)

    @property
    def nodes(self) -> list[NodeRoom]:
        """The nodes that are alive."""
        there = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return [NodeRoom(one.get("CPU", 0), one.get("memory", 0), one.get("GPU", 0)) for one in there]

    def close(self) -> None:
        """Leave the cluster; one of our own ends with all its processes."""
        with _lock:
            self._held_by.remove(self)
            if not self._held_by:
                self._undo.close()


def _imported() -> Any:
    """The package. Raises UsageError if it is not installed."""
    try:
        with _environment(_NO_STATISTICS | _QUIETLY):
            import ray
    except ImportError as error:
        raise UsageError(
            f"{option_name('ray')} needs the package ray: {error}", hint="install it with: pip install ray"
        ) from error
    for name in _NO_PUBLIC_NAME:
        try:
            attrgetter(name)(ray)
        except AttributeError as error:
            raise UsageError(
                f"Ray {ray.__version__} is not as localjudge knows it: {error}",
                hint=f"install the version that it was tried with: pip install ray=={_TRIED}",
            ) from error
    return ray


def _refuse_strange(address: str) -> None:
    meant = os.environ.get(_ADDRESS_FOR_AUTO, "") if address == "auto" else address
    if "://" in meant:
        raise UsageError(
            f"{meant} is not the address of a Ray cluster that workers can be started in"
            + (f" ({_ADDRESS_FOR_AUTO} names it)" if address == "auto" else ""),
            hint=f"name its head node, {option('ray', 'HOST:6379')}, from a machine of the cluster",
        )


def _connected(ray: Any, address: str) -> ExitStack:
    """What undoes the connection. Raises UsageError if there is none to be had."""
    with ExitStack() as undo:
        # What Ray says to people who write programs on it; what concerns a run, we say.
        logger = logging.getLogger("ray")
        undo.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)
        undo.enter_context(_constant(ray._private.worker, "_worker_logs_enabled", False))
        try:
            with _signals_as_they_were():
                _start(ray, undo) if address == LOCAL else _join(ray, address, undo)
        except (OSError, RuntimeError, ValueError) as error:
            what = "cannot be started here" if address == LOCAL else f"is not to be reached at {address}"
            raise UsageError(f"Ray {what}: {' '.join(str(error).split())}", hint=_hint(address)) from error
        return undo.pop_all()


def _hint(address: str) -> str:
    if address == LOCAL:
        return "is there room for temporary files (TMPDIR names another folder), and is its path short?"
    return f"start a cluster with `ray start --head`, name its HOST:6379, or take {option('ray', LOCAL)}"


def _join(ray: Any, address: str, undo: ExitStack) -> None:
    constants = ray._private.ray_constants
    with _constant(constants, "NUM_REDIS_GET_RETRIES", _CONNECTS):
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    undo.callback(ray.shutdown)


def _start(ray: Any, undo: ExitStack) -> None:
    folder = tempfile.mkdtemp(prefix="localjudge-")
    undo.callback(shutil.rmtree, folder, ignore_errors=True)
    undo.callback(_read_environment_again, ray)
    undo.enter_context(_environment(_NO_STATISTICS | _AS_IN_PROCESS | {_LOOPBACK: "0"} | _TOKEN | _ASK_FOR_IT))
    _read_environment_again(ray)
    _require_token(ray)
    undo.enter_context(_constant(ray._private.ray_constants, "ENABLE_RAY_CLUSTER", False))
    undo.callback(ray.shutdown)
    # Processors are counted by us: workers of several judges may share them.
    ray.init(
        address="local",
        num_cpus=0,
        num_gpus=0,
        object_store_memory=_OBJECT_STORE_BYTES,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        _temp_dir=folder,
    )
    _require_token(ray)
    where = ray.nodes()[0]["NodeManagerAddress"]
    if not ip_address(where).is_loopback:
        raise RuntimeError(f"this version would listen at {where}, where other machines can reach it")


def _read_environment_again(ray: Any) -> None:
    """Ray keeps what it read when it was imported, and the token that it first used.

    With a token that is not its own no worker would start in a cluster which is joined afterwards.
    """
    ray._raylet.Config.initialize("")
    ray._raylet.AuthenticationTokenLoader.instance().reset_cache()


def _require_token(ray: Any) -> None:
    if ray._raylet.get_authentication_mode() != ray._raylet.AuthenticationMode.TOKEN:
        raise RuntimeError("this version would let in processes that do not know the cluster's token")


@contextmanager
def _constant(constants: Any, name: str, value: bool | int) -> Iterator[None]:
    """Have a value that Ray read from the environment when it was imported, which may have been before."""
    before = getattr(constants, name)
    setattr(constants, name, value)
    try:
        yield
    finally:
        setattr(constants, name, before)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment; at the end they are as they were."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _signals_as_they_were() -> Iterator[None]:
    """Ray answers SIGTERM in its own way from when it is started: a run that is stopped ends as without Ray.

    A handler that is not Python's, as a program that Python is built into may have, cannot be put back from here.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
