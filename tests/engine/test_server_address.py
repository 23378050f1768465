import pytest

from localjudge.engine.opening import names_a_server
from localjudge.engine.protocol import EngineSettings
from localjudge.engine.server.connection import ServerAddress, is_loopback, is_this_machine, read_address
from localjudge.errors import InputError

pytestmark = pytest.mark.engine


@pytest.mark.parametrize(
    ("named", "address"),
    [
        ("http://127.0.0.1:8080", ServerAddress("127.0.0.1", 8080)),
        ("HTTP://localhost:8080/v1", ServerAddress("localhost", 8080)),
        ("http://[::1]:8080/", ServerAddress("::1", 8080)),
        ("http://gpu", ServerAddress("gpu", 80)),
    ],
)
def test_an_address_is_read(named: str, address: ServerAddress) -> None:
    assert names_a_server(named)
    assert read_address(named) == address
    assert read_address(str(address)) == address


@pytest.mark.parametrize(
    "named",
    [
        *(f"http://{place}" for place in ("", "user:secret@127.0.0.1:8080", "127.0.0.1:99999", "127.0.0.1:0")),
        *("http://127.0.0.1:8080/v1/chat", "http://127.0.0.1:8080?x=1", "https://127.0.0.1:8080"),
    ],
)
def test_malformed_addresses_are_refused(named: str) -> None:
    assert names_a_server(named)
    with pytest.raises(InputError):
        read_address(named)


@pytest.mark.parametrize("named", ["ollama:qwen3:8b", "hf:org/repo:Q4_K_M", "model.gguf", "/http:/x", "httpd"])
def test_model_names_are_not_addresses(named: str) -> None:
    assert not names_a_server(named)


@pytest.mark.parametrize(
    ("numeric", "here"),
    [
        *((numeric, True) for numeric in ("127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1")),
        *((numeric, False) for numeric in ("0.0.0.0", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0")),
        *((name, False) for name in ("localhost", "127.0.0.1.example.org")),
    ],
)
def test_local_addresses_are_recognised_by_number(numeric: str, here: bool) -> None:
    assert is_this_machine(numeric) is here


@pytest.mark.parametrize(
    ("named", "here"),
    [
        *((host, True) for host in ("127.0.0.1", "[::1]", "localhost")),
        *((host, False) for host in ("127.1", "127.0.0.1.example.org", "127.0.0.1%x.example.org", "10.0.0.7")),
        *((host, False) for host in ("localhost.example.org", "gpu")),
    ],
)
def test_local_hosts_are_recognised_without_a_lookup(named: str, here: bool) -> None:
    assert is_loopback(read_address(f"http://{named}:8080")) is here


@pytest.mark.parametrize("host", ["node7", "gpu.example", "10.0.0.7", "::1", "fd00::7"])
def test_names_and_numbers_of_hosts_can_be_allowed(host: str) -> None:
    settings = EngineSettings.model_validate({"allow_host": host})
    assert settings.allow_host == (host,)
    assert host not in settings.model_dump_json()
