"""What names a server, and whether it is this machine's: by its number, or by what is written alone."""

import pytest

from localjudge.engine.protocol import EngineSettings
from localjudge.engine.server.address import ServerAddress, is_loopback, is_this_machine, names_a_server, read_address
from localjudge.errors import InputError

pytestmark = pytest.mark.engine


@pytest.mark.parametrize(
    ("named", "address"),
    [
        ("http://127.0.0.1:8080", ServerAddress("127.0.0.1", 8080)),
        ("HTTP://localhost:8080/v1", ServerAddress("localhost", 8080)),
        ("http://[::1]:8080/", ServerAddress("::1", 8080)),
        ("http://gpu", ServerAddress("gpu", 80)),
        ("unix:/run/llama.sock", ServerAddress(socket_path="/run/llama.sock")),
    ],
)
def test_an_address_is_read(named: str, address: ServerAddress) -> None:
    assert names_a_server(named)
    assert read_address(named) == address
    assert read_address(str(address)) == address


@pytest.mark.parametrize(
    "after",
    ["", "user:secret@127.0.0.1:8080", "gpu:99999", "gpu:0", "127.0.0.1:8080/v1/chat", "127.0.0.1:8080?x=1"],
)
def test_what_cannot_be_an_address_is_refused(after: str) -> None:
    for named in (f"http://{after}", "https://127.0.0.1:8080", "unix:llama.sock", "unix:/" + "x" * 200):
        assert names_a_server(named)
        with pytest.raises(InputError):
            read_address(named)


@pytest.mark.parametrize("named", ["ollama:qwen3:8b", "hf:org/repo:Q4_K_M", "model.gguf", "/http:/x", "httpd", "unixy"])
def test_other_names_are_no_addresses(named: str) -> None:
    assert not names_a_server(named)


HERE = ("127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1")
ELSEWHERE = ("0.0.0.0", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "localhost", "127.0.0.1.example.org")


@pytest.mark.parametrize("numeric", [*HERE, *ELSEWHERE])
def test_this_machine_is_told_by_the_number(numeric: str) -> None:
    assert is_this_machine(numeric) is (numeric in HERE)


WRITTEN_HERE = ("http://127.0.0.1:8080", "http://[::1]:8080", "http://localhost:8080", "unix:/run/llama.sock")
WRITTEN_ELSEWHERE = ("127.1:8080", "127.0.0.1.example.org", "127.0.0.1%x.example.org", "localhost.org", "10.0.0.7")


@pytest.mark.parametrize("named", [*WRITTEN_HERE, *(f"http://{host}" for host in WRITTEN_ELSEWHERE)])
def test_this_machine_is_told_by_what_is_written(named: str) -> None:
    assert is_loopback(read_address(named)) is (named in WRITTEN_HERE)


@pytest.mark.parametrize("host", ["node7", "gpu.example", "10.0.0.7", "::1", "fd00::7"])
def test_names_and_numbers_of_hosts_can_be_allowed(host: str) -> None:
    settings = EngineSettings.model_validate({"allow_host": host})
    assert settings.allow_host == (host,)
    assert host not in settings.model_dump_json()
