# SPDX-License-Identifier: MIT
"""What the examples need besides URMA: a TCP connection over which two programs swap descriptors.

Descriptors may travel in any way; most programs use TCP.
"""

import socket
import struct
import sys
from typing import Tuple

PORT = 7471


def arguments() -> Tuple[bool, str, int]:
    """Reads `server [port [address]] | client host [port]`.

    Returns whether it is the server, the host or address, and the port.
    """
    words = sys.argv[1:]
    if words[:1] == ["server"] and len(words) <= 3:
        address = words[2] if words[2:] else "127.0.0.1"
        return True, address, int(words[1]) if words[1:] else PORT
    if words[:1] == ["client"] and 2 <= len(words) <= 3:
        return False, words[1], int(words[2]) if words[2:] else PORT
    sys.exit(f"usage: {sys.argv[0]} server [port [address]] | client host [port]")


def meet() -> Tuple[bool, socket.socket]:
    """Connects the two programs. Port 0 takes one that is free; the server prints it."""
    is_server, host, port = arguments()
    if not is_server:
        return False, socket.create_connection((host, port))
    # Descriptors give access to the queues, so only this machine may connect.
    with socket.create_server((host, port)) as listener:
        print("listening on port", listener.getsockname()[1], flush=True)
        return True, listener.accept()[0]


def swap(sock: socket.socket, mine: bytes = b"") -> bytes:
    """Sends `mine` and returns what the other side has sent. This also keeps both in step."""
    sock.sendall(struct.pack("!I", len(mine)) + mine)
    size, = struct.unpack("!I", _read(sock, 4))
    return _read(sock, size)


def _read(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise ConnectionError("the other program is gone")
        data += more
    return data
