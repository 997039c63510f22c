# SPDX-License-Identifier: MIT
"""Draws the curves with gnuplot, each plot as SVG and as PNG."""

import dataclasses
import pathlib
import subprocess

from measured import Result
from pairs import RunFailed
from rows import RANKS, Curve

# Those of a colour-blind safe palette, one for each of write, send and read.
COLOURS = {'write': '#0072b2', 'send': '#d55e00', 'read': '#009e73'}
TERMINALS = {'svg': "svg size 900,540 dynamic background 'white' font 'sans-serif,14'",
             'png': "pngcairo size 1350,810 background 'white' font 'sans,18'"}
SIZE_TICS = ("set logscale x 2\nset xtics ('8' 8, '64' 64, '512' 512, '4 Ki' 4096, "
             "'32 Ki' 32768, '256 Ki' 262144, '1 Mi' 1048576)")
RANK_TICS = "set xtics ('50' 0, '90' 1, '99' 2, '99.9' 3)\nset xrange [-0.2:3.2]"


@dataclasses.dataclass(frozen=True)
class Plot:
    title: str
    x: str
    y: str
    scale: float  # of the figures, to the unit of the y axis
    tics: str


PLOTS = {
    'latency': Plot('Latency against size', 'bytes', 'microseconds, one way', 1e-3, SIZE_TICS),
    'bandwidth': Plot('Bandwidth against size', 'bytes', 'GB per second', 1e-9, SIZE_TICS),
    'rate': Plot('Message rate against size', 'bytes', 'million messages per second', 1e-6,
                 f'{SIZE_TICS}\nset xrange [7:4500]'),  # gnuplot leaves out a tic at the very end
    'percentiles': Plot('Latency of 8 bytes, percentiles', 'percentile',
                        'microseconds, one way', 1e-3, RANK_TICS),
}


def x_of(plot: str, x: float) -> float:
    return RANKS.index(x) if plot == 'percentiles' else x


def figures(curve: Curve, results: dict[str, Result], ours: bool) -> list[tuple[float, float]]:
    """The points of one line. Points that could not be measured are left out."""
    found = []
    for x, duel in curve.points:
        result = results[duel.name]
        samples = result.ours if ours else result.others.get(result.best or '')
        if samples is not None and samples.median is not None:
            found.append((x_of(curve.plot, x), samples.median))
    return found


def lines_of(curves: list[Curve], results: dict[str, Result],
             scale: float) -> tuple[str, list[str]]:
    """The data blocks, and the arguments of `plot` for each."""
    blocks, clauses = '', []
    for curve in curves:
        for ours in (True, False):
            points = figures(curve, results, ours)
            if not points:
                continue
            name = f'$data{len(clauses)}'
            rows = '\n'.join(f'{x:g} {value * scale:.6g}' for x, value in points)
            blocks += f'{name} << EOD\n{rows}\nEOD\n'
            theirs = curve.points[0][1].others[0].test
            title = f'{curve.name}, liburma' if ours else f'{curve.name}, UCX ({theirs})'
            dash = 1 if ours else 2
            clauses.append(f"{name} with linespoints title '{title}' noenhanced "
                           f"linecolor rgb '{COLOURS[curve.name]}' linewidth 2 dashtype {dash} "
                           f'pointtype {7 if ours else 6}')
    return blocks, clauses


def script_of(plot: Plot, blocks: str, clauses: list[str], terminal: str,
              path: pathlib.Path) -> str:
    return '\n'.join((
        f'set terminal {terminal}', f"set output '{path}'", f"set title '{plot.title}'",
        f"set xlabel '{plot.x}'", f"set ylabel '{plot.y}'", 'set logscale y', 'set grid',
        'set key outside bottom center horizontal', plot.tics, blocks,
        'plot ' + ', \\\n  '.join(clauses), ''))


def draw(name: str, curves: list[Curve], results: dict[str, Result], out: pathlib.Path) -> bool:
    """False if there is nothing to draw."""
    plot = PLOTS[name]
    blocks, clauses = lines_of(curves, results, plot.scale)
    if not clauses:
        return False
    for suffix, terminal in TERMINALS.items():
        script = script_of(plot, blocks, clauses, terminal, out / f'{name}.{suffix}')
        done = subprocess.run(['gnuplot', '-'], input=script, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise RunFailed(f'gnuplot: {" ".join(done.stderr.split())}')
    return True


def draw_all(curves: list[Curve], results: dict[str, Result], out: pathlib.Path) -> list[str]:
    """Returns the names of the plots drawn."""
    return [name for name in PLOTS
            if draw(name, [curve for curve in curves if curve.plot == name], results, out)]
