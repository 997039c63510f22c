#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests how ./dev bench handles the output of the tools. Runs none of them."""

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
OURS = ('{"results": [{"size": 8, "median_us": 0.1, "bw_avg_mbs": 2.0, "msg_rate_mpps": 3.5,'
        ' "percentiles": [{"percent": 99.9, "us": 0.4}]}]}')
ROW = {'title': 'writes', 'unit': 'bandwidth', 'bare': False, 'error': '', 'note': '',
       'ours': 2e9, 'limit': 4e9, 'limit_name': 'memcpy', 'ratio': 0.5, 'target': 0.95,
       'target_ns': 0, 'reached': False}


def figures(ours: list[float], posix: list[float], sysv: list[float],
            unit: Unit = Unit.TIME, target: float = 1.0) -> measured.Result:
    ways = tuple(Ucx('put_lat', transport, (), 'short') for transport in ('posix', 'sysv'))
    duel = rows.Duel('write', unit, Ours('write_lat', ()), ways, target)
    return measured.Result(duel, measured.Samples(ours), {
        ways[0].label: measured.Samples(posix), ways[1].label: measured.Samples(sysv)})


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
        self.assertAlmostEqual(contenders.ours_figure(OURS, Unit.TIME, 50.0), 100)
        self.assertAlmostEqual(contenders.ours_figure(OURS, Unit.TIME, 99.9), 400)
        self.assertEqual(contenders.ours_figure(OURS, Unit.RATE, 50.0), 3.5e6)
        self.assertEqual(contenders.ours_figure(OURS, Unit.BANDWIDTH, 50.0), 2 << 20)
        for broken in ('', '{}', '{"results": []}', '{"results": [{}]}', '[]'):
            with self.assertRaises(RunFailed):
                contenders.ours_figure(broken, Unit.TIME, 50.0)
        with self.assertRaises(RunFailed):
            contenders.ours_figure(OURS, Unit.TIME, 90.0)


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


class ReportTest(unittest.TestCase):
    def test_shows_rows(self) -> None:
        cells = report.duel_cells(figures([100], [200], [150]))
        self.assertEqual(cells, ('write', '100 ns', '150 ns, put_lat sysv short', '0.67',
                                 '<= 1.00', 'yes'))
        self.assertEqual(report.limit_cells(ROW), ('writes', '2.00 GB/s', '4.00 GB/s, memcpy',
                                                   '0.50', '>= 0.95', 'no'))
        self.assertIn('no memory', report.limit_cells(ROW | {'error': 'no memory'}))
        missing = report.duel_cells(figures([], [], []))
        self.assertEqual(missing[1:3], ('not measured', 'not measured'))
        self.assertEqual(missing[5], 'not known')

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
        names = [duel.name for duel in rows.duels()]
        names += [point[1].name for curve in rows.curves() for point in curve.points]
        self.assertEqual(len(names), len(set(names)))

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
