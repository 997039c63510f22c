#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Segments: the client reads, writes and counts in the memory of the server, which takes no part.

    segment.py server [port [address]] | client host [port]
"""

import mmap
import secrets
import struct

import exchange
import urma

BYTES = 1 << 20
ADDS = 1000
ACCESS = urma.Access.READ | urma.Access.WRITE | urma.Access.ATOMIC


def pages(size: int) -> mmap.mmap:
    """Private pages, which are shared in place with those who use them much."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def serve(context: urma.Context, sock) -> None:
    memory, token = pages(BYTES), secrets.randbits(32)
    segment = context.register(memory, ACCESS, token=token)
    queue = context.create_jfr(context.create_jfc())
    exchange.swap(sock, struct.pack("=I", token))
    exchange.swap(sock, segment.descriptor)
    exchange.swap(sock, queue.descriptor)
    exchange.swap(sock)  # everything happens while we wait here

    counter, = struct.unpack_from("=Q", memory)
    text = memory[8:memory.find(b"\0", 8)].decode()
    print(f"counter {counter}, text: {text}")
    assert counter == 2 * ADDS


def work(context: urma.Context, sock) -> None:
    token, = struct.unpack("=I", exchange.swap(sock))
    there = context.import_segment(exchange.swap(sock), token)
    target = context.import_queue(exchange.swap(sock))
    memory, done = pages(BYTES), context.create_jfc()
    here = context.register(memory)
    jfs = context.create_jfs(done)

    text = b"The client writes this."
    memory[8:8 + len(text)] = text
    jfs.write(here[8:], there[8:], target)
    done.wait(10)
    memory[8:8 + len(text)] = bytes(len(text))
    jfs.read(there[8:], here[8:], target)
    done.wait(10)
    assert memory[8:8 + len(text)] == text
    print(f"{BYTES - 8} bytes written and read back: ok")

    counter, old = there[:8], here[:8]
    for value in range(ADDS):
        jfs.fetch_add(counter, old, 1, target)
        done.wait(10)
        assert struct.unpack_from("=Q", memory)[0] == value
    for value in range(ADDS, 2 * ADDS):
        jfs.compare_swap(counter, old, value, value + 1, target)
        done.wait(10)
        assert struct.unpack_from("=Q", memory)[0] == value
    print(f"{ADDS} fetch and adds, {ADDS} compare and swaps: ok")
    exchange.swap(sock)


def main() -> None:
    is_server, sock = exchange.meet()
    with urma.open() as context:
        (serve if is_server else work)(context, sock)


if __name__ == "__main__":
    main()
