# SPDX-License-Identifier: MIT
"""Queues, the requests posted to them, their completions, and completion events."""

import math
import os
import time
from typing import (Any, AsyncIterator, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union)

from ._library import (FAIL, Error, Handle, Mode, RequestError, State, Status, check, ffi, lib,
                       made)
from ._sleep import Sleepers, sleep
from .memory import AnySegment, Piece

Local = Union[Piece, AnySegment]
Data = Union[Local, Sequence[Local], bytes, bytearray, memoryview]

TYPICAL_RNR_RETRY = 7  # no limit
TYPICAL_ERR_TIMEOUT = 17  # half a second
SPINS = 100
MOST_RECORDS = 64
MOST_PIECES = 32

# Flags of requests, of urma_jfs_wr_flag_t.
SIGNAL = 1 << 5  # success leaves a completion
FENCE = 1 << 3  # starts after earlier reads and atomics of the queue
SOLICITED = 1 << 4  # wakes peers that armed for such completions only

_INLINE = 1 << 6

# What each request looks up.
_SEND, _SEND_IMM = lib.URMA_OPC_SEND, lib.URMA_OPC_SEND_IMM
_WRITE, _WRITE_IMM, _READ = lib.URMA_OPC_WRITE, lib.URMA_OPC_WRITE_IMM, lib.URMA_OPC_READ
_poll = lib.urma_poll_jfc
_STATUS = list(Status)
_IMMEDIATE = (lib.URMA_CR_OPC_SEND_WITH_IMM, lib.URMA_CR_OPC_WRITE_WITH_IMM)


class Completion(NamedTuple):
    """How one request ended."""

    status: Status
    user_ctx: int  # of the request
    length: int  # bytes moved
    received: bool  # of a receive request, not of a send request
    immediate: Optional[int]  # of a receive whose sender gave one
    queue: int  # id of the queue of the request
    sender: int  # of a receive: id of the queue that sent

    def check(self) -> "Completion":
        """Raises a RequestError if the request failed."""
        if self.status != 0:
            raise RequestError(self)
        return self


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


class Jfce(Handle):
    """Event channel: sleeps until an armed queue has a completion. select and poll accept it.

    In asyncio, await Jfc.arrived instead.
    """

    _end = "urma_delete_jfce"

    def __init__(self, context: Any) -> None:
        super().__init__(made(lib.urma_create_jfce(context.handle), "urma_create_jfce"), context)
        self.queues: Dict[int, "Jfc"] = {}
        self.sleepers = Sleepers(self.handle.fd, self._take)

    def fileno(self) -> int:
        return self.handle.fd

    def wait(self, timeout: Optional[float] = None) -> List["Jfc"]:
        """Sleeps up to `timeout` seconds, None: without limit. Returns the queues with an event.

        Each was disarmed by its event. Poll it, and arm it again.
        """
        sleep(self.fileno(), timeout)
        return self._take()

    def _take(self) -> List["Jfc"]:
        found, one = ffi.new("urma_jfc_t*[]", 64), ffi.new("uint32_t[]", [1] * 64)
        count = lib.urma_wait_jfc(self.handle, 64, 0, found)
        if count < 0:
            raise Error("urma_wait_jfc", ffi.errno)
        lib.urma_ack_jfc(found, one, count)
        queues = [self.queues[_address(found[i])] for i in range(count)]
        for jfc in queues:
            self.sleepers.wake(jfc)
        return queues

    def _finish(self) -> None:
        self.sleepers.leave()
        super()._finish()


