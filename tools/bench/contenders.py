# SPDX-License-Identifier: MIT
"""The compared tools: their command lines, and the place of their figures."""

import csv
import dataclasses
import enum
import json
import os

from pairs import Pair, RunFailed

MEGABYTE = 1 << 20


class Unit(enum.Enum):
    TIME = 'time'            # nanoseconds; less is better
    RATE = 'rate'            # messages per second
    BANDWIDTH = 'bandwidth'  # bytes per second


@dataclasses.dataclass(frozen=True)
class Ours:
    """A test of urma_perftest, without the common options."""
    test: str
    arguments: tuple[str, ...]
    rank: float = 50.0  # of the percentile
    network: bool = False
    lock_free: bool = False

    def pair(self, binary: str, device: str) -> Pair:
        common = ('-d', 'urma_net0' if self.network else device, '-P', '{port}', '--format', 'json',
                  *(('-L',) if self.lock_free else ()), *self.arguments)
        return Pair((binary, self.test, '--bind_ip', '127.0.0.1', *common),
                    (binary, self.test, '-S', '127.0.0.1', *common),
                    {'URMA_TCP_DEVICES': 'lo'} if self.network else {})


@dataclasses.dataclass(frozen=True)
class Ucx:
    """A test of ucx_perftest over one transport."""
    test: str
    transport: str  # 'posix', 'sysv' or 'tcp'
    arguments: tuple[str, ...]
    layout: str = ''    # UCT only
    rank: float = 50.0  # of the percentile

    @property
    def is_uct(self) -> bool:
        return self.layout != ''

    @property
    def label(self) -> str:
        return ' '.join(filter(None, (self.test, self.transport, self.layout)))

    def pair(self) -> Pair:
        server = ('ucx_perftest', '-p', '{port}')
        client = ('ucx_perftest', '127.0.0.1', '-p', '{port}', '-t', self.test, '-f', '-v',
                  '-R', f'{self.rank:g}', *self.arguments)
        if self.is_uct:
            return Pair(server, client + ('-d', 'memory', '-x', self.transport, '-D', self.layout))
        if self.transport == 'tcp':
            return Pair(server, client, {'UCX_TLS': 'tcp,self', 'UCX_NET_DEVICES': 'lo'})
        # cma carries the large messages; without it they are copied twice.
        return Pair(server, client, {'UCX_TLS': f'{self.transport},cma,self'})

    def figure(self, output: str, unit: Unit) -> float:
        return ucx_figure(output, unit)


@dataclasses.dataclass(frozen=True)
class Libfabric:
    """fi_pingpong over one provider: messages of one size, there and back."""
    provider: str
    size: int
    iterations: int

    @property
    def label(self) -> str:
        return f'fi_pingpong {self.provider}'

    def pair(self) -> Pair:
        common = ('fi_pingpong', '-p', self.provider, '-e', 'msg', '-S', str(self.size), '-I',
                  str(self.iterations))
        return Pair((*common, '-B', '{port}'), (*common, '-P', '{port}', '127.0.0.1'))

    def figure(self, output: str, unit: Unit) -> float:
        return libfabric_figure(output, unit)


Other = Ucx | Libfabric


def find_device() -> str:
    return os.environ.get('URMA_DEVICE', 'urma_shm0')


def ours_result(output: str, lock_free: bool) -> dict:
    try:
        said = json.loads(output)
        result, used = said['results'][0], said['options']['lock_free']
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise RunFailed('urma_perftest printed no JSON with options and results') from error
    if used != lock_free:
        raise RunFailed(f'urma_perftest used {"lock_free" if used else "ordinary"} queues')
    return result


def ours_percentile(result: dict, rank: float) -> float:
    for found in result.get('percentiles', []):
        if float(found['percent']) == rank:
            return float(found['us']) * 1e3
    raise RunFailed(f'urma_perftest printed no percentile {rank:g}')


def ours_figure(output: str, unit: Unit, ours: Ours) -> float:
    result = ours_result(output, ours.lock_free)
    if unit is Unit.TIME and ours.rank != 50.0:
        return ours_percentile(result, ours.rank)
    name, factor = {Unit.TIME: ('median_us', 1e3), Unit.RATE: ('msg_rate_mpps', 1e6),
                    Unit.BANDWIDTH: ('bw_avg_mbs', float(MEGABYTE))}[unit]
    try:
        return float(result[name]) * factor
    except (KeyError, TypeError, ValueError) as error:
        raise RunFailed(f'urma_perftest printed no {name}') from error


def ucx_figure(output: str, unit: Unit) -> float:
    """The figure in the line of numbers after the last line of names."""
    lines = [line for line in csv.reader(output.splitlines()) if len(line) > 1]
    if len(lines) < 2 or lines[-2][0] != 'iterations':
        raise RunFailed('ucx_perftest printed no figures')
    named = dict(zip(lines[-2], lines[-1]))
    try:
        if unit is Unit.RATE:
            return float(named['overall_mr'])
        if unit is Unit.BANDWIDTH:
            return float(named['overall_bw']) * MEGABYTE
        return float(next(value for name, value in named.items() if 'percentile' in name)) * 1e3
    except (KeyError, ValueError, StopIteration) as error:
        raise RunFailed('ucx_perftest printed other columns than version 1.13 does') from error


def libfabric_figure(output: str, unit: Unit) -> float:
    """Half a round trip, from the line of figures after the line of names."""
    lines = [line.split() for line in output.splitlines() if line.strip()]
    if unit is not Unit.TIME or len(lines) < 2 or lines[-2][0] != 'bytes':
        raise RunFailed('fi_pingpong printed no time')
    try:
        return float(dict(zip(lines[-2], lines[-1]))['usec/xfer']) * 1e3
    except (KeyError, ValueError) as error:
        raise RunFailed('fi_pingpong printed other columns than version 1.17 does') from error
