#!/usr/bin/env python3
"""Compares urma_perftest with Debian's perftest, on the two ends of the virtual cable.

usage: compare.py URMA_PERFTEST [ROUNDS]

For the guests of `./dev vm`. In each round both run each test once, one after the other; every
other round begins with perftest. Tests that depend on other load on the machine get three times as
many rounds. Prints a table of medians over the rounds, and of the ratios of each round; for the
minimum of a run, the minimum of all rounds. Exits with 1 if something could not be measured.

There is one processor. If both sides poll, one gets it when the other yields, as urma_perftest
does, or when the kernel takes it away, a tick later. The typical latency of WRITE and SEND shows
that; the minimum is that of messages whose receiver happened to be next, and shows the cost of the
programs and libraries. In the other tests only one side is busy. Debian's ib_send_lat does not
finish with events there.
"""

import ctypes
import math
import mmap
import statistics
import subprocess
import sys
import time

SERVER, CLIENT, HOST = 'rxe0', 'rxe1', '127.0.0.1'
PORT = 18600
LIMIT = 12  # seconds, of one run

# The value to read of a test, and its column, the same for both programs.
LEAST_AND_TYPICAL = [('least', 2), ('typical', 4)]
TYPICAL = [('typical', 4)]
AVERAGE = [('average', 3)]
LATENCY = ('us', 1.10)  # unit, target
BANDWIDTH = ('MiB/s', 0.95)

# Name, our test, the test of perftest, the options of both, the value read, unit and target, and
# the factor of rounds.
ROWS = [
    ('write latency, 8 B', 'write_lat', 'ib_write_lat', '-s 8 -n 2000', LEAST_AND_TYPICAL, LATENCY,
     1),
    ('send latency, 8 B', 'send_lat', 'ib_send_lat', '-s 8 -n 2000', LEAST_AND_TYPICAL, LATENCY, 1),
    ('fetch-add latency, 8 B', 'atomic_lat', 'ib_atomic_lat', '-n 20000', TYPICAL, LATENCY, 3),
    ('write bandwidth, 64 KiB', 'write_bw', 'ib_write_bw', '-s 65536 -n 5000 -Q 100', AVERAGE,
     BANDWIDTH, 1),
    ('write bandwidth, 4 KiB', 'write_bw', 'ib_write_bw', '-s 4096 -n 20000 -Q 100', AVERAGE,
     BANDWIDTH, 1),
]
OURS_ONLY = {'atomic_lat': '-A faa'}
THEIRS_ONLY = {'ib_atomic_lat': '-A FETCH_AND_ADD'}


def cycles_per_us():
    """Of the counter that perftest reads."""
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex('0f31 48c1e220 4809d0 c3'))  # rdtsc; rax = rdx << 32 | rax; ret
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    cycles, begin = read(), time.monotonic_ns()
    time.sleep(0.5)
    return (read() - cycles) * 1000 / (time.monotonic_ns() - begin)


def tell_frequency(frequency):
    """perftest reads it from /proc/cpuinfo, where User Mode Linux has none."""
    with open('/proc/cpuinfo', encoding='ascii') as known:
        text = known.read()
    if 'cpu MHz' in text:
        return
    with open('/tmp/cpuinfo', 'w', encoding='ascii') as told:
        told.write(text.replace('processor', f'cpu MHz : {frequency:.3f}\nprocessor'))
    subprocess.run(['mount', '--bind', '/tmp/cpuinfo', '/proc/cpuinfo'], check=True)


def listens(port):
    with open('/proc/net/tcp', encoding='ascii') as table:
        with open('/proc/net/tcp6', encoding='ascii') as more:
            lines = table.readlines() + more.readlines()
    return any(f':{port:04X} ' in line and ' 0A ' in line for line in lines)


