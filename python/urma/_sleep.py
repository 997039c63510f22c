# SPDX-License-Identifier: MIT
"""Sleeping until a descriptor is readable."""

import select
from typing import Optional

LONGEST_MS = 2**31 - 1  # poll takes no more; 24 days


def sleep(fd: int, timeout: Optional[float]) -> None:
    """Sleeps until `fd` is readable, up to `timeout` seconds; None: without limit."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll(None if timeout is None else min(max(timeout, 0) * 1000, LONGEST_MS))
