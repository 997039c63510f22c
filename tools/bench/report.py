# SPDX-License-Identifier: MIT
"""The tables as text, and their place in docs/reference/performance.md."""

import dataclasses
import os
import pathlib
import platform
import subprocess
import time

from contenders import Unit
from measured import Result
from pairs import Cores, RunFailed

BEGIN = '<!-- bench: begin; written by ./dev bench --publish -->'
END = '<!-- bench: end -->'
HEAD = ('figure', 'ours', 'lock_free', 'other', 'ratio', 'target', 'ok?')


@dataclasses.dataclass(frozen=True)
class Machine:
    processor: str
    cores: int
    system: str
    date: str
    load: float
    ucx: str
    libfabric: str


def processor() -> str:
    with open('/proc/cpuinfo', encoding='ascii', errors='replace') as file:
        for line in file:
            if line.startswith('model name'):
                return line.partition(':')[2].strip()
    return 'unknown processor'


def version_of(package: str) -> str:
    query = ['dpkg-query', '-W', '-f', '${Version}', package]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False)
        return done.stdout or 'unknown'
    except OSError:
        return 'unknown'


def look_at_machine() -> Machine:
    """Call before the first round: the load is then that of other programs."""
    system = platform.uname()
    return Machine(processor(), os.cpu_count() or 0,
                   f'{system.system} {system.release} {system.machine}',
                   time.strftime('%Y-%m-%d %H:%M %z'), os.getloadavg()[0],
                   version_of('ucx-utils'), version_of('libfabric-bin'))


def show(value: float | None, unit: Unit) -> str:
    if value is None:
        return ''
    if unit is Unit.RATE:
        return f'{value / 1e6:.2f} M/s'
    if unit is Unit.BANDWIDTH:
        return f'{value / 1e9:.2f} GB/s'
    for limit, divisor, digits, name in ((100, 1, 1, 'ns'), (1e4, 1, 0, 'ns'), (1e6, 1e3, 1, 'us'),
                                         (1e8, 1e6, 2, 'ms')):
        if value < limit:
            return f'{value / divisor:.{digits}f} {name}'
    return f'{value / 1e6:.0f} ms'


def show_target(target: float, unit: Unit) -> str:
    return f'{"<=" if unit is Unit.TIME else ">="} {target:.2f}' if target else ''


def verdict(reached: bool | None, has_target: bool, note: str = '') -> str:
    if not has_target:
        return note
    if reached is None:
        return 'not known'
    return f'no: {note}' if note else ('yes' if reached else 'no')


def duel_cells(result: Result) -> tuple[str, ...]:
    duel, best = result.duel, result.best
    theirs = result.others[best].median if best else None
    ratio = '' if result.ratio is None else f'{result.ratio:.2f}'
    return (duel.name, show(result.ours.median, duel.unit) or 'not measured',
            show(result.lock_free.median, duel.unit),
            f'{show(theirs, duel.unit)}, {best}' if best else 'not measured', ratio,
            show_target(duel.target, duel.unit), verdict(result.reached, duel.target > 0))


def limit_cells(row: dict) -> tuple[str, ...]:
    """The cells of a row as urma_bench writes it."""
    unit = Unit(row['unit'])
    if row['error']:
        return (row['title'], 'not measured', '', row['error'], '', '', '')
    if row['bare']:
        return (row['title'], '', '', show(row['ours'], unit), '', '', '')
    limit = '' if row['limit'] is None else f'{show(row["limit"], unit)}, {row["limit_name"]}'
    ratio = '' if row['ratio'] is None else f'{row["ratio"]:.2f}'
    target = show_target(row['target'] or 0, unit)
    if row['target_ns']:
        target = f'<= {show(row["target_ns"], Unit.TIME)}'
    return (row['title'], show(row['ours'], unit), show(row['lock_free'], unit), limit, ratio,
            target, verdict(row['reached'], bool(target), row['note']))


def table(rows: list[tuple[str, ...]], other: str) -> str:
    head = tuple(other if name == 'other' else name for name in HEAD)
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells: tuple[str, ...]) -> str:
        return '| ' + ' | '.join(f'{cell:<{width}}' for cell, width in zip(cells, widths)) + ' |'

    return '\n'.join([line(head), line(tuple('-' * width for width in widths)),
                      *map(line, rows)])


def machine_text(machine: Machine, cores: Cores, rounds: int, library: str) -> str:
    return '\n'.join((
        f'machine  {machine.processor}, {machine.cores} cores',
        f'system   {machine.system}',
        f'date     {machine.date}, load before {machine.load:.1f}',
        f'library  liburma {library}; UCX {machine.ucx}, libfabric {machine.libfabric}',
        f'method   medians of {rounds} rounds, processes pinned to cores {cores.server} and '
        f'{cores.client}'))


def full_text(machine: str, duels: list[Result], points: list[Result], limits: list[dict]) -> str:
    parts = [machine]
    if duels:
        parts.append('Beside others:\n\n' + table([duel_cells(result) for result in duels],
                                                 'others'))
    if limits:
        parts.append('Beside the machine:\n\n' + table([limit_cells(row) for row in limits],
                                                       'limit'))
    errors = [f'not measured: {result.duel.name}: {error}' for result in duels + points
              for error in result.errors]
    return '\n\n'.join(parts + (['\n'.join(errors)] if errors else []))


def published(text: str, plots: list[str]) -> str:
    machine, *rest = text.split('\n\n')
    images = [f'![{name}](../../figures/{name}.svg)' for name in plots]
    return '\n\n'.join([BEGIN, f'```\n{machine}\n```', *rest, *images, END])


def publish(document: pathlib.Path, text: str) -> None:
    """Replaces the text between the marks with `text`, which includes them."""
    old = document.read_text(encoding='utf-8')
    if old.count(BEGIN) != 1 or old.count(END) != 1 or old.index(BEGIN) > old.index(END):
        raise RunFailed(f'{document} lacks the marks {BEGIN} and {END}, each once and in order')
    before, after = old[:old.index(BEGIN)], old[old.index(END) + len(END):]
    document.write_text(before + text + after, encoding='utf-8')
