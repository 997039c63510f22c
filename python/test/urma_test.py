# SPDX-License-Identifier: MIT
"""The binding, within one process where one is enough."""

import asyncio
import concurrent.futures
import errno
import gc
import math
import mmap
import os
import subprocess
import sys
import threading
import unittest
import weakref

import urma

LONG = 60  # seconds; nothing here takes that long
SHARED = urma.Access.READ | urma.Access.WRITE | urma.Access.ATOMIC


def run(code):
    """Runs a program of its own; returns its exit status, and what it printed."""
    done = subprocess.run([sys.executable, "-c", code], timeout=LONG, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


class Case(unittest.TestCase):
    """A jetty that reaches itself, and memory for it."""

    def setUp(self):
        self.context = self.enterContext(urma.open())
        self.events = self.context.create_jfce()
        self.sent = self.context.create_jfc()
        self.arrived = self.context.create_jfc(jfce=self.events)
        self.jfr = self.context.create_jfr(self.arrived)
        self.jetty = self.context.create_jetty(self.sent, self.jfr, max_sge=4)
        self.target = self.context.import_queue(self.jetty.descriptor)
        self.memory = bytearray(4096)
        self.segment = self.context.register(self.memory)

    def remote(self, size=4096, **options):
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        segment = self.context.register(memory, SHARED)
        return memory, self.context.import_segment(segment.descriptor, **options)


class Devices(Case):
    def test_devices_have_names_and_addresses(self):
        devices = {device.name: device for device in urma.devices()}
        self.assertIn("urma_shm0", devices)
        self.assertIn(self.context.eid, self.context.device.eids())
        self.assertGreater(devices["urma_shm0"].query().dev_cap.max_jfc_depth, 64)

    def test_an_unknown_device_is_named(self):
        with self.assertRaisesRegex(LookupError, "no device urma_none0"):
            urma.open("urma_none0")

    def test_a_context_ends_its_objects(self):
        context = urma.open()
        jfc = context.create_jfc()
        segment = context.register(bytearray(64))
        context.close()
        for ended in (context, jfc, segment):
            self.assertEqual(ended.handle, urma.ffi.NULL)
            ended.close()

    def test_the_library_starts_again(self):
        self.assertEqual(run("""
import urma
urma.open().create_jfc()
urma.library.close()
urma.open().create_jfc()
"""), (0, ""))


class Exit(unittest.TestCase):
    """The end of a program that closes nothing."""

    maxDiff = None

    def test_a_program_ends_its_objects(self):
        self.assertEqual(run("""
import atexit, urma
atexit.register(lambda: print(jfc.handle == urma.ffi.NULL))  # runs after what urma registers
jfc = urma.open().create_jfc()
"""), (0, "True\n"))

    def test_daemon_threads_keep_all_objects(self):
        for work in ("serve", "threading.Event().wait"):
            with self.subTest(work):
                self.assertEqual(run(f"""
import atexit, os, threading, urma

class Buffer(bytearray):
    def __del__(self, write=os.write):
        write(1, b"freed")

def serve():
    while True:
        jfc.poll()

atexit.register(lambda: print(jfc.poll(), flush=True))  # runs after what urma registers
context = urma.open()
context.register(Buffer(64))
jfc = context.create_jfc()
threading.Thread(target={work}, daemon=True).start()
"""), (0, "[]\n"))

    def test_a_forked_child_leaves_the_objects_to_its_parent(self):
        self.assertEqual(run("""
import os, sys, urma
with urma.open() as context:
    jfc = context.create_jfc()
    pair = []
    for _ in range(2):
        jfr = context.create_jfr(jfc, mode=urma.Mode.RC)
        pair.append(context.create_jetty(jfc, jfr, mode=urma.Mode.RC))
    pair[0].bind(context.import_queue(pair[1].descriptor))
    segment = context.register(bytearray(64))
    for end in (lambda: None, jfc.close, context.close, urma.library.close):
        child = os.fork()
        if child == 0:
            end()
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
    assert jfc.poll() == [] and len(segment.descriptor) > 0
"""), (0, ""))

    def test_a_forked_child_cannot_start_the_library_again(self):
        status, output = run("""
import os, sys, urma
context = urma.open()
child = os.fork()
if child == 0:
    try:
        urma.open()
    except urma.Error as error:
        print(error)
        sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
""")
        self.assertEqual(status, 0, output)
        self.assertIn("urma_init", output)


class Messages(Case):
    def exchange(self, data, **options):
        self.jetty.receive(self.segment, user_ctx=7)
        self.jetty.send(data, self.target, user_ctx=8, **options)
        sent, arrived = self.sent.wait(LONG), self.arrived.wait(LONG)
        self.assertEqual((sent.user_ctx, sent.received), (8, False))
        self.assertEqual((arrived.user_ctx, arrived.received), (7, True))
        self.assertEqual(arrived.sender, self.jetty.id[1])
        self.assertEqual(arrived.queue, self.jetty.id[1])
        return arrived

    def test_bytes_are_copied_at_once(self):
        self.assertEqual(self.exchange(b"hello").length, 5)
        self.assertEqual(self.memory[:5], b"hello")
        self.assertEqual(self.exchange(memoryview(b"a view")).length, 6)
        self.assertEqual(self.exchange(b"").length, 0)
        with self.assertRaisesRegex(ValueError, "exceed max_inline"):
            self.jetty.send(bytes(self.jetty.max_inline + 1), self.target)

    def test_a_buffer_that_was_copied_may_grow(self):
        source, (_, there) = bytearray(b"hi"), self.remote()
        self.exchange(source)
        source += b"x"
        self.jetty.write(source, there[:3], self.target)
        self.sent.wait(LONG)
        source += b"x"

    def test_pieces_are_gathered(self):
        source = bytearray(b"onetwothree")
        with self.context.register(source) as segment:
            arrived = self.exchange([segment[6:], segment[:3], segment[3:6]])
            self.assertEqual(self.memory[:arrived.length], b"threeonetwo")
            self.exchange(segment)
        self.assertEqual(self.memory[:11], source)

    def test_immediate_data_arrives(self):
        self.assertEqual(self.exchange(b"x", immediate=1 << 63).immediate, 1 << 63)
        self.assertIsNone(self.exchange(b"x").immediate)

    def test_an_unsignalled_request_leaves_no_completion(self):
        self.jetty.receive(self.segment)
        self.jetty.send(b"quiet", self.target, flags=0)
        self.arrived.wait(LONG)
        self.assertEqual(self.sent.poll(), [])

    def test_a_jfs_reaches_a_jfr(self):
        jfs = self.context.create_jfs(self.sent)
        target = self.context.import_queue(self.jfr.descriptor)
        self.jfr.receive(self.segment)
        jfs.send(b"plain", target)
        self.assertEqual(self.arrived.wait(LONG).length, 5)

    def test_jetties_are_bound_in_mode_rc(self):
        pair = []
        for _ in range(2):
            jfr = self.context.create_jfr(self.arrived, mode=urma.Mode.RC)
            pair.append(self.context.create_jetty(self.sent, jfr, mode=urma.Mode.RC))
        for mine, other in (pair, pair[::-1]):
            mine.bind(self.context.import_queue(other.descriptor))
        pair[1].receive(self.segment)
        pair[0].send(b"bound")
        self.assertEqual(self.arrived.wait(LONG).length, 5)
        for jetty in pair:
            jetty.unbind()

    def test_a_context_ends_bound_jetties(self):
        with urma.open() as context:
            jfc = context.create_jfc()
            jfr = context.create_jfr(jfc, mode=urma.Mode.RC)
            first, second = (context.create_jetty(jfc, jfr, mode=urma.Mode.RC) for _ in range(2))
            targets = [context.import_queue(jetty.descriptor) for jetty in (first, second)]
            first.bind(targets[1])
            second.bind(targets[0])
            with self.assertRaises(urma.Error):
                targets[1].close()
        for ended in (context, first, second, *targets):
            self.assertEqual(ended.handle, urma.ffi.NULL)

    def test_a_queue_in_error_flushes_its_requests(self):
        self.assertEqual(self.jetty.state, urma.State.READY)
        self.jetty.state = urma.State.ERROR
        self.assertEqual(self.jetty.state, urma.State.ERROR)
        self.jetty.send(b"x", self.target)
        found = []
        while not found:
            found = [c for c in self.sent.poll() if c.status == urma.Status.WR_FLUSH_ERR]

    def test_threads_share_a_queue(self):
        arrived = self.context.create_jfc(400)
        jfr = self.context.create_jfr(arrived, 400)
        jetty = self.context.create_jetty(self.sent, jfr, 400)
        target = self.context.import_queue(jetty.descriptor)
        places = [self.segment[i * 8:i * 8 + 8] for i in range(400)]

        def work(first):
            for i in range(first, first + 100):
                jetty.receive(places[i])
                jetty.send(i.to_bytes(8, "little"), target, flags=0)

        threads = [threading.Thread(target=work, args=(n * 100,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(400):
            arrived.wait(LONG)
        for thread in threads:
            thread.join()
        numbers = sorted(int.from_bytes(self.memory[i * 8:i * 8 + 8], "little")
                         for i in range(400))
        self.assertEqual(numbers, list(range(400)))


class Memory(Case):
    def do(self, post, *arguments):
        post(*arguments, self.target)
        return self.sent.wait(LONG)

    def test_writes_and_reads(self):
        memory, there = self.remote()
        self.memory[:5] = b"hello"
        self.assertEqual(self.do(self.jetty.write, self.segment[:5], there[64:]).length, 5)
        self.assertEqual(memory[64:69], b"hello")
        self.do(self.jetty.write, b"inline", there[:6])
        self.do(self.jetty.read, there[:6], self.segment[8:14])
        self.assertEqual(self.memory[8:14], b"inline")
        self.do(self.jetty.read, there[:4], [self.segment[2:4], self.segment[:2]])
        self.assertEqual(self.memory[:4], b"liin")

    def test_a_write_with_immediate_data_notifies_the_owner(self):
        memory, there = self.remote()
        self.jetty.receive(self.segment)
        self.jetty.write(b"data", there[:4], self.target, immediate=5)
        self.assertEqual(self.arrived.wait(LONG).immediate, 5)
        self.assertEqual(memory[:4], b"data")

    def test_atomics_return_the_old_value(self):
        memory, there = self.remote()
        number = lambda place: int.from_bytes(place[:8], "little")
        self.do(self.jetty.fetch_add, there[:8], self.segment[:8], 5)
        self.do(self.jetty.fetch_add, there[:8], self.segment[:8], 5)
        self.assertEqual((number(memory), number(self.memory)), (10, 5))
        self.do(self.jetty.compare_swap, there[:8], self.segment[:8], 9, 1)
        self.assertEqual((number(memory), number(self.memory)), (10, 10))
        self.do(self.jetty.compare_swap, there[:8], self.segment[:8], 10, 1 << 63)
        self.assertEqual(number(memory), 1 << 63)

    def test_a_mapped_segment_is_memory(self):
        size = 1 << 16
        memory, there = self.remote(size, mapped=True)
        view = there.memory
        if view is None:
            self.skipTest("needs memory that can be mapped (userfaultfd, Linux 6.8)")
        self.assertEqual(len(view), size)
        view[:5] = b"store"
        self.assertEqual(memory[:5], b"store")
        view.release()
        _, there = self.remote(size)
        self.assertIsNone(there.memory)

    def test_arrays_of_numpy_are_not_copied(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        _, there = self.remote(1 << 16)
        source = numpy.arange(1000, dtype=numpy.float64)
        back = numpy.zeros_like(source)
        self.do(self.jetty.write, self.context.register(source), there[:source.nbytes])
        self.do(self.jetty.read, there[:source.nbytes], self.context.register(back))
        self.assertTrue((source == back).all())
        with self.assertRaises((ValueError, BufferError)):
            self.context.register(source[::2])

    def test_a_segment_keeps_its_buffer(self):
        class Buffer(bytearray):
            pass

        memory = Buffer(64)
        alive = weakref.ref(memory)
        segment = self.context.register(memory)
        with self.assertRaises(BufferError):
            memory.extend(b"more")
        del memory
        gc.collect()
        self.assertIsNotNone(alive())
        segment.close()
        gc.collect()
        self.assertIsNone(alive())

    def test_a_closed_segment_is_refused(self):
        _, there = self.remote()
        piece, far = self.segment[:8], there[:8]
        self.segment.close()
        for post in (lambda: self.jetty.receive(piece), lambda: self.jetty.send(piece, self.target),
                     lambda: self.jetty.receive(self.segment)):
            with self.assertRaisesRegex(ValueError, "the segment is closed"):
                post()
        there.close()
        with self.assertRaisesRegex(ValueError, "the segment is closed"):
            self.jetty.write(b"x", far, self.target)

    def test_read_only_memory_is_refused(self):
        with self.assertRaises(BufferError):
            self.context.register(b"bytes")

    def test_local_and_remote_segments_are_not_mixed_up(self):
        _, there = self.remote()
        with self.assertRaisesRegex(TypeError, "imported segment in place of a local one"):
            self.jetty.write(there[:8], there[:8], self.target)
        with self.assertRaisesRegex(TypeError, "registered segment in place of an imported one"):
            self.jetty.read(self.segment[:8], self.segment[:8], self.target)
        with self.assertRaisesRegex(ValueError, "first <= end"):
            self.segment[0:8:2]


class Errors(Case):
    def test_a_failed_call_raises_its_status(self):
        with self.assertRaises(urma.Error) as caught:
            self.context.create_jfc(0)
        self.assertEqual(caught.exception.errno, errno.EINVAL)
        self.assertIn("urma_create_jfc: invalid argument, or not supported", str(caught.exception))
        with self.assertRaises(urma.Error) as caught:
            for _ in range(1000):
                self.jfr.receive(self.segment)
        self.assertEqual(caught.exception.errno, errno.ENOMEM)

    def test_an_object_in_use_is_not_closed(self):
        with self.assertRaises(urma.Error):
            self.arrived.close()
        self.jetty.receive(self.segment)
        self.jetty.send(b"x", self.target)
        self.arrived.wait(LONG)

    def test_a_failed_request_raises_its_status(self):
        memory = bytearray(64)
        segment = self.context.register(memory, SHARED, token=1234)
        there = self.context.import_segment(segment.descriptor, 4321)
        self.jetty.write(b"x", there[:1], self.target, user_ctx=5)
        with self.assertRaisesRegex(urma.RequestError, "remote access refused") as caught:
            self.sent.wait(LONG)
        self.assertEqual(caught.exception.status, urma.Status.REM_ACCESS_ABORT_ERR)
        self.assertEqual(caught.exception.completion.user_ctx, 5)

    def test_a_wait_ends_in_time(self):
        with self.assertRaises(TimeoutError):
            self.sent.wait(0)

    def test_a_descriptor_names_no_local_queue(self):
        with urma.open("bonding_dev_0") as context:
            jfc = context.create_jfc()
            jetty = context.create_jetty(jfc, context.create_jfr(jfc))
            descriptor = bytearray(jetty.descriptor[:urma.ffi.sizeof("urma_rjetty_t")])
            remote = urma.ffi.cast("urma_rjetty_t*", urma.ffi.from_buffer(descriptor))
            remote.flag.bs.has_drv_ext = 1
            number = int(urma.ffi.cast("uintptr_t", jetty.handle)).to_bytes(8, sys.byteorder)
            descriptor = bytes(descriptor) + bytes(-len(descriptor) % 8) + 256 * number
            target = context.import_queue(descriptor)
            self.assertEqual(jetty.handle.remote_jetty, urma.ffi.NULL)
            target.close()

    def test_a_short_descriptor_is_refused(self):
        with self.assertRaisesRegex(ValueError, "a descriptor of a queue has"):
            self.context.import_queue(b"short")
        with self.assertRaisesRegex(ValueError, "a descriptor of a segment has"):
            self.context.import_segment(b"short")


class Events(Case):
    def test_a_channel_names_the_queue_with_completions(self):
        self.arrived.arm()
        self.assertEqual(self.events.wait(0), [])
        self.jetty.receive(self.segment)
        self.jetty.send(b"x", self.target)
        self.assertEqual(self.events.wait(LONG), [self.arrived])
        self.assertEqual(len(self.arrived.poll()), 1)

    def test_a_timeout_is_any_number(self):
        for timeout in (-5, -0.001, -math.inf):
            with self.assertRaises(TimeoutError):
                self.sent.wait(timeout)
            self.assertEqual(self.events.wait(timeout), [])
            self.assertIsNone(self.context.next_event(timeout))
        for timeout in (1e9, 1e308, math.inf):
            self.arrived.arm()
            self.jetty.receive(self.segment)
            self.jetty.send(b"x", self.target)
            self.assertEqual(self.events.wait(timeout), [self.arrived])
            for jfc in (self.sent, self.arrived):
                self.assertEqual(jfc.wait(timeout).length, 1)
        for wait in (self.sent.wait, self.events.wait, self.context.next_event):
            with self.assertRaises(ValueError):
                wait(math.nan)

    def test_asyncio_sleeps_until_a_completion_arrives(self):
        async def main():
            waiting = asyncio.ensure_future(self.arrived.arrived())
            await asyncio.sleep(0)
            self.assertFalse(waiting.done())
            self.jetty.receive(self.segment)
            self.jetty.send(b"one", self.target)
            self.assertEqual([c.length for c in await waiting], [3])

        for _ in range(2):  # each in a loop of its own
            asyncio.run(asyncio.wait_for(main(), LONG))

    def test_a_cancelled_task_takes_no_completion(self):
        async def main():
            for _ in range(3):
                waiting = asyncio.ensure_future(self.arrived.arrived())
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
            self.jetty.receive(self.segment)
            self.jetty.send(b"one", self.target)
            async for completion in self.arrived:
                self.assertEqual(completion.length, 3)
                break

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_leaving_a_loop_over_completions_loses_none(self):
        async def main():
            for i in range(4):
                self.jetty.receive(self.segment, user_ctx=i)
                self.jetty.send(b"x", self.target)
            for i in range(4):
                async for completion in self.arrived:
                    self.assertEqual(completion.user_ctx, i)
                    break

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_a_cancelled_task_leaves_nothing(self):
        def futures():
            gc.collect()
            return sum(isinstance(found, asyncio.Future) for found in gc.get_objects())

        async def main(sleeper):
            counts = []
            for _ in range(10):
                waiting = asyncio.ensure_future(sleeper())
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait([waiting])
                counts.append(futures())
            self.assertEqual(counts[1:], counts[:-1])

        for sleeper in (self.arrived.arrived, self.context.event):
            asyncio.run(asyncio.wait_for(main(sleeper), LONG))

    def test_each_event_loop_sleeps_at_a_shared_channel(self):
        second = self.context.create_jfc(jfce=self.events)
        jetty = self.context.create_jetty(self.sent, self.context.create_jfr(second))
        target = self.context.import_queue(jetty.descriptor)
        asleep = threading.Semaphore(0)

        async def main(jfc):
            waiting = asyncio.ensure_future(jfc.arrived())
            await asyncio.sleep(0)
            asleep.release()
            return await asyncio.wait_for(waiting, LONG)

        with concurrent.futures.ThreadPoolExecutor() as threads:
            found = []
            for jfc in (self.arrived, second):
                found.append(threads.submit(lambda jfc=jfc: asyncio.run(main(jfc))))
                asleep.acquire()
            for sender, target in ((self.jetty, self.target), (jetty, target)):
                sender.receive(self.segment)
                sender.send(b"x", target)
            for one in found:
                self.assertEqual(len(one.result()), 1)

    def test_a_wait_in_between_wakes_the_task(self):
        async def main():
            waiting = asyncio.ensure_future(self.arrived.arrived())
            await asyncio.sleep(0)
            self.jetty.receive(self.segment)
            self.jetty.send(b"x", self.target)
            self.assertEqual(self.events.wait(LONG), [self.arrived])
            self.assertEqual(len(await waiting), 1)

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_a_task_outlives_a_failed_close(self):
        async def main():
            waiting = asyncio.ensure_future(self.arrived.arrived())
            await asyncio.sleep(0)
            with self.assertRaises(urma.Error):
                self.events.close()
            self.jetty.receive(self.segment)
            self.jetty.send(b"x", self.target)
            self.assertEqual(len(await waiting), 1)

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_a_task_learns_that_its_object_was_closed(self):
        async def main():
            context = urma.open()
            events = self.context.create_jfce()
            jfc = self.context.create_jfc(jfce=events)
            descriptors = context.handle.async_fd, events.fileno()
            for sleeper, closed in ((context.event, context), (jfc.arrived, jfc)):
                waiting = asyncio.ensure_future(sleeper())
                await asyncio.sleep(0)
                closed.close()
                with self.assertRaises(urma.Error):
                    await waiting
            events.close()
            for descriptor in descriptors:  # not watched any more
                self.assertFalse(asyncio.get_running_loop().remove_reader(descriptor))

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_a_queue_without_a_channel_cannot_be_awaited(self):
        with self.assertRaisesRegex(ValueError, "without a jfce"):
            asyncio.run(self.sent.arrived())

    def test_each_task_gets_an_event_of_the_device(self):
        limit = urma.ffi.new("urma_jfr_attr_t*")
        limit.mask, limit.rx_threshold = urma.lib.JFR_RX_THRESHOLD, 1

        async def main():
            waiting = {asyncio.ensure_future(self.context.event()) for _ in range(3)}
            await asyncio.sleep(0)
            while waiting:
                self.jetty.receive(self.segment)
                self.assertEqual(urma.lib.urma_modify_jfr(self.jfr.handle, limit), 0)
                self.jetty.send(b"x", self.target)
                self.arrived.wait(LONG)
                done, waiting = await asyncio.wait(waiting, return_when="FIRST_COMPLETED")
                self.assertEqual([one.result() for one in done],
                                 [(urma.EventKind.JFR_LIMIT, None)])

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_events_of_the_device_are_reported(self):
        code = """
import asyncio, urma
context = urma.open()
event = context.next_event(60)
assert event == (urma.EventKind.PORT_DOWN, 0), event
event = asyncio.run(asyncio.wait_for(context.event(), 60))
assert event == (urma.EventKind.PORT_ACTIVE, 0), event
assert context.next_event(0) is None
"""
        subprocess.run([sys.executable, "-c", code], timeout=2 * LONG, check=True,
                       env={**os.environ, "URMA_FAULT": "port:at=0,for=10"})


if __name__ == "__main__":
    unittest.main()
