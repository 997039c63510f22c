# SPDX-License-Identifier: MIT
"""The comparisons: the rows of the table, and the curves of the plots."""

import dataclasses

from contenders import Libfabric, Other, Ours, Ucx, Unit

TRANSPORTS = ('posix', 'sysv')
RANKS = (50.0, 90.0, 99.0, 99.9)
SIZES = (8, 64, 512, 4 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20)
RATE_SIZES = (8, 64, 512, 4 << 10)
UCT_SHORT_LIMIT = 92  # bytes that an active message of posix or sysv carries as `short`

LATENCY_ITERATIONS = 1 << 17
EVENT_ITERATIONS = 1 << 13
NETWORK_ITERATIONS = 1 << 14
RATE_ITERATIONS = 1 << 21
SWEEP_BYTES = 1 << 30


@dataclasses.dataclass(frozen=True)
class Duel:
    """Our test against every way in which others do the same; the best of those counts."""
    name: str
    unit: Unit
    ours: Ours
    others: tuple[Other, ...]
    target: float = 0.0  # of ours divided by theirs; 0: none
    lock_free: bool = False  # ours also with lock_free queues, which the target does not judge


@dataclasses.dataclass(frozen=True)
class Curve:
    """Duels at several sizes, or percentiles."""
    plot: str
    name: str
    points: tuple[tuple[float, Duel], ...]


def common(size: int, iterations: int) -> tuple[str, ...]:
    return ('-s', str(size), '-n', str(iterations))


