"""How a process is in a Ray cluster, and what is as before when it has left."""

import logging
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from localjudge.engine.ray_cluster.ray_connection import RayConnection
from localjudge.errors import UsageError

ray = pytest.importorskip("ray", reason="NOT CHECKED: the extra ray is not installed")
JOIN = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False)"


def joins(address: str, token: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """What becomes of another process that wants to be in the cluster."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    return subprocess.run(
        [sys.executable, "-c", JOIN, address],
        env=clean | token | {"RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_NUM_REDIS_GET_RETRIES": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_nobody_joins_a_cluster_of_our_own_without_its_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not even where the environment says that no token is asked for; afterwards all is as it was.

    Were the token still in use, no worker would start in a cluster that this process joins next.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    logger = logging.getLogger("ray")
    monkeypatch.setattr(logger, "level", logging.WARNING)
    with closing(RayConnection("local")):
        assert ray._private.worker._worker_logs_enabled is False
        address = ray.get_runtime_context().gcs_address
        known = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": os.environ["RAY_AUTH_TOKEN"]}
        assert joins(address, known).returncode == 0
        for token in ({"RAY_AUTH_MODE": "disabled"}, {**known, "RAY_AUTH_TOKEN": "0" * 64}):
            refused = joins(address, token)
            assert refused.returncode != 0
            assert "uthenticat" in refused.stderr, refused.stderr[-2000:]
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
    assert "RAY_AUTH_TOKEN" not in os.environ
    assert ray._raylet.get_authentication_mode() == ray._raylet.AuthenticationMode.DISABLED
    assert not ray._raylet.AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True)
    assert logger.level == logging.WARNING
    assert ray._private.worker._worker_logs_enabled is True


def test_a_cluster_that_would_ask_for_no_token_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ray that does not do what it is told: here it reads the environment no more."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    ray._raylet.Config.initialize("")
    monkeypatch.setattr("localjudge.engine.ray_cluster.ray_connection._read_environment_again", lambda ray: None)
    with pytest.raises(UsageError, match="would let in processes that do not know the cluster's token"):
        RayConnection("local")
    assert not ray.is_initialized()


@pytest.mark.parametrize("name", ["NUM_REDIS_GET_RETRIES", "ENABLE_RAY_CLUSTER"])
def test_a_version_that_lacks_what_is_used_is_refused_by_its_number(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ray._private.ray_constants, name)
    with pytest.raises(UsageError, match=rf"Ray {ray.__version__} is not as localjudge knows it: .*{name}") as error:
        RayConnection("auto")
    assert "pip install ray==2.60.0" in str(error.value.hint)


def test_auto_does_not_lead_to_an_address_that_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    with pytest.raises(UsageError, match=r"ray://head:10001 is not the address .*RAY_ADDRESS names it"):
        RayConnection("auto")
