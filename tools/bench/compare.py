#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the library beside UCX and the machine; see docs/reference/performance.md.

`./dev bench` builds what this needs and calls it. Exits with 0 if everything could be measured,
whatever the results; with 1 if something could not; with 2 for a wrong option.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys
from typing import NoReturn

import measured
import plots
import report
from contenders import find_device
from pairs import Cores, RunFailed, pick_cores
from rows import Curve, Duel, curves, duels

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def parse_cores(text: str) -> Cores:
    try:
        first, second = (int(core) for core in text.split(','))
    except ValueError:
        raise argparse.ArgumentTypeError(f'{text!r} is not two core numbers, as in 2,4') from None
    return Cores(first, second)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'{text!r} is not a number from 1 on, as in 5')
    return int(text)


class Parser(argparse.ArgumentParser):
    """Reports an error in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f'{self.prog}: {message}; {self.prog} --help lists the arguments\n')


def parse_arguments() -> argparse.Namespace:
    parser = Parser(prog='./dev bench', description=(
        'Measures the library beside UCX and beside what the machine can do.'))
    parser.add_argument('filter', nargs='?', default='', metavar='FILTER',
                        help='only measurements with FILTER in their name')
    parser.add_argument('--rounds', type=positive, default=5, metavar='N',
                        help='rounds of all measurements, of which medians are taken (5)')
    parser.add_argument('--quick', action='store_true', help='one round, and no plots')
    parser.add_argument('--limits', action='store_true',
                        help='only beside what the machine can do, without UCX')
    parser.add_argument('--cores', type=parse_cores, metavar='A,B',
                        help='cores for the two processes (the first two that may be used)')
    parser.add_argument('--out', type=pathlib.Path, default=ROOT / 'bench' / 'out', metavar='DIR',
                        help='where JSON and plots go (bench/out)')
    parser.add_argument('--publish', action='store_true',
                        help='put table and plots into docs')
    parser.add_argument('--bin', type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.rounds = 1
    if options.publish and (options.filter or options.limits or options.rounds < 5):
        parser.error('--publish goes with all measurements and at least 5 rounds; leave out '
                     'FILTER, --limits and --quick')
    return options


@dataclasses.dataclass
class Outcome:
    duels: list[measured.Result] = dataclasses.field(default_factory=list)
    points: list[measured.Result] = dataclasses.field(default_factory=list)
    curves: list[Curve] = dataclasses.field(default_factory=list)
    limits: list[dict] = dataclasses.field(default_factory=list)
    library: str = ''

    @property
    def complete(self) -> bool:
        return not any(result.errors for result in self.duels + self.points) and not any(
            row['error'] for row in self.limits)


def urma_bench(binary: pathlib.Path, *arguments: str) -> str:
    command = [str(binary), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise RunFailed(f'{command[0]} ended with status {done.returncode}')
    return done.stdout


def measure_limits(options: argparse.Namespace, cores: Cores) -> tuple[list[dict], str]:
    """The rows, and the version of the library."""
    binary = options.bin / 'tools' / 'bench' / 'urma_bench'
    if options.filter and not any(options.filter in name for name in
                                  urma_bench(binary, '--list').splitlines()):
        return [], ''
    arguments = ['--json', '--rounds', str(options.rounds), '--cores',
                 f'{cores.server},{cores.client}']
    said = json.loads(urma_bench(binary, *arguments, *filter(None, [options.filter])))
    return said['rows'], said['library']


def selected(items: list[Duel], text: str) -> list[Duel]:
    return [duel for duel in items if text in duel.name]


def selected_curves(options: argparse.Namespace) -> list[Curve]:
    """The curves with at least one point whose name contains the filter, with these points."""
    if options.quick or options.limits:
        return []
    found = []
    for curve in curves():
        points = tuple(point for point in curve.points if options.filter in point[1].name)
        if points:
            found.append(dataclasses.replace(curve, points=points))
    return found


def measure(options: argparse.Namespace, cores: Cores) -> Outcome:
    outcome = Outcome(curves=selected_curves(options))
    if not options.limits:
        perftest = options.bin / 'tools' / 'perftest' / 'urma_perftest'
        bench = measured.Bench(str(perftest), find_device(), cores)
        rows = selected(duels(), options.filter)
        points = [point[1] for curve in outcome.curves for point in curve.points]
        results = measured.measure_all(bench, rows + points, options.rounds)
        outcome.duels, outcome.points = results[:len(rows)], results[len(rows):]
    outcome.limits, outcome.library = measure_limits(options, cores)
    if not (outcome.duels or outcome.points or outcome.limits):
        raise RunFailed(f'no measurement has {options.filter!r} in its name')
    return outcome


def write_json(path: pathlib.Path, machine: report.Machine, rounds: int, outcome: Outcome) -> None:
    everything = {
        'machine': dataclasses.asdict(machine), 'library': outcome.library, 'rounds': rounds,
        'duels': [measured.as_json(result) for result in outcome.duels],
        'curves': [measured.as_json(result) for result in outcome.points],
        'limits': outcome.limits,
    }
    path.write_text(json.dumps(everything, indent=1) + '\n', encoding='utf-8')


def publish(text: str, drawn: list[str], out: pathlib.Path) -> None:
    figures = ROOT / 'figures'
    figures.mkdir(exist_ok=True)
    for name in drawn:
        shutil.copyfile(out / f'{name}.svg', figures / f'{name}.svg')
    report.publish(ROOT / 'docs' / 'reference' / 'performance.md', report.published(text, drawn))


def main() -> int:
    options = parse_arguments()
    machine = report.look_at_machine()
    cores = options.cores or pick_cores()
    outcome = measure(options, cores)
    options.out.mkdir(parents=True, exist_ok=True)
    write_json(options.out / 'bench.json', machine, options.rounds, outcome)
    by_name = {result.duel.name: result for result in outcome.points}
    drawn = plots.draw_all(outcome.curves, by_name, options.out)
    text = report.full_text(report.machine_text(machine, cores, options.rounds, outcome.library),
                            outcome.duels, outcome.points, outcome.limits)
    print(text)
    if options.publish:
        publish(text, drawn, options.out)
    return 0 if outcome.complete else 1


if __name__ == '__main__':
    try:
        sys.exit(main())
    except RunFailed as error:
        sys.exit(f'bench: {error}')
    except KeyboardInterrupt:
        sys.exit(130)