def run(server, client, port, columns):
    """The numbers in these columns of the only row that the client prints; None if it fails."""
    with subprocess.Popen(server, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as other:
        deadline = time.monotonic() + LIMIT
        while not listens(port) and other.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        try:
            done = subprocess.run(client, capture_output=True, text=True, timeout=LIMIT,
                                  check=False)
            other.wait(timeout=10)
        except subprocess.TimeoutExpired:
            print(f'compare: {" ".join(client)} does not end', file=sys.stderr)
            return None
        finally:
            other.kill()
    rows = [line.split() for line in done.stdout.splitlines()]
    numbers = [row for row in rows
               if len(row) > max(columns) and row[0].isdigit() and row[1].isdigit()]
    if done.returncode == 0 and numbers:
        values = [float(numbers[-1][column]) for column in columns]
        # perftest prints infinity or 0 if its measurement of the frequency was disturbed.
        if all(math.isfinite(value) and value > 0 for value in values):
            return values
    print(f'compare: {" ".join(client)} ends with {done.returncode}\n{done.stdout}{done.stderr}',
          file=sys.stderr)
    return None


def commands(program, row, frequency):
    """Runs of urma_perftest and of perftest. The latter's own measurement of the frequency is often
    disturbed, so it reports latencies in cycles."""
    _, ours, theirs, options, figures, kind, _ = row
    columns = [column for _, column in figures]
    our_options = f'{options} {OURS_ONLY.get(ours, "")}'.split()
    in_cycles = kind == LATENCY
    their_options = f'{options} {THEIRS_ONLY.get(theirs, "")} -F -x 0'.split()
    their_options += ['-C'] if in_cycles else []

    def our_run(port):
        common = [program, ours, *our_options, '-P', str(port), '-d']
        return run([*common, f'urma_{SERVER}'], [*common, f'urma_{CLIENT}', '-S', HOST], port,
                   columns)

    def their_run(port):
        common = [theirs, *their_options, '-p', str(port), '-d']
        values = run([*common, SERVER], [*common, CLIENT, HOST], port, columns)
        return [value / frequency for value in values] if in_cycles and values else values

    return our_run, their_run


def measure(program, rounds):
    frequency = cycles_per_us()
    tell_frequency(frequency)
    values = [([], []) for _ in ROWS]
    port = PORT
    for number in range(rounds * max(row[-1] for row in ROWS)):
        for row, (ours, theirs) in zip(ROWS, values):
            if number >= rounds * row[-1]:
                continue
            turns = list(zip(commands(program, row, frequency), (ours, theirs)))
            for turn, into in turns if number % 2 == 0 else reversed(turns):
                port += 1
                found = turn(port)
                if found is None and into is theirs:  # Not for us to fix.
                    found = turn(port + 500) or turn(port + 1000)
                into.append(found)
    return values


def print_row(name, which, ours, theirs, unit, target):
    if which == 'least':
        ours, theirs = [min(ours)], [min(theirs)]
    ratio = statistics.median(a / b for a, b in zip(ours, theirs))
    is_time = (unit, target) == LATENCY
    reached = ratio <= target if is_time else ratio >= target
    print(f'| {name}, {which} | {statistics.median(ours):.2f} {unit} | '
          f'{statistics.median(theirs):.2f} {unit} | {ratio:.2f} | '
          f'{"<=" if is_time else ">="} {target:.2f} | {"yes" if reached else "no"} |')


def main():
    program = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    complete = True
    print('| figure | ours | perftest | ratio | target | ok? |')
    print('|---|---|---|---|---|---|')
    for row, (ours, theirs) in zip(ROWS, measure(program, rounds)):
        name, _, _, _, figures, kind, _ = row
        if None in ours or None in theirs:
            print(f'| {name} | not measured | | | | |')
            complete = False
            continue
        for (which, _), a, b in zip(figures, zip(*ours), zip(*theirs)):
            print_row(name, which, a, b, *kind)
    return 0 if complete else 1


if __name__ == '__main__':
    sys.exit(main())
