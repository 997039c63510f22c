# SPDX-License-Identifier: MIT
"""The two compared tools: their command lines, and the place of their figures."""

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

    def pair(self, binary: str, device: str) -> Pair:
        server = (binary, self.test, '-d', device, '-P', '{port}', '--bind_ip', '127.0.0.1', '-L',
                  '--format', 'json', *self.arguments)
        client = (binary, self.test, '-d', device, '-P', '{port}', '-S', '127.0.0.1', '-L',
                  '--format', 'json', *self.arguments)
        return Pair(server, client)


@dataclasses.dataclass(frozen=True)
class Ucx:
    """A test of ucx_perftest over one transport."""
    test: str
    transport: str  # 'posix' or 'sysv'
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
        # cma carries the large messages; without it they are copied twice.
        return Pair(server, client, {'UCX_TLS': f'{self.transport},cma,self'})


def find_device() -> str:
    return os.environ.get('URMA_DEVICE', 'urma_shm0')


def ours_result(output: str) -> dict:
    try:
        return json.loads(output)['results'][0]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise RunFailed('urma_perftest printed no JSON with results') from error


def ours_percentile(result: dict, rank: float) -> float:
    for found in result.get('percentiles', []):
        if float(found['percent']) == rank:
            return float(found['us']) * 1e3
    raise RunFailed(f'urma_perftest printed no percentile {rank:g}')


def ours_figure(output: str, unit: Unit, rank: float) -> float:
    result = ours_result(output)
    if unit is Unit.TIME and rank != 50.0:
        return ours_percentile(result, rank)
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
