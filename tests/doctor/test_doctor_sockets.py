"""The watch sees what it says it sees."""

import socket

import pytest

from localjudge.doctor.sockets import NetworkActivity, network_check, network_watched

IPV4 = f"a socket of family {int(socket.AF_INET)}"


@pytest.fixture(autouse=True)
def no_internet() -> None:
    """One of these tests connects to this machine."""


def test_an_internet_socket_is_seen_though_it_is_closed_again() -> None:
    with network_watched() as seen:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
    assert seen.made == [f"a socket of family {socket.AF_INET}"]
    assert network_check(seen).status == "warning"


def test_a_name_that_is_looked_up_is_seen() -> None:
    with network_watched() as seen:
        socket.getaddrinfo("127.0.0.1", 80)
    assert seen.made == ["a look-up of 127.0.0.1"]


@pytest.mark.parametrize(
    ("made", "reached", "status"),
    [
        ([IPV4, "a look-up of 127.0.0.1"], [("127.0.0.1", 8080)], "ok"),
        ([], [], "ok"),
        ([IPV4], [("127.0.0.1", 8081)], "warning"),
        ([IPV4], [("192.0.2.7", 8080)], "warning"),
        ([IPV4, IPV4], [("127.0.0.1", 8080), ("192.0.2.7", 443)], "warning"),
        ([IPV4, "a look-up of example.org"], [("127.0.0.1", 8080)], "warning"),
        (["a look-up of 127.0.0"], [], "warning"),
        (["a socket of family 17"], [], "warning"),
    ],
)
def test_a_judge_that_is_a_server_is_connected_to_and_nothing_else(
    made: list[str], reached: list[tuple[str, int]], status: str
) -> None:
    """Family 17 sends packets as they are; for a server in the file system, no socket of the internet is made."""
    seen = NetworkActivity(made, 0, reached)
    assert network_check(seen, "http://127.0.0.1:8080").status == status
    assert network_check(seen).status == ("warning" if made else "ok")
    assert network_check(seen, "unix:/run/llama.sock").status == ("warning" if made else "ok")


@pytest.mark.parametrize(
    ("server", "host", "status"),
    [
        ("http://localhost:8080", "::1", "ok"),
        ("http://localhost:8080", "192.0.2.7", "warning"),
        ("http://[::1]:8080", "0:0::1", "ok"),
        ("http://gpu.example:8080", "192.0.2.7", "ok"),
    ],
)
def test_a_server_that_is_called_by_a_name_is_where_that_may_lead(server: str, host: str, status: str) -> None:
    assert network_check(NetworkActivity([IPV4], 0, [(host, 8080)]), server).status == status


def test_where_a_connection_goes_is_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = listener.getsockname()
        with network_watched() as seen:
            socket.create_connection(there).close()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as packets:
                packets.sendto(b"x", there)
    assert seen.reached == [there, there]


def test_a_socket_between_processes_of_this_machine_is_none() -> None:
    with network_watched() as seen:
        socket.socket(socket.AF_UNIX).close()
    assert (seen.made, network_check(seen).status) == ([], "ok")


def test_nothing_is_noted_before_and_after() -> None:
    with network_watched() as seen:
        pass
    socket.socket(socket.AF_INET).close()
    assert seen.made == []


def test_an_open_socket_is_found_by_its_number_in_the_tables_of_the_system() -> None:
    """Whoever made it, Python or not; one that was there before does not count."""
    with socket.create_server(("127.0.0.1", 0)), network_watched() as seen:
        late = socket.create_server(("127.0.0.1", 0))
    late.close()
    assert seen.left_open in (1, None)


def test_where_the_system_has_no_such_tables_less_is_claimed() -> None:
    assert "compiled" in network_check(NetworkActivity(left_open=0)).found
    assert "compiled" not in network_check(NetworkActivity(left_open=None)).found
