#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Messages between two processes.

    send_recv.py server [port [address]] | client host [port]
"""

import statistics
import time

import exchange
import urma

ROUNDS = 2000
ROOM = 4096


def main() -> None:
    is_server, sock = exchange.meet()
    with urma.open() as context:
        print(f"device {context.device.name}, EID {context.eid}")
        sent, arrived = context.create_jfc(), context.create_jfc()
        jetty = context.create_jetty(sent, context.create_jfr(arrived))
        room = bytearray(ROOM)
        place = context.register(room)
        jetty.receive(place)  # before the other side can send
        target = context.import_queue(exchange.swap(sock, jetty.descriptor))

        jetty.send(f"hello from the {'server' if is_server else 'client'}".encode(), target)
        sent.wait(10)
        message = arrived.wait(10)
        print(f"{message.length} bytes: {room[:message.length].decode()}")
        ping_pong(is_server, sock, jetty, target, place, sent, arrived)
        exchange.swap(sock)  # nobody ends a queue that the other one still uses


def ping_pong(is_server, sock, jetty, target, place, sent, arrived) -> None:
    """Sends a number to and fro. Pieces are made once and reused."""
    piece = place[:8]
    times = []
    jetty.receive(piece)
    exchange.swap(sock)
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        if not is_server:
            jetty.send(b"12345678", target)
        arrived.wait(10)
        jetty.receive(piece)
        if is_server:
            jetty.send(b"12345678", target)
        sent.wait(10)
        times.append(time.perf_counter_ns() - start)
    print(f"latency {statistics.median(times) / 2:.0f} ns: half a round trip of 8 bytes, "
          f"median of {ROUNDS}")


if __name__ == "__main__":
    main()
