"""`torch.distributed.elastic.utils.distributed`: ports of this machine. Stores of process groups are not here."""

from __future__ import annotations

import socket

__all__ = ["get_free_port", "get_socket_with_port"]


def get_socket_with_port() -> socket.socket:
    """A socket at a free port of this machine, which its `getsockname()` says; the caller closes it.

    Raises:
        RuntimeError: there is no address of this machine that can be had.
    """
    for family, kind, protocol, _, _ in socket.getaddrinfo("localhost", None, socket.AF_UNSPEC, socket.SOCK_STREAM):
        found = socket.socket(family, kind, protocol)
        try:
            found.bind(("localhost", 0))
            found.listen(0)
        except OSError:
            found.close()
            continue
        return found
    raise RuntimeError("get_socket_with_port: no address of localhost could be had")


def get_free_port() -> int:
    """A port of this machine that was free a moment ago."""
    with get_socket_with_port() as found:
        return int(found.getsockname()[1])
