#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What a write of 8 bytes and the poll of its completion cost in Python, and in C.

    cost.py HEADER_FOLDER LIBRARY_FOLDER [RUNS] [WRITES]

Least processor time of RUNS, so that what else runs on the machine counts as little as it can.
"""

import mmap
import pathlib
import subprocess
import sys
import tempfile
import time

import urma

ACCESS = urma.Access.READ | urma.Access.WRITE


def least(action, runs: int, times: int) -> float:
    """The least processor time of an action, in ns."""
    found = []
    for _ in range(runs):
        start = time.process_time_ns()
        for _ in range(times):
            action()
        found.append((time.process_time_ns() - start) / times)
    return min(found)


def in_c(headers: str, libraries: str, runs: int, times: int) -> float:
    source = pathlib.Path(__file__).with_suffix(".c")
    with tempfile.TemporaryDirectory() as work:
        program = f"{work}/cost"
        subprocess.run(["cc", "-std=gnu11", "-O2", f"-I{headers}", "-o", program, source,
                        f"-L{libraries}", "-l:liburma.so.0"], check=True)
        done = subprocess.run([program, str(runs), str(times)], check=True, capture_output=True)
        return float(done.stdout)


def main() -> None:
    headers, libraries, *numbers = sys.argv[1:]
    runs, times = [int(number) for number in numbers] or (7, 20000)
    with urma.open("urma_shm0") as context:
        jfc = context.create_jfc()
        jetty = context.create_jetty(jfc, context.create_jfr(jfc))
        target = context.import_queue(jetty.descriptor)
        memory = mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        segment = context.register(memory, ACCESS)
        source, place = segment[:8], context.import_segment(segment.descriptor)[4096:4104]

        def write_and_poll():
            jetty.write(source, place, target)
            while not jfc.poll(1):
                pass

        python = least(write_and_poll, runs, times)
        # The two calls alone, with the request that is there.
        request, bad = jetty._spare_sends[0].request, jetty._spare_sends[0].bad
        records = urma.ffi.new("urma_cr_t*")

        def call():
            urma.lib.urma_post_jetty_send_wr(jetty.handle, request, bad)
            while urma.lib.urma_poll_jfc(jfc.handle, 1, records) == 0:
                pass

        calls = least(call, runs, times)
    c = in_c(headers, libraries, runs, times)
    print(f"C {c:.0f} ns, Python {python:.0f} ns ({python / c:.0f} times that), "
          f"of which two calls of cffi {calls:.0f} ns")


if __name__ == "__main__":
    main()
