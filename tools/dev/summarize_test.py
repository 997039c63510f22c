#!/usr/bin/env python3
"""Tests summarize.py on events and results as Bazel writes them."""

import json
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import summarize  # pylint: disable=wrong-import-position

GTEST = '''<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4" failures="1" disabled="1" name="AllTests"><testsuite name="Ring">
<testcase name="Wraps" status="run" result="completed" classname="Ring" />
<testcase name="Fills" status="run" result="completed" classname="Ring">
<failure message="ring.cc:9&#x0A;oh" type=""><![CDATA[ring.cc:9
oh]]></failure></testcase>
<testcase name="Huge" status="run" result="skipped" classname="Ring">
<skipped message="ring.cc:12&#x0A;no huge pages" /></testcase>
<testcase name="DISABLED_Later" status="notrun" result="suppressed" classname="Ring" />
</testsuite></testsuites>'''

STUB = '''<?xml version="1.0" encoding="UTF-8"?><testsuites><testsuite name="test/a" tests="1">
<testcase name="test/a" status="run"></testcase></testsuite></testsuites>'''


class SummarizeTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.events = []

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        return path

    def configured(self, label, is_test=True):
        self.events.append({
            'id': {'targetConfigured': {'label': label}},
            'configured': {'testSize': 'SMALL'} if is_test else {},
        })

    def completed(self, label, success=True):
        done = {'success': True} if success else {'failureDetail': {}}
        self.events.append({'id': {'targetCompleted': {'label': label}}, 'completed': done})

    def add_test(self, label, status, xml='', log='', shard=1):
        self.configured(label)
        self.completed(label)
        number = len(self.events)
        files = {'test.xml': xml, 'test.log': log}
        self.events.append({
            'id': {'testResult': {'label': label, 'run': 1, 'shard': shard, 'attempt': 1}},
            'testResult': {
                'status': status,
                'testActionOutput': [
                    {'name': name, 'uri': 'file://' + self.write(f'{number}.{name}', text)}
                    for name, text in files.items() if text
                ],
            },
        })

    def report(self, **options):
        text = '\n'.join(json.dumps(event) for event in self.events)
        return summarize.summarize(self.write('events', text), **options)

    def test_counts_gtest_cases(self):
        self.add_test('//test:ring', 'FAILED', GTEST)
        report = self.report(bazel_status=3)
        self.assertEqual(report.totals(), '1 passed, 1 failed, 2 skipped')
        self.assertIn('FAIL //test:ring Ring.Fills', report.lines)
        self.assertIn('SKIP //test:ring Ring.Huge: no huge pages (ring.cc:12)', report.lines)

    def test_counts_only_selected_cases_and_failures(self):
        self.add_test('//test:ring', 'FAILED', GTEST)
        self.add_test('//test:a', 'PASSED', STUB, '4 passed, 0 failed, 1 skipped\n')
        self.add_test('//test:b', 'PASSED', STUB.replace('test/a', 'test/b'))
        for cases, totals in (('*Wraps*', '1 passed, 1 failed, 0 skipped'),
                              ('*Huge*:Other', '0 passed, 1 failed, 1 skipped'),
                              ('*-*Wraps*', '0 passed, 1 failed, 2 skipped'),
                              ('*Wraps|Huge*', '0 passed, 1 failed, 0 skipped')):
            self.assertEqual(self.report(cases=cases).totals(), totals, cases)

    def test_a_filter_that_selects_nothing_tests_nothing(self):
        self.add_test('//test:a', 'PASSED', STUB)
        self.assertIn('nothing was tested', self.report(cases='*b*').lines)

    def test_shows_the_failure_in_the_middle_of_a_log(self):
        log = '[ RUN      ] Ring.Fills\nring.cc:9\noh\n%s[  FAILED  ] Ring.Fills\n' % ('talk\n' * 99)
        self.add_test('//test:ring', 'FAILED', GTEST, log)
        lines = self.report().lines
        self.assertIn('    | oh', lines)
        self.assertEqual(lines.count('    | talk'), summarize.TAIL_LINES - 2)

    def test_adds_shards(self):
        self.add_test('//test:ring', 'FAILED', GTEST)
        self.add_test('//test:ring', 'FAILED', GTEST, shard=2)
        self.assertEqual(self.report().totals(), '2 passed, 2 failed, 4 skipped')

    def test_counts_failure_after_all_cases_passed(self):
        passing = GTEST[:GTEST.index('<testcase name="Fills"')] + '</testsuite></testsuites>'
        self.add_test('//test:ring', 'FAILED', passing, 'leaked 8 bytes')
        report = self.report()
        self.assertEqual(report.totals(), '1 passed, 1 failed, 0 skipped')
        self.assertIn('    | leaked 8 bytes', report.lines)

    def test_counts_crash_and_timeout(self):
        self.add_test('//test:a', 'FAILED', STUB, 'boom')
        self.add_test('//test:b', 'TIMEOUT')
        self.assertEqual(self.report().totals(), '0 passed, 2 failed, 0 skipped')

    def test_counts_last_line_of_other_tests(self):
        log = 'SKIP far: no second machine\n1 passed, 0 failed, 0 skipped\n4 passed, 0 failed, 1 skipped\n'
        self.add_test('//test:a', 'PASSED', STUB, log)
        report = self.report()
        self.assertEqual(report.totals(), '4 passed, 0 failed, 1 skipped')
        self.assertIn('SKIP //test:a far: no second machine', report.lines)

    def test_counts_other_test_as_one(self):
        self.add_test('//test:a', 'PASSED', STUB, 'fine\n')
        self.assertEqual(self.report().totals(), '1 passed, 0 failed, 0 skipped')

    def test_ignores_totals_of_failed_test(self):
        self.add_test('//test:a', 'FAILED', STUB, '4 passed, 0 failed, 0 skipped\n')
        self.assertEqual(self.report().totals(), '4 passed, 1 failed, 0 skipped')

    def test_counts_targets_that_did_not_build(self):
        self.configured('//examples:a', is_test=False)
        self.completed('//examples:a', success=False)
        self.configured('//test:b')
        self.completed('//test:b', success=False)
        self.assertEqual(self.report(bazel_status=1).totals(), '0 passed, 2 failed, 0 skipped')

    def test_counts_test_without_result(self):
        self.configured('//test:a')
        self.completed('//test:a')
        self.assertEqual(self.report().totals(), '0 passed, 1 failed, 0 skipped')

    def test_counts_failure_of_bazel_itself(self):
        self.add_test('//test:a', 'PASSED', STUB)
        self.assertEqual(self.report(bazel_status=1).totals(), '1 passed, 1 failed, 0 skipped')
        missing = summarize.summarize('/nonexistent', bazel_status=37)
        self.assertEqual(missing.totals(), '0 passed, 1 failed, 0 skipped')

    def test_skips_left_out_targets(self):
        self.add_test('//test:a', 'PASSED', STUB)
        report = self.report(skips=[('//test:b', 'tagged'), ('//test:a', 'tagged')])
        self.assertEqual(report.totals(), '1 passed, 0 failed, 1 skipped')
        self.assertIn('SKIP //test:b: tagged', report.lines)

    def test_says_when_nothing_ran(self):
        report = self.report(bazel_status=4)
        self.assertEqual(report.totals(), '0 passed, 0 failed, 0 skipped')
        self.assertIn('nothing was tested', report.lines)


if __name__ == '__main__':
    result = unittest.main(exit=False, verbosity=0).result
    broken = len(result.failures) + len(result.errors)
    print(f'{result.testsRun - broken} passed, {broken} failed, 0 skipped', file=sys.stderr)
    sys.exit(bool(broken))
