# SPDX-License-Identifier: MIT
"""The results of the rounds, and what follows: medians, the best of the others, ratios."""

import dataclasses
import statistics
import sys
from typing import Callable

from contenders import Other, Ours, Unit, ours_figure
from pairs import Cores, Pair, RunFailed, run_pair
from rows import Duel


@dataclasses.dataclass(frozen=True)
class Bench:
    """Where and how to run everything."""
    perftest: str
    device: str
    cores: Cores
    run: Callable[[Pair, Cores], str] = run_pair


@dataclasses.dataclass
class Samples:
    """One tool's value for each round; or why there are none."""
    values: list[float] = dataclasses.field(default_factory=list)
    error: str = ''

    def take(self, measure: Callable[[], float]) -> None:
        if self.error:
            return  # it would fail again
        try:
            self.values.append(measure())
        except RunFailed as error:
            self.error = ' '.join(str(error).split())

    @property
    def median(self) -> float | None:
        return statistics.median(self.values) if self.values and not self.error else None


@dataclasses.dataclass
class Result:
    duel: Duel
    ours: Samples = dataclasses.field(default_factory=Samples)
    others: dict[str, Samples] = dataclasses.field(default_factory=dict)
    lock_free: Samples = dataclasses.field(default_factory=Samples)  # empty unless Duel.lock_free

    @property
    def best(self) -> str | None:
        """The label of the best of the others."""
        found = {label: samples.median for label, samples in self.others.items()
                 if samples.median is not None}
        pick = min if self.duel.unit is Unit.TIME else max
        return pick(found, key=lambda label: found[label]) if found else None

    @property
    def ratio(self) -> float | None:
        """The median of ours divided by the best of theirs, round by round."""
        if self.best is None or self.ours.median is None:
            return None
        theirs = self.others[self.best].values
        return statistics.median(mine / other for mine, other in zip(self.ours.values, theirs))

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None if there is no target, or no ratio to judge."""
        if not self.duel.target or self.ratio is None:
            return None
        return (self.ratio <= self.duel.target if self.duel.unit is Unit.TIME
                else self.ratio >= self.duel.target)

    @property
    def errors(self) -> list[str]:
        everybody = {'urma_perftest': self.ours, 'urma_perftest -L': self.lock_free,
                     **self.others}
        return [f'{name}: {samples.error}' for name, samples in everybody.items() if samples.error]


def measure_ours(bench: Bench, ours: Ours, unit: Unit) -> float:
    return ours_figure(bench.run(ours.pair(bench.perftest, bench.device), bench.cores), unit, ours)


def measure_other(bench: Bench, other: Other, unit: Unit) -> float:
    return other.figure(bench.run(other.pair(), bench.cores), unit)


def measure_lock_free(bench: Bench, result: Result) -> None:
    duel = result.duel
    if duel.lock_free:
        ours = dataclasses.replace(duel.ours, lock_free=True)
        result.lock_free.take(lambda: measure_ours(bench, ours, duel.unit))


def measure_round(bench: Bench, results: list[Result], number: int, rounds: int) -> None:
    """Measures ours and theirs in turn. Every other round begins with theirs."""
    for done, result in enumerate(results):
        print(f'round {number} of {rounds}, {done + 1} of {len(results)}: {result.duel.name}',
              file=sys.stderr)
        unit = result.duel.unit
        if number % 2 == 1:
            measure_lock_free(bench, result)
            result.ours.take(lambda: measure_ours(bench, result.duel.ours, unit))
        for other in result.duel.others:
            samples = result.others.setdefault(other.label, Samples())
            samples.take(lambda: measure_other(bench, other, unit))
        if number % 2 == 0:
            result.ours.take(lambda: measure_ours(bench, result.duel.ours, unit))
            measure_lock_free(bench, result)


def measure_all(bench: Bench, duels: list[Duel], rounds: int) -> list[Result]:
    results = [Result(duel) for duel in duels]
    for number in range(1, rounds + 1):
        measure_round(bench, results, number, rounds)
    return results


def as_json(result: Result) -> dict:
    duel = result.duel
    return {
        'name': duel.name, 'unit': duel.unit.value, 'target': duel.target or None,
        'ours': {'command': [duel.ours.test, *duel.ours.arguments], 'median': result.ours.median,
                 'values': result.ours.values, 'error': result.ours.error or None},
        'lock_free': {'median': result.lock_free.median, 'values': result.lock_free.values,
                      'error': result.lock_free.error or None} if duel.lock_free else None,
        'others': {other.label: {'command': list(other.pair().client),
                                 'environment': other.pair().environment,
                                 'median': result.others[other.label].median,
                                 'values': result.others[other.label].values,
                                 'error': result.others[other.label].error or None}
                   for other in duel.others},
        'best': result.best, 'ratio': result.ratio, 'reached': result.reached,
    }
