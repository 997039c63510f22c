#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Many jetties in one asyncio loop, asleep until something arrives.

    event_loop.py server [port [address]] | client host [port]

Each connection over TCP swaps descriptors and belongs to one jetty, over which numbers go to and
fro. The server answers each with the next one, and ends with the last connection.
"""

import asyncio
import struct

import exchange
import urma

LINES = 16
ROUNDS = 50


class Line:
    """A jetty with queues of its own, and room for one number."""

    def __init__(self, context: urma.Context, events: urma.Jfce) -> None:
        self.jfc = context.create_jfc(jfce=events)
        self.jetty = context.create_jetty(self.jfc, context.create_jfr(self.jfc))
        self.number = bytearray(4)
        self.place = context.register(self.number)
        self.jetty.receive(self.place)

    async def find_peer(self, context, reader, writer) -> None:
        mine = self.jetty.descriptor
        writer.write(struct.pack("!I", len(mine)) + mine)
        size, = struct.unpack("!I", await reader.readexactly(4))
        self.target = context.import_queue(await reader.readexactly(size))

    async def next(self) -> int:
        """The number that arrives next. Completions of sends go by."""
        async for completion in self.jfc:
            if completion.check().received:
                break
        number, = struct.unpack("=I", self.number)
        self.jetty.receive(self.place)
        return number

    def send(self, number: int) -> None:
        self.jetty.send(struct.pack("=I", number), self.target)


async def serve(context: urma.Context, host: str, port: int) -> None:
    events = context.create_jfce()
    answered = 0
    left = LINES
    all_gone = asyncio.Event()

    async def answer(reader, writer) -> None:
        nonlocal answered, left
        line = Line(context, events)
        await line.find_peer(context, reader, writer)
        for _ in range(ROUNDS):
            line.send(await line.next() + 1)
            answered += 1
        await reader.read()  # until the client has gone
        writer.close()
        left -= 1
        if left == 0:
            all_gone.set()

    server = await asyncio.start_server(answer, host, port)
    print("listening on port", server.sockets[0].getsockname()[1], flush=True)
    await all_gone.wait()
    server.close()
    print(f"{LINES} jetties, {answered} numbers answered: ok")


async def count(context: urma.Context, events: urma.Jfce, host: str, port: int) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    line = Line(context, events)
    await line.find_peer(context, reader, writer)
    number = 0
    for _ in range(ROUNDS):
        line.send(number)
        number = await line.next()
    assert number == ROUNDS
    writer.close()


async def main() -> None:
    is_server, host, port = exchange.arguments()
    with urma.open() as context:
        if is_server:
            await serve(context, host, port)
        else:
            events = context.create_jfce()
            await asyncio.gather(*(count(context, events, host, port) for _ in range(LINES)))
            print(f"{LINES} jetties counted to {ROUNDS}: ok")


if __name__ == "__main__":
    asyncio.run(main())
