#!/usr/bin/env python3
"""Summarizes the tests of one Bazel run from their results.

Reads the events that Bazel wrote (--build_event_json_file) and the test.xml and
test.log of each target. GoogleTest cases are counted one by one. Another test
counts by its last line `N passed, N failed, N skipped`, else as one.
A target that did not build, crashed, timed out or left no result counts as at
least one failure. Prints every failure and every skip with its reason, and as
the last line the totals. Exits with 0 if something passed and nothing failed.
With a filter of GoogleTest, only the cases that it selects count, besides failures: a target may
run others, by arguments of its own.
"""

import argparse
import fnmatch
import json
import os
import re
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

TOTALS = re.compile(r'^(\d+) passed, (\d+) failed, (\d+) skipped$')
SKIP_LINE = re.compile(r'^SKIP(?:PED)?:?\s+(.*)$')
LOG_HEAD = re.compile(r'\Aexec \$\{PAGER.*\n(?:Executing tests from .*\n-+\n)?')
TAIL_LINES = 40
TESTS_FAILED, NO_TESTS = 3, 4  # Exit codes of Bazel that are no failure of the build.


class Report:
    """The totals, and the lines that explain them."""

    def __init__(self, cases=''):
        self.passed = self.failed = self.skipped = 0
        self.lines = []
        self.cases = cases  # A filter of GoogleTest; without one, everything counts.

    def selects(self, case=''):
        """Whether a case counts if it does not fail, or, without a name, a whole program."""
        wanted, _, unwanted = self.cases.partition('-')

        def any_of(patterns):
            return any(fnmatch.fnmatchcase(case, pattern) for pattern in patterns.split(':'))

        return not self.cases or (case != '' and any_of(wanted) and not any_of(unwanted))

    def fail(self, name, log=''):
        self.failed += 1
        self.lines.append(f'FAIL {name}')
        self.lines += ['    | ' + line for line in log.rstrip().splitlines()[-TAIL_LINES:]]

    def skip(self, name, reason):
        self.skipped += 1
        self.lines.append(f'SKIP {name}: {" ".join(reason.split()) or "no reason given"}')

    def totals(self):
        return f'{self.passed} passed, {self.failed} failed, {self.skipped} skipped'


class Target:
    """The events of one label."""

    def __init__(self):
        self.is_test = False
        self.problem = ''  # Why it was not built.
        self.results = {}  # (run, shard) -> (attempt, status, {file name: path}, cached)


def read_events(path):
    """Returns the targets by label, and the messages of other aborted events."""
    targets, problems = {}, []
    try:
        with open(path, encoding='utf-8') as file:
            events = [json.loads(line) for line in file if line.strip()]
    except (OSError, ValueError) as error:
        return {}, [f'no events from Bazel: {error}']
    for event in events:
        ((kind, key),) = event['id'].items()
        label = key.get('label')
        if kind == 'targetConfigured' and 'configured' in event:
            target = targets.setdefault(label, Target())
            target.is_test = 'testSize' in event['configured']
        elif kind == 'targetCompleted' and not event.get('completed', {}).get('success'):
            aborted = event.get('aborted', {})
            if aborted.get('reason') != 'SKIPPED':
                problem = aborted.get('description') or 'did not build'
                targets.setdefault(label, Target()).problem = problem
        elif kind == 'testResult' and 'testResult' in event:
            add_result(targets.setdefault(label, Target()), key, event['testResult'])
        elif 'aborted' in event and label is None:
            aborted = event['aborted']
            problems.append(aborted.get('description') or aborted.get('reason', kind))
    return targets, problems


def add_result(target, key, result):
    target.is_test = True
    place = (key.get('run', 1), key.get('shard', 1))
    attempt = key.get('attempt', 1)
    if place in target.results and target.results[place][0] > attempt:
        return
    files = {}
    for output in result.get('testActionOutput', []):
        uri = urllib.parse.urlparse(output.get('uri', ''))
        files[output.get('name')] = urllib.parse.unquote(uri.path)
    cached = result.get('cachedLocally', False)
    target.results[place] = (attempt, result.get('status', 'NO_STATUS'), files, cached)


def read_text(path):
    """Returns the text of a file without Bazel's head of a test.log; '' if there is no file."""
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            return LOG_HEAD.sub('', file.read())
    except (OSError, TypeError):
        return ''


def gtest_cases(path, label):
    """Returns the <testcase> elements of GoogleTest; None if the file is Bazel's own or broken."""
    try:
        cases = list(ElementTree.parse(path).getroot().iter('testcase'))
    except (OSError, TypeError, ElementTree.ParseError):
        return None
    stub = label.lstrip('/').replace(':', '/')
    if len(cases) == 1 and cases[0].get('name', '').startswith(stub):
        return None
    return cases


