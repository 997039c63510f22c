# SPDX-License-Identifier: MIT
"""Devices, and contexts, from which everything else is made."""

import ipaddress
import os
from typing import Any, List, NamedTuple, Optional, Union

from ._library import (FAIL, Access, EventKind, Handle, Mode, Owner, check, ffi, lib, library, made)
from ._sleep import Sleepers, sleep
from .memory import RemoteSegment, Segment
from .queues import (TYPICAL_ERR_TIMEOUT, TYPICAL_RNR_RETRY, Jetty, Jfc, Jfce, Jfr, Jfs, Target)


class Device:
    """A device, from devices(). It belongs to the library."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.name: str = ffi.string(handle.name).decode()

    def __repr__(self) -> str:
        return f"<urma.Device {self.name}>"

    def eids(self) -> List[ipaddress.IPv6Address]:
        """Its addresses, in order; Device.open takes the index of one."""
        count = ffi.new("uint32_t*")
        entries = made(lib.urma_get_eid_list(self.handle, count), "urma_get_eid_list")
        found = [ipaddress.IPv6Address(bytes(ffi.buffer(entries[i].eid.raw)))
                 for i in range(count[0])]
        lib.urma_free_eid_list(entries)
        return found

    def query(self) -> Any:
        """Its limits and the states of its ports: a urma_device_attr_t."""
        attributes = ffi.new("urma_device_attr_t*")
        check(lib.urma_query_device(self.handle, attributes), "urma_query_device")
        return attributes

    def open(self, eid_index: int = 0) -> "Context":
        return Context(self, eid_index)


def devices() -> List[Device]:
    """The devices of this machine. Starts the library."""
    library.start()
    count = ffi.new("int*")
    found = lib.urma_get_device_list(count)
    names = [Device(found[i]) for i in range(count[0])]
    lib.urma_free_device_list(found)
    return names


def open(name: Optional[str] = None, eid_index: int = 0) -> "Context":
    """Opens a device by its name, else that of URMA_DEVICE, else the first one."""
    name = name or os.environ.get("URMA_DEVICE")
    for device in devices():
        if name in (None, device.name):
            return device.open(eid_index)
    raise LookupError(f"no device {name or 'at all'}; urma_admin show --all lists them")


class Event(NamedTuple):
    """An asynchronous event of a context."""

    kind: EventKind
    number: Optional[int]  # the port or the entry of the EID table that it is about


class Context(Handle, Owner):
    """An open device. Objects made from it end with it, the last one first."""

    _end = "urma_delete_context"

    def __init__(self, device: Device, eid_index: int) -> None:
        Owner.__init__(self)
        Handle.__init__(self, made(lib.urma_create_context(device.handle, eid_index),
                                   "urma_create_context"), library)
        self.device = device
        os.set_blocking(self.handle.async_fd, False)
        self._sleepers = Sleepers(self.handle.async_fd)

    def close(self) -> None:
        self.close_owned()
        super().close()

    def _finish(self) -> None:
        self._sleepers.wake()  # to find it closed
        self._sleepers.leave()
        super()._finish()

    @property
    def eid(self) -> ipaddress.IPv6Address:
        return ipaddress.IPv6Address(bytes(ffi.buffer(self.handle.eid.raw)))

    def create_jfce(self) -> Jfce:
        """An event channel, which any number of completion queues report to."""
        return Jfce(self)

    def create_jfc(self, depth: int = 64, jfce: Optional[Jfce] = None) -> Jfc:
        """A completion queue of `depth` records; with events if it has a `jfce`."""
        return Jfc(self, depth, jfce)

    def create_jfr(self, jfc: Jfc, depth: int = 16, *, mode: Mode = Mode.RM,
                   token: Optional[int] = None, id: int = 0, max_sge: int = 1) -> Jfr:
        """A receive queue. Importers must know its `token`, if it has one."""
        return Jfr(self, jfc, depth, mode, token, id, max_sge)

    def create_jfs(self, jfc: Jfc, depth: int = 16, *, mode: Mode = Mode.RM, max_sge: int = 1,
                   rnr_retry: int = TYPICAL_RNR_RETRY,
                   err_timeout: int = TYPICAL_ERR_TIMEOUT) -> Jfs:
        """A send queue."""
        return Jfs(self, jfc, depth=depth, mode=mode, max_sge=max_sge, rnr_retry=rnr_retry,
                   err_timeout=err_timeout)

    def create_jetty(self, jfc: Jfc, jfr: Jfr, depth: int = 16, *, id: int = 0,
                     mode: Mode = Mode.RM, max_sge: int = 1, rnr_retry: int = TYPICAL_RNR_RETRY,
                     err_timeout: int = TYPICAL_ERR_TIMEOUT) -> Jetty:
        """A send queue that receives through `jfr`. A chosen `id` is well known."""
        return Jetty(self, jfc, jfr, id, depth=depth, mode=mode, max_sge=max_sge,
                     rnr_retry=rnr_retry, err_timeout=err_timeout)

    def register(self, buffer: Any, access: Union[Access, int] = Access.LOCAL_ONLY, *,
                 token: Optional[int] = None) -> Segment:
        """Registers a writable buffer, such as a bytearray, an mmap or an array of numpy.

        Importers must know its `token`, if it has one.
        """
        return Segment(self, buffer, Access(access), token)

    def import_segment(self, descriptor: bytes, token: Optional[int] = None, *,
                       mapped: bool = False) -> RemoteSegment:
        """Makes memory of another process a target; `mapped` also maps it, if possible."""
        return RemoteSegment(self, descriptor, token, mapped)

    def import_queue(self, descriptor: bytes, token: Optional[int] = None) -> Target:
        """Makes a jetty or JFR of another process a target."""
        return Target(self, descriptor, token)

    def import_jetty(self, id: int, eid: Optional[ipaddress.IPv6Address] = None,
                     token: Optional[int] = None, *, mode: Mode = Mode.RM) -> Target:
        """Makes the jetty with a known id a target; its `eid` is ours unless given."""
        remote = ffi.new("urma_rjetty_t*")
        remote.jetty_id.id, remote.trans_mode, remote.type = id, mode, lib.URMA_JETTY
        remote.jetty_id.eid.raw = list((eid or self.eid).packed)
        remote.flag.bs.token_policy = token is not None
        return Target(self, bytes(ffi.buffer(remote)), token)

    def next_event(self, timeout: Optional[float] = None) -> Optional[Event]:
        """Sleeps until an asynchronous event, and takes it; None: none within `timeout` s."""
        sleep(self.handle.async_fd, timeout)
        return self._take_event()

    async def event(self) -> Event:
        """The same in asyncio."""
        while (event := self._take_event()) is None:
            await self._sleepers.sleep()
        return event

    def _take_event(self) -> Optional[Event]:
        event = ffi.new("urma_async_event_t*")
        status = lib.urma_get_async_event(self.handle, event)
        if status == FAIL:
            return None
        check(status, "urma_get_async_event")
        kind = EventKind(event.event_type)
        number: Optional[int] = None
        if kind in (EventKind.PORT_ACTIVE, EventKind.PORT_DOWN):
            number = event.element.port_id
        elif kind == EventKind.EID_CHANGE:
            number = event.element.eid_idx
        lib.urma_ack_async_event(event)
        return Event(kind, number)