def uct(test: str, layouts: tuple[str, ...], size: int, iterations: int,
        *more: str) -> tuple[Ucx, ...]:
    arguments = common(size, iterations) + ('-w', str(iterations // 10), *more)
    return tuple(Ucx(test, transport, arguments, layout)
                 for transport in TRANSPORTS for layout in layouts)


def ucp(test: str, size: int, iterations: int, *more: str) -> tuple[Ucx, ...]:
    arguments = common(size, iterations) + ('-w', str(iterations // 10), *more)
    return tuple(Ucx(test, transport, arguments) for transport in TRANSPORTS)


def latency(test: str, size: int, iterations: int, *more: str) -> Ours:
    return Ours(test, common(size, iterations) + more)


# Every 16th request is signalled. `posts`: requests in a call.
def rate(test: str, size: int, iterations: int, posts: int = 16) -> Ours:
    receives = ('-r', '16') if test == 'send_bw' else ()
    return Ours(test, common(size, iterations) + ('-l', str(posts), '-Q', '16', *receives))


# All are signalled.
def bandwidth(test: str, size: int, iterations: int) -> Ours:
    return Ours(test, common(size, iterations) + ('-Q', '1'))


def small_duels() -> list[Duel]:
    n, many = LATENCY_ITERATIONS, RATE_ITERATIONS
    time, per_second = Unit.TIME, Unit.RATE
    write = latency('write_lat', 8, n)
    send = latency('send_lat', 8, n)
    return [
        Duel('write latency, UCT', time, write, uct('put_lat', ('short', 'bcopy'), 8, n), 1.03),
        Duel('write latency, UCP', time, write, ucp('ucp_put_lat', 8, n), 1.0),
        Duel('send latency, UCT', time, send, uct('am_lat', ('short',), 8, n), 0.65),
        Duel('send latency, UCP', time, send, ucp('tag_lat', 8, n), 0.7),
        Duel('fetch-add latency', time, latency('atomic_lat', 8, n, '-A', 'faa'),
             uct('fadd', ('short',), 8, n, '-o'), 0.35),
        Duel('compare-and-swap latency', time, latency('atomic_lat', 8, n, '-A', 'cas'),
             uct('cswap', ('short',), 8, n, '-o'), 0.35),
        Duel('read latency', time, latency('read_lat', 8, n),
             uct('get', ('bcopy',), 8, n, '-o'), 1.4),
        Duel('send rate, single posts', per_second, rate('send_bw', 8, many, 1),
             uct('am_bw', ('short',), 8, many), 3.0),
        Duel('send rate, chains of 16', per_second, rate('send_bw', 8, many),
             uct('am_bw', ('short',), 8, many), 4.0),
        Duel('write rate', per_second, rate('write_bw', 8, many),
             uct('put_bw', ('short', 'bcopy'), 8, many, '-o'), 1.0),
        Duel('event latency', time, latency('send_lat', 8, EVENT_ITERATIONS, '-e'),
             ucp('ucp_am_lat', 8, EVENT_ITERATIONS, '-I', '-E', 'sleep'), 1.5),
    ]


def large_duels() -> list[Duel]:
    duels = []
    for size, text, sending in ((64 << 10, '64 KiB', 2.0), (1 << 20, '1 MiB', 1.4)):
        n = 2 * SWEEP_BYTES // size
        for name, ours, theirs, target in (('write', 'write_bw', 'ucp_put_bw', 1.0),
                                           ('read', 'read_bw', 'ucp_get', 1.0),
                                           ('send', 'send_bw', 'tag_bw', sending)):
            duels.append(Duel(f'{name} bandwidth, {text}', Unit.BANDWIDTH,
                              bandwidth(ours, size, n), ucp(theirs, size, n), target))
    return duels


def over_tcp(duel: Duel, libfabric: tuple[Libfabric, ...] = ()) -> Duel:
    """The same between two sockets of one host."""
    ways = {dataclasses.replace(ucx, transport='tcp'): None for ucx in duel.others}
    return dataclasses.replace(duel, name=f'net {duel.name}',
                               ours=dataclasses.replace(duel.ours, network=True),
                               others=(*ways, *libfabric), target=1.0)


def network_duels() -> list[Duel]:
    n, time, per_second = NETWORK_ITERATIONS, Unit.TIME, Unit.RATE
    polling = '--poll-always'  # as the target of UCX does
    duels = [
        over_tcp(Duel('write latency, UCP', time, latency('write_lat', 8, n, polling),
                      ucp('ucp_put_lat', 8, n))),
        over_tcp(Duel('read latency, UCP', time, latency('read_lat', 8, n, polling),
                      ucp('ucp_get', 8, n))),
        over_tcp(Duel('fetch-add latency, UCP', time,
                      latency('atomic_lat', 8, n, '-A', 'faa', polling), ucp('ucp_fadd', 8, n))),
        over_tcp(Duel('send rate, UCP', per_second, rate('send_bw', 8, 8 * n),
                      ucp('tag_bw', 8, 8 * n) + ucp('ucp_am_bw', 8, 8 * n))),
        over_tcp(Duel('write rate, UCP', per_second, rate('write_bw', 8, 8 * n),
                      ucp('ucp_put_bw', 8, 8 * n))),
    ]
    for size, text in ((8, '8 B'), (64 << 10, '64 KiB'), (1 << 20, '1 MiB')):
        n = min(NETWORK_ITERATIONS, SWEEP_BYTES // 4 // size)
        duels.append(over_tcp(Duel(f'send latency, {text}, others', time,
                                   latency('send_lat', size, n), ucp('tag_lat', size, n)),
                              (Libfabric('tcp', size, n),)))
    for size, text in ((64 << 10, '64 KiB'), (1 << 20, '1 MiB')):
        n = SWEEP_BYTES // size
        for name, ours, theirs in (('write', 'write_bw', 'ucp_put_bw'),
                                   ('read', 'read_bw', 'ucp_get'), ('send', 'send_bw', 'tag_bw')):
            duels.append(over_tcp(Duel(f'{name} bandwidth, {text}, UCP', Unit.BANDWIDTH,
                                       bandwidth(ours, size, n), ucp(theirs, size, n))))
    return duels


def duels() -> list[Duel]:
    local = [dataclasses.replace(duel, lock_free=True) for duel in small_duels() + large_duels()]
    return local + network_duels()


def sweep_iterations(size: int, most: int) -> int:
    return min(SWEEP_BYTES // size, most)


def latency_curves() -> list[Curve]:
    curves = []
    for name, ours, theirs in (('write', 'write_lat', 'ucp_put_lat'),
                               ('send', 'send_lat', 'tag_lat')):
        points = []
        for size in SIZES:
            n = sweep_iterations(size, LATENCY_ITERATIONS // 4)
            points.append((float(size), Duel(f'{name} latency, {size} B', Unit.TIME,
                                             latency(ours, size, n), ucp(theirs, size, n))))
        curves.append(Curve('latency', name, tuple(points)))
    return curves


def bandwidth_curves() -> list[Curve]:
    curves = []
    for name, ours, theirs in (('write', 'write_bw', 'ucp_put_bw'), ('read', 'read_bw', 'ucp_get'),
                               ('send', 'send_bw', 'tag_bw')):
        points = []
        for size in SIZES:
            n = sweep_iterations(size, RATE_ITERATIONS // 8)
            points.append((float(size), Duel(f'{name} bandwidth, {size} B', Unit.BANDWIDTH,
                                             bandwidth(ours, size, n), ucp(theirs, size, n))))
        curves.append(Curve('bandwidth', name, tuple(points)))
    return curves


def rate_curves() -> list[Curve]:
    curves = []
    for name, ours, theirs in (('write', 'write_bw', 'put_bw'), ('send', 'send_bw', 'am_bw')):
        points = []
        for size in RATE_SIZES:
            n = sweep_iterations(size, RATE_ITERATIONS // 4)
            short = theirs == 'put_bw' or size <= UCT_SHORT_LIMIT
            rivals = uct(theirs, ('short' if short else 'bcopy',), size, n)
            points.append((float(size), Duel(f'{name} rate, {size} B', Unit.RATE,
                                             rate(ours, size, n), rivals)))
        curves.append(Curve('rate', name, tuple(points)))
    return curves


def percentile_curves() -> list[Curve]:
    """Every rank takes a separate run: ucx_perftest prints one at a time."""
    curves = []
    n = LATENCY_ITERATIONS
    for name, ours, theirs in (('write', 'write_lat', 'put_lat'), ('send', 'send_lat', 'am_lat')):
        points = []
        for rank in RANKS:
            rivals = tuple(dataclasses.replace(rival, rank=rank)
                           for rival in uct(theirs, ('short',), 8, n))
            mine = Ours(ours, (*common(8, n), '--percentiles', f'{rank:g}'), rank)
            points.append((rank, Duel(f'{name} latency, {rank:g}th percentile', Unit.TIME, mine,
                                      rivals)))
        curves.append(Curve('percentiles', name, tuple(points)))
    return curves


def curves() -> list[Curve]:
    return latency_curves() + bandwidth_curves() + rate_curves() + percentile_curves()
