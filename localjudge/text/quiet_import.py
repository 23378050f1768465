"""Imports spaCy without a network socket.

spaCy's command line imports an HTTP client, and that client opens an IPv6 socket at import, on this machine alone, to
see whether it could use one. Nothing is sent; but who watches the main job for sockets should see none. While spaCy is
imported, other threads are told the same; a socket that they make then is unaffected.
"""

import socket
from functools import cache
from importlib import import_module


@cache
def import_spacy() -> None:
    """Import spaCy while the client believes that there is no IPv6, so that it does not look."""
    has_ipv6, socket.has_ipv6 = socket.has_ipv6, False
    try:
        import_module("spacy")
    finally:
        socket.has_ipv6 = has_ipv6
