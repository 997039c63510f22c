# SPDX-License-Identifier: MIT
"""Sleeping until a descriptor is readable: in a thread, or in tasks of asyncio."""

import asyncio
import contextlib
import select
from typing import Any, Callable, Dict, Optional, Set

LONGEST_MS = 2**31 - 1  # poll takes no more; 24 days

Loop = asyncio.AbstractEventLoop
Future = asyncio.Future  # of no value


def sleep(fd: int, timeout: Optional[float]) -> None:
    """Sleeps until `fd` is readable, up to `timeout` seconds; None: without limit."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll(None if timeout is None else min(max(timeout, 0) * 1000, LONGEST_MS))


class Sleepers:
    """Tasks of any number of event loops, each asleep for one reason, such as a queue.

    A loop with a task asleep calls `readable` when the descriptor is, by default `wake`. It watches
    the descriptor until that is readable with no task asleep, since each change has a cost.
    """

    def __init__(self, fd: int, readable: Optional[Callable[[], object]] = None) -> None:
        self._fd, self._readable = fd, readable or self.wake
        # By loop and reason. Only its own thread changes what belongs to a loop.
        self._asleep: Dict[Loop, Dict[Any, Set[Future]]] = {}

    async def sleep(self, reason: Any = None, arm: Callable[[], None] = lambda: None) -> None:
        """Sleeps until `wake` is called for this reason; calls `arm` once it can be woken."""
        loop = asyncio.get_running_loop()
        if loop not in self._asleep:
            for old in [old for old in self._asleep if old.is_closed()]:
                self._asleep.pop(old, None)
            loop.add_reader(self._fd, self._look, loop)
            self._asleep[loop] = {}
        future = loop.create_future()
        self._asleep[loop].setdefault(reason, set()).add(future)
        try:
            arm()
            await future
        finally:
            self._forget(loop, reason, {future})

    def wake(self, reason: Any = None) -> None:
        """Wakes the tasks of every loop that sleep for this reason. Any thread may call it."""
        for loop, asleep in list(self._asleep.items()):
            futures = set(asleep.get(reason, ()))
            if futures:
                self._within(loop, self._rouse, reason, futures)

    def leave(self) -> None:
        """Before the descriptor is closed: loops with no task asleep stop watching it."""
        for loop in list(self._asleep):
            self._within(loop, self._leave)

    def _within(self, loop: Loop, call: Callable[..., None], *arguments: Any) -> None:
        if loop is asyncio._get_running_loop():
            call(loop, *arguments)
        else:
            with contextlib.suppress(RuntimeError):  # a closed loop, whose tasks are lost
                loop.call_soon_threadsafe(call, loop, *arguments)

    def _look(self, loop: Loop) -> None:
        if self._asleep[loop]:
            self._readable()
        else:
            self._leave(loop)

    def _rouse(self, loop: Loop, reason: Any, futures: Set[Future]) -> None:
        for future in futures:
            if not future.done():
                future.set_result(None)
        self._forget(loop, reason, futures)

    def _forget(self, loop: Loop, reason: Any, futures: Set[Future]) -> None:
        asleep = self._asleep.get(loop, {})
        if reason in asleep:
            asleep[reason] -= futures
            if not asleep[reason]:
                del asleep[reason]

    def _leave(self, loop: Loop) -> None:
        if self._asleep.get(loop) == {}:
            del self._asleep[loop]
            loop.remove_reader(self._fd)
