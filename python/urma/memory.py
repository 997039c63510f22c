# SPDX-License-Identifier: MIT
"""Segments: registered or imported memory, and pieces of it."""

import functools
from typing import Any, Optional

from ._library import Access, Handle, check, ffi, lib, made


class Piece:
    """A part of a segment, local or remote, that requests read and write. It is reusable."""

    __slots__ = ("segment", "sge", "remote")

    def __init__(self, segment: "AnySegment", address: int, length: int) -> None:
        self.segment = segment
        self.remote = segment.remote
        self.sge = ffi.new("urma_sge_t*")  # requests point to it, which costs less than a copy
        self.sge.addr, self.sge.len, self.sge.tseg = address, length, segment.handle


class AnySegment(Handle):
    """Base of both kinds of segment. A segment also serves as a piece: all of it."""

    remote = False
    closed = False

    def __init__(self, handle: Any, context: Any) -> None:
        self.address: int = handle.seg.ubva.va
        self.length: int = handle.seg.len
        super().__init__(handle, context)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, part: slice) -> Piece:
        """The piece segment[first:end], in bytes."""
        first, end, step = part.indices(self.length)
        if step != 1 or end < first:
            raise ValueError(f"a piece is [first:end] with first <= end, not {part}")
        return Piece(self, self.address + first, end - first)

    @property
    def segment(self) -> "AnySegment":
        return self

    @functools.cached_property
    def sge(self) -> Any:
        return self[:].sge

    def close(self) -> None:
        super().close()
        self.closed = True


class Segment(AnySegment):
    """Registered memory of this process, from Context.register.

    It keeps the buffer, which is not freed and cannot be resized before the segment is closed.
    """

    _end = "urma_unregister_seg"

    def __init__(self, context: Any, buffer: Any, access: Access, token: Optional[int]) -> None:
        memory = ffi.from_buffer(buffer, require_writable=True)
        config = ffi.new("urma_seg_cfg_t*")
        config.va = int(ffi.cast("uintptr_t", memory))
        config.len = memory.__len__()
        config.flag.bs.access = access
        config.flag.bs.token_policy = token is not None
        config.token_value.token = token or 0
        super().__init__(made(lib.urma_register_seg(context.handle, config), "urma_register_seg"),
                         context)
        self.memory = memory

    def close(self) -> None:
        super().close()
        ffi.release(self.memory)

    @property
    def descriptor(self) -> bytes:
        """What another process gives to Context.import_segment."""
        found, size = ffi.new("urma_seg_t**"), ffi.new("uint32_t*")
        check(lib.urma_get_seg_ctx(self.handle, found, size), "urma_get_seg_ctx")
        try:
            return bytes(ffi.buffer(found[0], size[0]))
        finally:
            lib.urma_put_seg_ctx(found[0])


class RemoteSegment(AnySegment):
    """Memory of another process, from Context.import_segment."""

    _end = "urma_unimport_seg"
    remote = True

    def __init__(self, context: Any, descriptor: bytes, token: Optional[int],
                 mapped: bool) -> None:
        seg = ffi.from_buffer(descriptor)
        if len(descriptor) < ffi.sizeof("urma_seg_t"):
            raise ValueError(f"a descriptor of a segment has {ffi.sizeof('urma_seg_t')} bytes or "
                             f"more, not {len(descriptor)}")
        flag = ffi.new("urma_import_seg_flag_t*")
        flag.bs.mapping = mapped
        value = ffi.NULL if token is None else ffi.new("urma_token_t*", [token])
        super().__init__(made(lib.urma_import_seg(context.handle, ffi.cast("urma_seg_t*", seg),
                                                  value, 0, flag.value), "urma_import_seg"),
                         context)

    @property
    def memory(self) -> Optional[memoryview]:
        """The memory itself if it is mapped, for plain loads and stores; else None.

        It must not be used once the segment is closed.
        """
        if self.handle.mva == 0:
            return None
        start = ffi.cast("char*", self.handle.mva)
        return memoryview(ffi.buffer(start, self.length))
