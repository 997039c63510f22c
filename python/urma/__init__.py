# SPDX-License-Identifier: MIT
"""URMA, the programming interface of the UnifiedBus, for Python: docs/guide/python.md.

Names follow the C interface: a JFC is a completion queue, a JFCE its event channel, a JFS sends, a
JFR receives, and a jetty does both. `lib` and `ffi` give all calls that have no method here.
"""

from ._library import (Access, Error, EventKind, Mode, RequestError, State, Status, ffi, lib,
                       library)
from .device import Context, Device, Event, devices, open
from .memory import Piece, RemoteSegment, Segment
from .queues import (FENCE, SIGNAL, SOLICITED, Completion, Jetty, Jfc, Jfce, Jfr, Jfs,
                     Target)

__all__ = [
    "FENCE", "SIGNAL", "SOLICITED", "Access", "Completion", "Context", "Device", "Error", "Event",
    "EventKind", "Jetty", "Jfc", "Jfce", "Jfr", "Jfs", "Mode", "Piece", "RemoteSegment",
    "RequestError", "Segment", "State", "Status", "Target", "devices", "ffi", "lib", "library",
    "open",
]
