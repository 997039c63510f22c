#!/usr/bin/env python3
"""Denies a program resources of the kernel, and checks what it reports.

usage: refusals.py URMA_ADMIN URMA_PERFTEST
Runs in a guest, as root. The last line is `N passed, N failed, 0 skipped`.
"""

import pathlib
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from steps import run_steps  # pylint: disable=wrong-import-position

LIMIT_S = 60
BYTES = 1 << 20  # Of the memory that urma_perftest registers, at least.


def without(capabilities, *command):
    """COMMAND, run by a root who lacks CAPABILITIES."""
    bounding = ','.join(f'-{capability}' for capability in capabilities)
    return ['setpriv', f'--bounding-set={bounding}', *map(str, command)]


def run(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False)
    print(result.stdout)
    return result


def expect(text, *words):
    for word in words:
        if not any(word in line for line in text.splitlines()):
            raise AssertionError(f'no line has {word!r}')


def devices_that_may_not_be_opened(admin, _):
    """Then this provider has none, without messages, and urma_admin says why."""
    files = list(pathlib.Path('/dev/infiniband').glob('uverbs*'))
    modes = {file: file.stat().st_mode & 0o777 for file in files}
    if not files:
        raise AssertionError('there are no device files')
    try:
        for file in files:
            file.chmod(0)
        told = run(without(['dac_override', 'dac_read_search'], admin, 'show', 'providers'))
        expect(told.stdout, '/dev/infiniband/uverbs* cannot be opened; give this user read and '
                            'write access')
        shown = run(without(['dac_override', 'dac_read_search'], admin, 'show', '--all'))
        expect(shown.stdout, 'urma_shm0')
        for noise in ['urma_rxe', 'urma_siw', 'libibverbs', 'WARN']:
            if noise in shown.stdout:
                raise AssertionError(f'{noise} is there')
        if (told.returncode, shown.returncode) != (0, 0):
            raise AssertionError('urma_admin fails')
    finally:
        for file, mode in modes.items():
            file.chmod(mode)
    expect(run([admin, 'show']).stdout, 'urma_rxe2')


def memory_that_may_not_be_locked(_, perftest):
    """A registration beyond the limit fails at once, and names the limit."""
    words = [perftest, 'write_bw', '-n', '10', '-s', str(BYTES), '-d', 'urma_rxe2']
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL) as server:
        try:
            for line in server.stdout:
                if 'Waiting for client' in line:
                    break
            begin = time.monotonic()
            client = run(['prlimit', f'--memlock={BYTES // 4}',
                          *without(['ipc_lock'], *words, '-S', '127.0.0.1')])
        finally:
            server.kill()
    if client.returncode == 0 or time.monotonic() - begin > LIMIT_S / 2:
        raise AssertionError(f'ended with {client.returncode}')
    expect(client.stdout, f'`ulimit -l` allows {BYTES // 4} bytes: raise it')


if __name__ == '__main__':
    sys.exit(run_steps([devices_that_may_not_be_opened, memory_that_may_not_be_locked],
                       *sys.argv[1:3]))