class Jfc(Handle):
    """Completion queue, from Context.create_jfc."""

    _end = "urma_delete_jfc"

    def __init__(self, context: Any, depth: int, jfce: Optional[Jfce]) -> None:
        config = ffi.new("urma_jfc_cfg_t*")
        config.depth = depth
        config.jfce = jfce.handle if jfce else ffi.NULL
        super().__init__(made(lib.urma_create_jfc(context.handle, config), "urma_create_jfc"),
                         context)
        self.jfce = jfce
        self._spare: List[Any] = []
        if jfce:
            jfce.queues[_address(self.handle)] = self

    def poll(self, at_most: int = 16) -> List[Completion]:
        """Takes waiting completions, without blocking; also those of failed requests."""
        spare = self._spare
        records = spare.pop() if spare else ffi.new("urma_cr_t[]", MOST_RECORDS)
        count = _poll(self.handle, at_most if at_most < MOST_RECORDS else MOST_RECORDS, records)
        if count < 0:
            raise Error("urma_poll_jfc", FAIL)
        found = [_completion(records[i]) for i in range(count)]
        spare.append(records)
        return found

    def wait(self, timeout: Optional[float] = None) -> Completion:
        """Polls until there is a completion, and takes it.

        Raises a RequestError if its request failed, and TimeoutError after `timeout` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        if end is not None and math.isnan(end):
            raise ValueError("the timeout is not a number")
        polls = 0
        while not (found := self.poll(1)):
            polls += 1
            if polls > SPINS:
                os.sched_yield()
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"no completion within {timeout} s")
        return found[0].check()

    def arm(self, solicited_only: bool = False) -> None:
        """Makes the next completion, or one that waits already, raise one event at the JFCE."""
        check(lib.urma_rearm_jfc(self.handle, solicited_only), "urma_rearm_jfc")

    async def arrived(self, at_most: int = 16) -> List[Completion]:
        """Sleeps in asyncio until there are completions, and takes them. Needs a JFCE."""
        if self.jfce is None:
            raise ValueError("the queue was made without a jfce, so it has no events")
        while not (found := self.poll(at_most)):
            await self.jfce.sleepers.sleep(self, self.arm)
        return found

    async def __aiter__(self) -> AsyncIterator[Completion]:
        """async for completion in jfc: one after another, endlessly."""
        while True:
            for completion in await self.arrived(1):
                yield completion

    def close(self) -> None:
        if self.jfce and self.handle != ffi.NULL:
            key = _address(self.handle)
            super().close()
            del self.jfce.queues[key]
            self.jfce.sleepers.wake(self)  # to find it closed
        super().close()


def _completion(record: Any) -> Completion:
    if not record.flag.value & 1:
        return Completion(_STATUS[record.status], record.user_ctx, record.completion_len, False,
                          None, record.local_id, 0)
    return Completion(_STATUS[record.status], record.user_ctx, record.completion_len, True,
                      record.imm_data if record.opcode in _IMMEDIATE else None, record.local_id,
                      record.remote_id.id)


class _Receive:
    """A receive request."""

    def __init__(self) -> None:
        self.request = ffi.new("urma_jfr_wr_t*")
        self.place = self.request.src
        self.place.num_sge = 1
        self.bad = ffi.new("urma_jfr_wr_t**")


class ReceiveQueue(Handle):
    """Base of JFRs and jettys."""

    _post_receive: Any

    def __init__(self, handle: Any, context: Any) -> None:
        super().__init__(handle, context)
        self._spare_receives: List[_Receive] = []

    def receive(self, piece: Local, user_ctx: int = 0) -> None:
        """Posts a receive: the next message goes into `piece`."""
        spare = self._spare_receives
        slot = spare.pop() if spare else _Receive()
        slot.place.sge = _here(piece)
        slot.request.user_ctx = user_ctx
        status = self._post_receive(self.handle, slot.request, slot.bad)
        spare.append(slot)
        if status != 0:
            raise Error("posting a receive", status)


class _Send:
    """A send request with room for pieces. Keeps its parts, as each lookup has a cost."""

    def __init__(self) -> None:
        self.local = ffi.new("urma_sge_t[]", MOST_PIECES)
        self.request = ffi.new("urma_jfs_wr_t*")
        self.flag, self.rw, self.message = (self.request.flag, self.request.rw, self.request.send)
        self.source, self.destination = self.rw.src, self.rw.dst
        self.bad = ffi.new("urma_jfs_wr_t**")
        self.inlined: Any = None  # is copied during the call only


class Target(Handle):
    """A queue of another process, from Context.import_queue; the target of requests."""

    def __init__(self, context: Any, descriptor: bytes, token: Optional[int]) -> None:
        if len(descriptor) < ffi.sizeof("urma_rjetty_t"):
            raise ValueError(f"a descriptor of a queue has {ffi.sizeof('urma_rjetty_t')} bytes or "
                             f"more, not {len(descriptor)}")
        copy = ffi.from_buffer(bytearray(descriptor))
        remote = ffi.cast("urma_rjetty_t*", copy)
        remote.flag.bs.has_drv_ext = 0  # only this process could say what follows
        value = ffi.NULL if token is None else ffi.new("urma_token_t*", [token])
        if remote.type == lib.URMA_JFR:
            rjfr = ffi.new("urma_rjfr_t*")
            rjfr.jfr_id, rjfr.trans_mode = remote.jetty_id, remote.trans_mode
            rjfr.flag, rjfr.tp_type = remote.flag, remote.tp_type
            call, self._end = "urma_import_jfr", "urma_unimport_jfr"
            handle = lib.urma_import_jfr(context.handle, rjfr, value)
        else:
            call, self._end = "urma_import_jetty", "urma_unimport_jetty"
            handle = lib.urma_import_jetty(context.handle, remote, value)
        super().__init__(made(handle, call), context)


class SendQueue(Handle):
    """Base of JFSs and jettys.

    Every request names a `target`, except on a bound jetty (RC). Its `user_ctx` comes back in the
    completion. With `flags` 0, success leaves no completion; see SIGNAL, FENCE, SOLICITED.
    """

    _post_send: Any

    def __init__(self, handle: Any, context: Any, max_inline: int) -> None:
        super().__init__(handle, context)
        self.max_inline = max_inline
        self._spare_sends: List[_Send] = []

    def send(self, data: Data, target: Optional[Target] = None, *, user_ctx: int = 0,
             flags: int = SIGNAL, immediate: Optional[int] = None) -> None:
        """Posts a message: pieces of segments, or bytes, which are copied at once (max_inline)."""
        slot = self._slot(target, user_ctx, flags)
        if immediate is None:
            slot.request.opcode = _SEND
        else:
            slot.request.opcode, slot.message.imm_data = _SEND_IMM, immediate
        self._gather(slot, slot.message.src, data)
        self._post(slot)

    def write(self, source: Data, destination: Local, target: Optional[Target] = None, *,
              user_ctx: int = 0, flags: int = SIGNAL, immediate: Optional[int] = None) -> None:
        """Posts a write of local pieces, or bytes, to remote memory.

        `immediate` consumes a receive of the target, and delivers these 64 bits.
        """
        slot = self._slot(target, user_ctx, flags)
        if immediate is None:
            slot.request.opcode = _WRITE
        else:
            slot.request.opcode, slot.rw.notify_data = _WRITE_IMM, immediate
        self._gather(slot, slot.source, source)
        slot.destination.sge, slot.destination.num_sge = _there(destination), 1
        self._post(slot)

    def read(self, source: Local, destination: Data, target: Optional[Target] = None, *,
             user_ctx: int = 0, flags: int = SIGNAL) -> None:
        """Posts a read of remote memory into local pieces."""
        slot = self._slot(target, user_ctx, flags)
        slot.request.opcode = _READ
        self._gather(slot, slot.destination, destination)
        slot.source.sge, slot.source.num_sge = _there(source), 1
        self._post(slot)

    def fetch_add(self, where: Local, old: Local, value: int, target: Optional[Target] = None, *,
                  user_ctx: int = 0, flags: int = SIGNAL) -> None:
        """Posts an addition to 4 or 8 remote bytes; their old value goes to `old`."""
        slot = self._slot(target, user_ctx, flags)
        slot.request.opcode = lib.URMA_OPC_FADD
        operation = slot.request.faa
        operation.dst, operation.src = _there(where), _here(old)
        operation.operand = value
        self._post(slot)

    def compare_swap(self, where: Local, old: Local, compare: int, swap: int,
                     target: Optional[Target] = None, *, user_ctx: int = 0,
                     flags: int = SIGNAL) -> None:
        """Posts: store `swap` if the remote value is `compare`. The old value goes to `old`."""
        slot = self._slot(target, user_ctx, flags)
        slot.request.opcode = lib.URMA_OPC_CAS
        operation = slot.request.cas
        operation.dst, operation.src = _there(where), _here(old)
        operation.cmp_data, operation.swap_data = compare, swap
        self._post(slot)

    def _slot(self, target: Optional[Target], user_ctx: int, flags: int) -> _Send:
        """A request of this thread alone, with its common fields set."""
        spare = self._spare_sends
        slot = spare.pop() if spare else _Send()
        slot.flag.value = flags
        slot.request.tjetty = target.handle if target is not None else ffi.NULL
        slot.request.user_ctx = user_ctx
        return slot

    def _gather(self, slot: _Send, place: Any, data: Data) -> None:
        """Makes `place`, a urma_sg_t, refer to the local pieces."""
        if isinstance(data, (Piece, AnySegment)):
            place.sge, place.num_sge = _here(data), 1
        elif isinstance(data, (bytes, bytearray, memoryview)):
            place.sge, place.num_sge = self._inline(slot, data), 1
        else:
            for i, piece in enumerate(data):
                slot.local[i] = _here(piece)[0]
            place.sge, place.num_sge = slot.local, len(data)

    def _inline(self, slot: _Send, data: Union[bytes, bytearray, memoryview]) -> Any:
        """The one entry for bytes that are copied while posting."""
        memory = ffi.from_buffer(data)
        if len(memory) > self.max_inline:
            raise ValueError(f"{len(memory)} bytes exceed max_inline {self.max_inline}; "
                             "register them")
        slot.flag.value |= _INLINE
        slot.inlined = memory
        entry = slot.local[0]
        entry.addr, entry.len, entry.tseg = _address(memory), len(memory), ffi.NULL
        return slot.local

    def _post(self, slot: _Send) -> None:
        status = self._post_send(self.handle, slot.request, slot.bad)
        slot.inlined = None  # else a bytearray could not grow
        self._spare_sends.append(slot)
        if status != 0:
            raise Error("posting a request", status)


def _here(piece: Local) -> Any:
    if piece.remote:
        raise TypeError("a piece of an imported segment in place of a local one")
    if piece.segment.closed:
        raise ValueError("the segment is closed")
    return piece.sge


def _there(piece: Local) -> Any:
    if not piece.remote:
        raise TypeError("a piece of a registered segment in place of an imported one")
    if piece.segment.closed:
        raise ValueError("the segment is closed")
    return piece.sge


class Jfr(ReceiveQueue):
    """Receive queue, from Context.create_jfr."""

    _end = "urma_delete_jfr"
    _post_receive = lib.urma_post_jfr_wr

    def __init__(self, context: Any, jfc: Jfc, depth: int, mode: Mode, token: Optional[int],
                 id: int, max_sge: int) -> None:
        config = ffi.new("urma_jfr_cfg_t*")
        config.id, config.depth, config.trans_mode, config.max_sge = id, depth, mode, max_sge
        config.min_rnr_timer = 12
        config.jfc = jfc.handle
        config.flag.bs.token_policy = token is not None
        config.token_value.token = token or 0
        super().__init__(made(lib.urma_create_jfr(context.handle, config), "urma_create_jfr"),
                         context)

    @property
    def descriptor(self) -> bytes:
        """What another process gives to Context.import_queue."""
        remote = ffi.new("urma_rjetty_t*")
        remote.jetty_id, remote.type = self.handle.jfr_id, lib.URMA_JFR
        remote.trans_mode = self.handle.jfr_cfg.trans_mode
        remote.flag.bs.token_policy = self.handle.jfr_cfg.flag.bs.token_policy
        return bytes(ffi.buffer(remote))


def _sending_half(config: Any, jfc: Jfc, depth: int, mode: Mode, max_sge: int, rnr_retry: int,
                  err_timeout: int) -> None:
    config.depth, config.trans_mode, config.jfc = depth, mode, jfc.handle
    config.max_sge, config.max_rsge = max_sge, 1
    config.rnr_retry, config.err_timeout = rnr_retry, err_timeout


class Jfs(SendQueue):
    """Send queue, from Context.create_jfs."""

    _end = "urma_delete_jfs"
    _post_send = lib.urma_post_jfs_wr

    def __init__(self, context: Any, jfc: Jfc, **sending: Any) -> None:
        config = ffi.new("urma_jfs_cfg_t*")
        _sending_half(config, jfc, **sending)
        handle = made(lib.urma_create_jfs(context.handle, config), "urma_create_jfs")
        super().__init__(handle, context, handle.jfs_cfg.max_inline_data)


class Jetty(SendQueue, ReceiveQueue):
    """A send queue that receives through a JFR, from Context.create_jetty."""

    _end = "urma_delete_jetty"
    _post_send = lib.urma_post_jetty_send_wr
    _post_receive = lib.urma_post_jetty_recv_wr

    def __init__(self, context: Any, jfc: Jfc, jfr: Jfr, id: int, **sending: Any) -> None:
        config = ffi.new("urma_jetty_cfg_t*")
        config.id = id
        config.flag.bs.share_jfr = 1
        config.shared.jfr = jfr.handle
        _sending_half(config.jfs_cfg, jfc, **sending)
        handle = made(lib.urma_create_jetty(context.handle, config), "urma_create_jetty")
        SendQueue.__init__(self, handle, context, handle.jetty_cfg.jfs_cfg.max_inline_data)
        self._spare_receives: List[_Receive] = []

    @property
    def id(self) -> Tuple[bytes, int]:
        """Its address: the EID and the number."""
        return bytes(ffi.buffer(self.handle.jetty_id.eid.raw)), self.handle.jetty_id.id

    @property
    def descriptor(self) -> bytes:
        """What another process gives to Context.import_queue."""
        found, size = ffi.new("urma_rjetty_t**"), ffi.new("uint32_t*")
        check(lib.urma_get_rjetty(self.handle, found, size), "urma_get_rjetty")
        try:
            return bytes(ffi.buffer(found[0], size[0]))
        finally:
            lib.urma_put_rjetty(found[0])

    def bind(self, target: Target) -> None:
        """Connects a jetty of mode RC to its peer. Closing the jetty unbinds it."""
        check(lib.urma_bind_jetty(self.handle, target.handle), "urma_bind_jetty")
        self._owner.owned.remove(self)
        self._owner.owned.append(self)  # ends before the target that it needs

    def unbind(self) -> None:
        check(lib.urma_unbind_jetty(self.handle), "urma_unbind_jetty")

    def _finish(self) -> None:
        mode = self.handle.jetty_cfg.jfs_cfg.trans_mode
        peer = self.handle.remote_jetty if mode == Mode.RC else ffi.NULL
        if peer == ffi.NULL:
            return super()._finish()
        self.unbind()
        try:
            super()._finish()
        except Error:
            lib.urma_bind_jetty(self.handle, peer)  # as before
            raise

    @property
    def state(self) -> State:
        config, attributes = ffi.new("urma_jetty_cfg_t*"), ffi.new("urma_jetty_attr_t*")
        check(lib.urma_query_jetty(self.handle, config, attributes), "urma_query_jetty")
        return State(attributes.state)

    @state.setter
    def state(self, state: State) -> None:
        attributes = ffi.new("urma_jetty_attr_t*")
        attributes.mask, attributes.state = lib.JETTY_STATE, state
        check(lib.urma_modify_jetty(self.handle, attributes), "urma_modify_jetty")
