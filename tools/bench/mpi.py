#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the libfabric provider beside libfabric's own shm, and Open MPI over it beside Open
MPI's own shared memory, in turns and in one run.

    mpi.py --bin DIR [--rounds N] [--times N]   DIR: bazel-bin, after `bazel build //:all`

Prints medians, and what each is of its counterpart. Needs two free cores, fi_pingpong (Debian's
libfabric-bin) and NPopenmpi (netpipe-openmpi).
"""

import argparse
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile

SMALL, LARGE = 8, 1 << 20


def free_port():
    with socket.socket() as one:
        one.bind(('', 0))
        return str(one.getsockname()[1])


def ping_pong(env, provider, size, times):
    """Returns the microseconds of half a round trip."""
    port = free_port()
    # libfabric lists the layer first, where it is allowed.
    env = dict(env, FI_URMA_RXM='1' if 'rxm' in provider else '0')
    common = ['-p', provider, '-e', 'rdm', '-m', 'tagged', '-S', str(size), '-I', str(times)]
    server = subprocess.Popen(['taskset', '-c', '0', 'fi_pingpong', '-B', port] + common, env=env,
                              stdout=subprocess.DEVNULL)
    try:
        while True:
            client = subprocess.run(
                ['taskset', '-c', '1', 'fi_pingpong', '-P', port] + common + ['127.0.0.1'],
                env=env, capture_output=True, text=True, timeout=120)
            if client.returncode == 0:
                break
            if server.poll() is not None:
                sys.exit(f'fi_pingpong -p {provider} ended with {server.returncode}')
        server.wait(timeout=120)
    finally:
        # One that has ended stays as it is.
        server.kill()
        server.wait()
    # bytes, sent, acknowledged, total, time, MB/sec, usec/xfer, Mxfers/sec
    return float(client.stdout.splitlines()[-1].split()[6])


def net_pipe(env, components, times, folder):
    """Returns the microseconds of half a round trip of 8 bytes, and of 1 MiB."""
    output = pathlib.Path(folder, 'np.out')
    command = ['mpirun.openmpi', '-np', '2', '--bind-to', 'core', '--oversubscribe', *components,
               'NPopenmpi', '-u', str(LARGE), '-n', str(times), '-p', '0', '-o', str(output)]
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=600)
    seconds = {int(line[0]): float(line[2])
               for line in map(str.split, output.read_text().splitlines())}
    return seconds[SMALL] * 1e6, seconds[LARGE] * 1e6


def component_list(text):
    return [word for pair in text.split() for word in ('--mca', *pair.split('='))]


MPI = {
    'ofi, urma': component_list('pml=cm mtl=ofi mtl_ofi_provider_include=urma'),
    'ob1, vader': component_list('pml=ob1 btl=self,vader'),
}


def show(title, times, against):
    print(title)
    for name, (small, large) in times.items():
        first, second = statistics.median(small), statistics.median(large)
        of_small = first / statistics.median(times[against][0])
        of_large = statistics.median(times[against][1]) / second
        print(f'  {name:16} 8 bytes {first:8.2f} us ({of_small:4.2f} of {against}), '
              f'1 MiB {LARGE / second / 1e3:6.2f} GB/s ({of_large:4.2f})')


def main():
    parser = argparse.ArgumentParser(description='measures the libfabric provider')
    parser.add_argument('--bin', required=True)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--times', type=int, default=500000,
                        help='messages of 8 bytes; in few of them, connecting shows')
    options = parser.parse_args()
    # An exception, so that the folder and the programs go too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix='urma-mpi.') as folder:
        env = dict(os.environ, URMA_RUNTIME_DIR=folder, OMPI_ALLOW_RUN_AS_ROOT='1',
                   FI_PROVIDER_PATH=str(pathlib.Path(options.bin).resolve() / 'lib/libfabric'),
                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', OMPI_MCA_plm='isolated')
        fabric = {name: ([], []) for name in ('urma', 'urma;ofi_rxm', 'shm')}
        mpi = {name: ([], []) for name in MPI}
        for _ in range(options.rounds):
            for name, (small, large) in fabric.items():
                small.append(ping_pong(env, name, SMALL, options.times))
                large.append(ping_pong(env, name, LARGE, options.times // 200))
            for name, (small, large) in mpi.items():
                first, second = net_pipe(env, MPI[name], max(1, options.times // 5000), folder)
                small.append(first)
                large.append(second)
    show('fi_pingpong, tagged messages of reliable datagrams', fabric, 'shm')
    show('NetPIPE, Open MPI', mpi, 'ob1, vader')


if __name__ == '__main__':
    main()
