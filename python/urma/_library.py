# SPDX-License-Identifier: MIT
"""The shared library, what its calls return, and how failures become exceptions."""

import atexit
import ctypes
import enum
import os
import pathlib
import sys
from typing import Any, List, Optional

from . import _abi

ffi: Any = _abi.ffi


def _open() -> Any:
    """Opens the library of this package's installation, else any."""
    beside = pathlib.Path(__file__).resolve().parents[3] / "liburma.so.0"
    return ffi.dlopen(str(beside) if beside.exists() else "liburma.so.0")


lib: Any = _open()
FAIL: int = _abi.CONSTANTS["URMA_FAIL"]


class Access(enum.IntFlag):
    """What importers may do with a segment. WRITE needs READ, ATOMIC needs both."""

    LOCAL_ONLY = 1
    READ = 2
    WRITE = 4
    ATOMIC = 8


class Mode(enum.IntEnum):
    """Transport mode of a queue; both ends use the same."""

    RM = 1
    RC = 2
    UM = 4


class Status(enum.IntEnum):
    """How a request ended."""

    SUCCESS = 0
    UNSUPPORTED_OPCODE_ERR = 1
    LOC_LEN_ERR = 2
    LOC_OPERATION_ERR = 3
    LOC_ACCESS_ERR = 4
    REM_RESP_LEN_ERR = 5
    REM_UNSUPPORTED_REQ_ERR = 6
    REM_OPERATION_ERR = 7
    REM_ACCESS_ABORT_ERR = 8
    ACK_TIMEOUT_ERR = 9
    RNR_RETRY_CNT_EXC_ERR = 10
    WR_FLUSH_ERR = 11
    WR_SUSPEND_DONE = 12
    WR_FLUSH_ERR_DONE = 13
    WR_UNHANDLED = 14
    LOC_DATA_POISON = 15
    REM_DATA_POISON = 16

    @property
    def text(self) -> str:
        """The text of urma_cr_status_to_string: "remote access refused"."""
        return _abi.REQUEST_TEXTS[self]


class State(enum.IntEnum):
    """State of a send queue or jetty."""

    RESET = 0
    READY = 1
    SUSPENDED = 2
    ERROR = 3


class EventKind(enum.IntEnum):
    """Kind of an asynchronous event of a context."""

    JFC_ERR = 0
    JFS_ERR = 1
    JFR_ERR = 2
    JFR_LIMIT = 3
    JETTY_ERR = 4
    JETTY_LIMIT = 5
    JETTY_GRP_ERR = 6
    PORT_ACTIVE = 7
    PORT_DOWN = 8
    DEV_FATAL = 9
    EID_CHANGE = 10
    ELR_ERR = 11
    ELR_DONE = 12


class Error(OSError):
    """A call failed. `errno` is its status; the library's log has details."""

    def __init__(self, call: str, status: int) -> None:
        text = _abi.CALL_TEXTS.get(status) or os.strerror(status)
        super().__init__(status, f"{call}: {text}")


class RequestError(Exception):
    """A posted request failed. `completion` is its record, `status` how it ended."""

    def __init__(self, completion: Any) -> None:
        self.completion = completion
        self.status: Status = completion.status
        super().__init__(f"the request failed: {self.status.text} (URMA_CR_{self.status.name})")


def check(status: int, call: str) -> None:
    """Raises an Error unless `status` is URMA_SUCCESS."""
    if status != 0:
        raise Error(call, status)


def made(pointer: Any, call: str) -> Any:
    """Returns the object that a call made, or raises the Error for errno."""
    if not pointer:
        raise Error(call, ffi.errno)
    return pointer


class Owner:
    """Ends the objects made from it, the last one first."""

    def __init__(self) -> None:
        self.owned: List["Handle"] = []

    def close_owned(self) -> None:
        while self.owned:
            self.owned[-1].close()


class Handle:
    """An object of the library. It ends at `close`, with its `with` block, or with its owner.

    `handle` is the pointer that `urma.lib` takes, for calls that have no method here.
    """

    _end = ""  # the function that ends it

    def __init__(self, handle: Any, owner: Owner) -> None:
        self.handle = handle
        self._owner = owner
        owner.owned.append(self)

    def close(self) -> None:
        """Ends the object. Closing it again does nothing."""
        if self.handle == ffi.NULL:
            return
        if not library.is_inherited():
            self._finish()
        self.handle = ffi.NULL
        self._owner.owned.remove(self)

    def _finish(self) -> None:
        check(getattr(lib, self._end)(self.handle), self._end)

    def __enter__(self: Any) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Library(Owner):
    """The library. It starts at the first request for a device."""

    def __init__(self) -> None:
        super().__init__()
        self._process: Optional[int] = None  # that started it

    def start(self) -> None:
        if self._process != os.getpid():
            check(lib.urma_init(ffi.NULL), "urma_init")
            self._process = os.getpid()
            atexit.register(self._exit)

    def is_inherited(self) -> bool:
        """Whether this process was forked while the library ran. Then nothing is its own."""
        return self._process not in (None, os.getpid())

    def close(self) -> None:
        """Closes every context, and ends the library; it can start again."""
        self.close_owned()
        if self._process == os.getpid():
            self._process = None
            atexit.unregister(self._exit)
            check(lib.urma_uninit(), "urma_uninit")

    def _exit(self) -> None:
        """Closes at the end of the program, unless a daemon thread may still use an object."""
        if len(sys._current_frames()) == 1:
            self.close()
        else:
            # Peers may write to the buffers until the process is gone, so these must stay too.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.owned))


library = Library()
