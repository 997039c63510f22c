#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests how ./dev bench handles the output of the tools. Runs none of them."""

import dataclasses
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import contenders  # pylint: disable=wrong-import-position
import measured
import plots
import report
import rows
from contenders import Ours, Ucx, Unit
from pairs import Cores, Pair, RunFailed

UCX = ('iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n'
       '1000,0.250,0.300,0.310,10.00,20.00,1000,2000\n')
LIBFABRIC = ('bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n'
             '64k     1k      =1k      125m        0.04s   3200.00      20.50       0.05\n')
OURS = ('{"options": {"lock_free": false}, "results": [{"size": 8, "median_us": 0.1,'
        ' "bw_avg_mbs": 2.0, "msg_rate_mpps": 3.5,'
        ' "percentiles": [{"percent": 99.9, "us": 0.4}]}]}')
ROW = {'title': 'writes', 'unit': 'bandwidth', 'bare': False, 'error': '', 'note': '',
       'ours': 2e9, 'lock_free': 3e9, 'limit': 4e9, 'limit_name': 'memcpy', 'ratio': 0.5,
       'target': 0.95, 'target_ns': 0, 'reached': False}


def figures(ours: list[float], posix: list[float], sysv: list[float],
            unit: Unit = Unit.TIME, target: float = 1.0) -> measured.Result:
    ways = tuple(Ucx('put_lat', transport, (), 'short') for transport in ('posix', 'sysv'))
    duel = rows.Duel('write', unit, Ours('write_lat', ()), ways, target)
    return measured.Result(duel, measured.Samples(ours), {
        ways[0].label: measured.Samples(posix), ways[1].label: measured.Samples(sysv)})


def all_duels() -> list[rows.Duel]:
    return rows.duels() + [point[1] for curve in rows.curves() for point in curve.points]


class FiguresTest(unittest.TestCase):
    def test_reads_what_ucx_perftest_prints(self) -> None:
        self.assertEqual(contenders.ucx_figure(UCX, Unit.TIME), 250)
        self.assertEqual(contenders.ucx_figure(UCX, Unit.RATE), 2000)
        self.assertEqual(contenders.ucx_figure(UCX, Unit.BANDWIDTH), 20 << 20)
        for broken in ('', 'iterations\n', UCX.replace('0.250', 'x')):
            with self.assertRaises(RunFailed):
                contenders.ucx_figure(broken, Unit.TIME)

    def test_reads_what_fi_pingpong_prints(self) -> None:
        self.assertEqual(contenders.libfabric_figure(LIBFABRIC, Unit.TIME), 20_500)
        for broken in ('', 'bytes\n', LIBFABRIC.replace('20.50', 'x'),
                       LIBFABRIC.replace('usec', 'sec')):
            with self.assertRaises(RunFailed):
                contenders.libfabric_figure(broken, Unit.TIME)
        with self.assertRaises(RunFailed):
            contenders.libfabric_figure(LIBFABRIC, Unit.RATE)

    def test_reads_what_urma_perftest_prints(self) -> None:
        test = Ours('write_lat', ())
        self.assertAlmostEqual(contenders.ours_figure(OURS, Unit.TIME, test), 100)
        self.assertAlmostEqual(
            contenders.ours_figure(OURS, Unit.TIME, Ours('write_lat', (), rank=99.9)), 400)
        self.assertEqual(contenders.ours_figure(OURS, Unit.RATE, test), 3.5e6)
        self.assertEqual(contenders.ours_figure(OURS, Unit.BANDWIDTH, test), 2 << 20)
        options = OURS[:OURS.index('"results"')]
        for broken in ('', '{}', '[]', f'{options}"results": []}}', f'{options}"results": [{{}}]}}',
                       OURS.replace('lock_free', 'other')):
            with self.assertRaises(RunFailed):
                contenders.ours_figure(broken, Unit.TIME, test)
        with self.assertRaises(RunFailed):
            contenders.ours_figure(OURS, Unit.TIME, Ours('write_lat', (), rank=90.0))

    def test_refuses_figures_of_other_queues(self) -> None:
        other = OURS.replace('false', 'true')
        free = Ours('write_lat', (), lock_free=True)
        self.assertAlmostEqual(contenders.ours_figure(other, Unit.TIME, free), 100)
        for said, ours in ((other, Ours('write_lat', ())), (OURS, free)):
            with self.assertRaises(RunFailed):
                contenders.ours_figure(said, Unit.TIME, ours)