def count_cases(report, label, cases, log):
    for case in cases:
        name_in_program = f'{case.get("classname", "")}.{case.get("name", "")}'
        name = f'{label} {name_in_program}'
        skipped = case.find('skipped')
        failures = case.findall('failure') + case.findall('error')
        if failures:
            text = '\n'.join(failure.text or failure.get('message', '') for failure in failures)
            report.fail(name, explain(text, case_log(log, case)))
        elif not report.selects(name_in_program):
            continue
        elif skipped is not None:
            place, _, reason = (skipped.get('message') or skipped.text or '').partition('\n')
            report.skip(name, f'{reason.strip() or "no reason given"} ({place})')
        elif case.get('status') == 'notrun':
            report.skip(name, 'disabled in the source')
        else:
            report.passed += 1


def explain(text, log):
    """Returns the failures, then the end of the log, where they may be too far up to be shown."""
    shown = log.rstrip().splitlines()[-TAIL_LINES:]
    if all(line in shown for line in text.splitlines()):
        return log
    heads = text.splitlines()[:TAIL_LINES // 2]
    return '\n'.join(heads + shown[len(heads) - TAIL_LINES:])


def case_log(log, case):
    """Returns the log between the start and the end of one case."""
    name = re.escape(f'{case.get("classname", "")}.{case.get("name", "")}')
    found = re.search(rf'^\[ RUN      \] {name}$\n(.*?)^\[  FAILED  \] {name}', log, re.M | re.S)
    return found.group(1) if found else ''


def count_log(report, label, status, log):
    """Counts a test other than GoogleTest: by its own totals, else as one."""
    lines = log.rstrip().splitlines()
    found = next((TOTALS.match(line) for line in reversed(lines) if TOTALS.match(line)), None)
    if not found:
        if status == 'PASSED' and report.selects():
            report.passed += 1
        return
    passed, failed, skipped = map(int, found.groups())
    if not report.selects():
        passed = skipped = 0
    report.passed += passed
    for number in range(failed):
        report.fail(f'{label} ({number + 1} of {failed} that it reports)', '' if number else log)
    reasons = [match.group(1) for match in map(SKIP_LINE.match, lines) if match]
    for number in range(skipped):
        name, _, reason = (reasons[number] if number < len(reasons) else '').partition(': ')
        report.skip(f'{label} {name}' if reason else label, reason or name)


def count_target(report, label, target):
    if target.problem or (target.is_test and not target.results):
        report.fail(f'{label}: {target.problem or "left no result"}')
        return
    for (run, shard), (_, status, files, _) in sorted(target.results.items()):
        log = read_text(files.get('test.log'))
        failed_before = report.failed
        cases = gtest_cases(files.get('test.xml'), label)
        if cases is None:
            count_log(report, label, status, log)
        else:
            count_cases(report, label, cases, log)
        if status != 'PASSED' and report.failed == failed_before:
            place = f' (run {run}, shard {shard})' if len(target.results) > 1 else ''
            report.fail(f'{label}{place}: {status}', log)


def summarize(events, bazel_status=0, skips=(), cases=''):
    """Returns the Report on the events in a file."""
    report = Report(cases)
    targets, problems = read_events(events)
    for label, target in sorted(targets.items()):
        count_target(report, label, target)
    for label, reason in skips:
        if label not in targets:
            report.skip(label, reason)
    if bazel_status not in (0, TESTS_FAILED, NO_TESTS) and not report.failed:
        report.fail(f'Bazel ended with {bazel_status}', '\n'.join(problems))
    if not report.passed and not report.failed:
        report.lines.append('nothing was tested')
    cached = sum(result[3] for target in targets.values() for result in target.results.values())
    if cached:
        report.lines.append(f'{cached} test programs are unchanged; their last results are counted')
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--events', required=True, help='file of --build_event_json_file')
    parser.add_argument('--bazel-status', type=int, default=0, help='exit status of Bazel')
    parser.add_argument('--skips', default=os.devnull, help='file of lines label<TAB>reason')
    parser.add_argument('--cases', default='', help='filter of GoogleTest')
    options = parser.parse_args()
    skips = [line.split('\t', 1) for line in read_text(options.skips).splitlines()]
    report = summarize(options.events, options.bazel_status, skips, options.cases)
    print('\n'.join(report.lines + [report.totals()]))
    sys.exit(0 if report.passed and not report.failed else 1)


if __name__ == '__main__':
    main()
