#!/usr/bin/env python3
"""Removes the cable between rxe0 and rxe1 under traffic, and restores it.

usage: link.py URMA_PERFTEST
Runs in a guest. The last line is `N passed, N failed, 0 skipped`.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from steps import run_steps  # pylint: disable=wrong-import-position

NETDEV = 'net0'
PORTS = [pathlib.Path(f'/sys/class/infiniband/{device}/ports/1') for device in ['rxe0', 'rxe1']]
LIMIT_S = 120
POLL_S = 0.05
ROW = re.compile(r'^ 4096 +([1-9]\d*) ', re.M)  # In which something was moved.


def wait_until(condition, what):
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f'not in {LIMIT_S} s: {what}')
        time.sleep(POLL_S)


class Program:
    """A running urma_perftest."""

    def __init__(self, words, timeout_ms):
        self.file = tempfile.NamedTemporaryFile()
        self.process = subprocess.Popen(
            words, stdout=self.file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env=dict(os.environ, URMA_VERBS_TIMEOUT_MS=str(timeout_ms)))

    def text(self):
        return pathlib.Path(self.file.name).read_text(encoding='utf-8')

    def expect_end(self, status):
        got = self.process.wait(LIMIT_S)
        if got != status:
            raise AssertionError(f'ended with {got}, not with {status}')

    def is_running(self):
        return self.process.poll() is None


class Traffic:
    """A client on rxe1 that writes to a server on rxe0; silence is detected after TIMEOUT_MS."""

    def __init__(self, perftest, options, timeout_ms=1000):
        words = [perftest, 'write_bw', '-s', '4096', *options]
        self.server = Program([*words, '-d', 'urma_rxe0'], timeout_ms)
        wait_until(lambda: 'Waiting for client' in self.server.text(), 'the server waits')
        self.client = Program([*words, '-d', 'urma_rxe1', '-S', '127.0.0.1'], timeout_ms)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for name, program in [('server', self.server), ('client', self.client)]:
            program.process.kill()
            program.process.wait()
            if kind:
                print(f'--- {name}\n{program.text()}')

    def wait_for_rows(self, count):
        """Waits until COUNT more periods have moved something."""
        count += len(ROW.findall(self.client.text()))

        def are_there():
            if not self.client.is_running():
                raise AssertionError('the client has ended')
            return len(ROW.findall(self.client.text())) >= count

        wait_until(are_there, f'{count} periods of traffic')


def set_link(state):
    """Sets the link up or down, and waits until both ports have seen it."""
    subprocess.run(['ip', 'link', 'set', NETDEV, state], check=True)
    wanted = 'ACTIVE' if state == 'up' else 'DOWN'
    wait_until(lambda: all(wanted in (port / 'state').read_text() for port in PORTS), wanted)
    if state == 'up':
        wait_until(lambda: all((port / 'gids/0').read_text().startswith('fe80') for port in PORTS),
                   'the addresses are there again')


def run_once(perftest):
    with Traffic(perftest, ['-n', '100', '--verify']) as traffic:
        traffic.client.expect_end(0)
        traffic.server.expect_end(0)


def short_break(perftest):
    """No peer is given up, and requests in flight arrive."""
    with Traffic(perftest, ['-y', '--inf_period_ms', '100'], timeout_ms=60000) as traffic:
        traffic.wait_for_rows(2)
        set_link('down')
        set_link('up')
        traffic.wait_for_rows(3)
        traffic.client.process.send_signal(signal.SIGINT)
        traffic.client.expect_end(0)
        traffic.server.expect_end(0)


def long_break(perftest):
    """Requests end with an error without the cable; after it, a new run is like any other."""
    with Traffic(perftest, ['-y', '--inf_period_ms', '100']) as traffic:
        traffic.wait_for_rows(2)
        set_link('down')
        traffic.client.expect_end(1)
        traffic.server.expect_end(1)
    set_link('up')
    run_once(perftest)


if __name__ == '__main__':
    sys.exit(run_steps([run_once, short_break, long_break], sys.argv[1]))