class ResultTest(unittest.TestCase):
    def test_the_better_result_counts(self) -> None:
        result = figures([100, 90, 110], [200, 190, 210], [150, 160, 140])
        self.assertEqual(result.best, 'put_lat sysv short')
        self.assertAlmostEqual(result.ratio, 100 / 150)
        self.assertTrue(result.reached)
        rate = figures([100], [200], [150], Unit.RATE)
        self.assertEqual(rate.best, 'put_lat posix short')
        self.assertFalse(rate.reached)

    def test_a_failure_is_reported_and_not_repeated(self) -> None:
        calls: list[Pair] = []

        def run(pair: Pair, _: Cores) -> str:
            calls.append(pair)
            if pair.client[0] == 'ours':
                return OURS
            if 'sysv' in pair.client:
                raise RunFailed('no\nmemory')
            return UCX

        bench = measured.Bench('ours', 'urma_shm0', Cores(0, 1), run)
        result, = measured.measure_all(bench, [figures([], [], []).duel], 3)
        self.assertEqual(len(calls), 7)
        self.assertEqual(result.errors, ['put_lat sysv short: no memory'])
        self.assertEqual(result.best, 'put_lat posix short')
        self.assertAlmostEqual(result.ratio, 0.4)
        self.assertEqual(measured.as_json(result)['best'], 'put_lat posix short')


    def test_lock_free_queues_are_measured_beside_ordinary_ones(self) -> None:
        def run(pair: Pair, _: Cores) -> str:
            if pair.client[0] != 'ours':
                return UCX
            faster = OURS.replace('false', 'true').replace('0.1', '0.05')
            return faster if '-L' in pair.client else OURS

        bench = measured.Bench('ours', 'urma_shm0', Cores(0, 1), run)
        duel = dataclasses.replace(figures([], [], []).duel, lock_free=True)
        for rounds in (1, 2):
            result, = measured.measure_all(bench, [duel], rounds)
            self.assertEqual(result.errors, [])
            self.assertAlmostEqual(result.ours.median, 100)
            self.assertAlmostEqual(result.ratio, 0.4)
            self.assertEqual(len(result.lock_free.values), rounds)
            self.assertAlmostEqual(result.lock_free.median, 50)
            self.assertAlmostEqual(measured.as_json(result)['lock_free']['median'], 50)


class ReportTest(unittest.TestCase):
    def test_shows_rows(self) -> None:
        result = figures([100], [200], [150])
        self.assertEqual(report.duel_cells(result)[2], '')
        result.lock_free.values.append(80)
        cells = report.duel_cells(result)
        self.assertEqual(cells, ('write', '100 ns', '80.0 ns', '150 ns, put_lat sysv short', '0.67',
                                 '<= 1.00', 'yes'))
        self.assertEqual(report.limit_cells(ROW), ('writes', '2.00 GB/s', '3.00 GB/s',
                                                   '4.00 GB/s, memcpy', '0.50', '>= 0.95', 'no'))
        self.assertEqual(report.limit_cells(ROW | {'lock_free': None})[2], '')
        self.assertIn('no memory', report.limit_cells(ROW | {'error': 'no memory'}))
        missing = report.duel_cells(figures([], [], []))
        self.assertEqual(missing[1:4], ('not measured', '', 'not measured'))
        self.assertEqual(missing[6], 'not known')
        for cells in (missing, report.limit_cells(ROW), report.limit_cells(ROW | {'bare': True}),
                      report.limit_cells(ROW | {'error': 'no memory'})):
            self.assertEqual(len(cells), len(report.HEAD))

    def test_publishes_between_the_marks(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            document = pathlib.Path(folder) / 'performance.md'
            document.write_text(f'a\n{report.BEGIN}\nold\n{report.END}\nz\n', encoding='utf-8')
            text = report.published('machine\n\n| table |', ['latency'])
            for _ in range(2):
                report.publish(document, text)
            said = document.read_text(encoding='utf-8')
            self.assertEqual(said, f'a\n{report.BEGIN}\n\n```\nmachine\n```\n\n| table |\n\n'
                                   f'![latency](../../figures/latency.svg)\n\n{report.END}\nz\n')
            document.write_text('no marks', encoding='utf-8')
            with self.assertRaises(RunFailed):
                report.publish(document, text)


class RowsTest(unittest.TestCase):
    def test_names_are_unique(self) -> None:
        names = [duel.name for duel in all_duels()]
        self.assertEqual(len(names), len(set(names)))

    def test_figures_are_those_of_ordinary_queues(self) -> None:
        for duel in all_duels():
            pair = duel.ours.pair('perftest', 'urma_shm0')
            for word in (*pair.server, *pair.client):
                self.assertNotRegex(word, '^(-L|--lock_free)', duel.name)
        beside = [duel.name for duel in all_duels() if duel.lock_free]
        self.assertIn('write latency, UCT', beside)
        self.assertIn('send bandwidth, 1 MiB', beside)
        self.assertFalse([name for name in beside if name.startswith('net ')])

    def test_a_network_row_is_the_same_over_tcp(self) -> None:
        duel, = (duel for duel in rows.duels() if duel.name == 'net send latency, 64 KiB, others')
        self.assertEqual([other.label for other in duel.others],
                         ['tag_lat tcp', 'fi_pingpong tcp'])
        self.assertIn('urma_net0', duel.ours.pair('perftest', 'urma_shm0').client)
        self.assertEqual(duel.others[0].pair().environment['UCX_TLS'], 'tcp,self')

    def test_curves_are_drawn_from_measured_points(self) -> None:
        curve = next(curve for curve in rows.curves() if curve.plot == 'percentiles')
        results = {duel.name: measured.Result(duel) for _, duel in curve.points}
        self.assertEqual(plots.lines_of([curve], results, 1), ('', []))
        results[curve.points[2][1].name].ours.values.append(5.0)
        blocks, clauses = plots.lines_of([curve], results, 1)
        self.assertEqual(blocks, '$data0 << EOD\n2 5\nEOD\n')
        self.assertEqual(len(clauses), 1)


if __name__ == '__main__':
    outcome = unittest.main(exit=False, verbosity=0).result
    failed = len(outcome.failures) + len(outcome.errors)
    print(f'{outcome.testsRun - failed} passed, {failed} failed, 0 skipped', file=sys.stderr)
    sys.exit(failed != 0)
