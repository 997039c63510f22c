#!/usr/bin/env python3
"""Runs the jobs of jobs.py in guests, and prints the result of each case.

FILTER chooses the cases that have it in their name `GUEST JOB CASE`; if none has, all Bazel tests
are run with those test cases that have it in theirs. Guests of arm64 run only if it begins with
that. The last line is `N passed, N failed, N skipped`. With --targets BUILD, prints instead what
Bazel has to build: with a --config of that name, with none if it is empty, or for aarch64.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import xml.etree.ElementTree as ElementTree

sys.dont_write_bytecode = True
from cases import ARM64, GUESTS, Case, build_of  # pylint: disable=wrong-import-position
from jobs import JOBS  # pylint: disable=wrong-import-position

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DEVICES = Case('devices', ['test/vm/devices.sh'], limit=30)
KFD = Case('kfd', ['test/vm/kfd.sh'], limit=10)
STATUS = {0: 'PASSED', 124: 'TIMEOUT', 137: 'TIMEOUT'}
KERNEL_LOG_LINES = 38


def choose(jobs, text):
    """Returns what FILTER selects: (guest, Job) pairs, and the filter for test cases."""
    def reduce(keep):
        pairs = []
        for job in jobs:
            for guest in job.guests:
                if guest in ARM64 and not text.startswith(ARM64[0]):
                    continue
                cases = [case for case in job.cases if keep(guest, job, case)]
                if cases:
                    pairs.append((guest, dataclasses.replace(job, cases=cases)))
        return pairs

    named = reduce(lambda guest, job, case: text in f'{guest} {job.name} {case.name}')
    return (named, '*') if named else (reduce(lambda guest, job, case: case.label), f'*{text}*')


def rule_environments(labels):
    """Returns what the rules of Bazel tests set in their environments, by label."""
    if not labels:
        return {}
    query = ['bazel', 'query', '--noshow_progress', '--output=xml', f'set({" ".join(labels)})']
    text = subprocess.run(query, cwd=ROOT, check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout
    environments = {}
    for rule in ElementTree.fromstring(text).iter('rule'):
        package = rule.get('name')[len('//'):].partition(':')[0]
        pairs = [[string.get('value') for string in pair]
                 for pair in rule.findall('dict[@name="env"]/pair')]
        environments[rule.get('name')] = {name: expand(value, package) for name, value in pairs}
    return environments


def expand(value, package):
    """Returns VALUE with each $(rootpath LABEL) replaced, as Bazel does."""
    def path(match):
        folder, name = match.group(1) or f'//{package}', match.group(2)
        return os.path.join(folder[len('//'):], name)

    return re.sub(r'\$\(rootpath (//[^:)]*)?:([^)]+)\)', path, value)


class Guest:
    """One boot: a job, and the folder that it shares with this machine."""

    def __init__(self, kind, job, folder):
        self.kind, self.job, self.folder = kind, job, folder
        self.first = [case for case, wanted in [(DEVICES, job.devices), (KFD, job.kfd)] if wanted]
        self.cases = self.first + job.cases
        self.ended = ''  # Why no more results can come.

    def name(self, case):
        return f'{self.kind} {self.job.name} {case.name}'

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_job(self, bins, environments, test_filter):
        """Writes the script that runs the cases. Without its devices, a job is over."""
        lines = [f'cd {shlex.quote(ROOT)} && source test/vm/guest.sh || exit']
        for number, case in enumerate(self.cases):
            words = ['run_case', str(number), str(case.limit * GUESTS[self.kind]), self.name(case)]
            words += program(case, self.kind, bins, environments, test_filter)
            lines.append(shlex.join(words) + (' || exit' if case in self.first else ''))
        with open(self.path('job'), 'w', encoding='utf-8') as file:
            file.write('\n'.join(lines + ['exit 0', '']))

    def boot(self, processor):
        """Runs the job. User Mode Linux reads and makes files as root only."""
        as_root = []
        if self.kind == 'uml' and os.geteuid() != 0:
            # Otherwise the kernel would be built as root.
            subprocess.run([os.path.join(HERE, 'kernel_uml.sh')], check=False,
                           stdout=subprocess.DEVNULL)
            as_root = ['sudo', '--preserve-env=HOME,URMA_VM_CACHE']
        boot = [*as_root, os.path.join(HERE, 'boot.sh'), self.kind, self.folder,
                str(self.job.seconds)]
        # The kernel of User Mode Linux and its programs alternate. If one wakes the other on
        # another idle processor, a system call takes five times as long.
        boot += [str(processor)] if self.kind == 'uml' else []
        status = subprocess.run(boot, check=False).returncode
        if status:
            self.ended = f'boot.sh ended with {status}'
            if status == 124:
                self.ended = f'the limit of {self.job.seconds} s for this guest was exceeded'

    def events(self, test_filter):
        """Yields the result of each case, in the form of Bazel's events."""
        log_shown = False
        for number, case in enumerate(self.cases):
            files = {'test.log': self.path(f'{number}.log'), 'test.xml': self.path(f'{number}.xml')}
            status = read(self.path(f'{number}.status')).partition(' ')[0]
            if not status:
                append(files['test.log'], self.why_missing(not log_shown))
                log_shown = True
            elif status == '0' and test_filter == '*' and case.label and runs_nothing(files):
                append(files['test.log'], f'no test case is like "{case.only}"\n')
                status = '1'
            elif status == '0' and test_filter != '*' and case in self.first:
                continue  # It runs before the selected test cases, and is not one.
            # The measurements of a case are shown, whatever its result.
            print(''.join(line for line in read(files['test.log']).splitlines(keepends=True)
                          if line.startswith('|')), end='', flush=True)
            yield {
                'id': {'testResult': {'label': self.name(case)}},
                'testResult': {
                    'status': STATUS.get(int(status), 'FAILED') if status else 'NO_STATUS',
                    'testActionOutput': [
                        {'name': name, 'uri': 'file://' + urllib.parse.quote(path)}
                        for name, path in files.items() if os.path.exists(path)
                    ],
                },
            }

    def why_missing(self, first):
        """Returns the message for a case without a status; the kernel's log only once."""
        if not first:
            return 'was not run: see the first case that failed\n'
        log = read(self.path('kernel.log')).splitlines()[-KERNEL_LOG_LINES:]
        head = f'has no status: {self.ended or "the job ended before this case did"}. '
        return '\n'.join([head + 'The end of the log of its kernel:'] + log + [''])


def program(case, kind, bins, environments, test_filter):
    """Returns the command that runs a case in a guest of this kind; a Bazel test as Bazel does."""
    if not case.label:
        settings, folder = case.environment, ROOT
        command = [word.replace('{bin}', bins[build_of(kind, case)]) for word in case.command]
    else:
        binary = os.path.join(bins[build_of(kind, case)], case.label[len('//'):].replace(':', '/'))
        folder = f'{binary}.runfiles/urma'
        wanted = case.only if test_filter == '*' else test_filter
        settings = {'GTEST_FILTER': f'{wanted}-{case.leave_out.get(kind, "")}', 'TZ': 'UTC',
                    'URMA_TEST_PATIENCE': '5'}
        settings.update(environments[case.label], **case.environment)
        command = [binary]
    return (['env', '-C', folder] + [f'{name}={value}' for name, value in settings.items()] +
            command)


def runs_nothing(files):
    """Returns whether GoogleTest has written that it found no test case."""
    return '<testsuites' in read(files['test.xml']) and '<testcase' not in read(files['test.xml'])


def append(path, text):
    """Appends to a file that may belong to root, in a folder of this user."""
    text = read(path) + text
    if os.path.exists(path):
        os.unlink(path)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def read(path):
    """Returns the text in a file; '' without one."""
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            return file.read()
    except OSError:
        return ''


def cannot_boot(kind):
    """Returns why this user can boot no guest of KIND; '' if it can."""
    if kind == 'uml' and os.geteuid() != 0 and not shutil.which('sudo'):
        return 'User Mode Linux needs root, and there is no sudo; run ./dev vm as root'
    if kind in ARM64 and os.geteuid() != 0:
        return 'a cross build needs root; run ./dev vm as root'
    return ''


def boot_all(guests):
    """Boots the guests, two at a time, and last those that must run alone."""
    waiting = collections.deque(guest for guest in guests if not guest.job.alone)
    processors = sorted(os.sched_getaffinity(0))

    def boot_from(take, processor):
        while waiting:
            try:
                guest = take()
            except IndexError:  # The other one was faster.
                return
            guest.boot(processor)

    # One from each end: mostly one guest of QEMU, with threads for two processors, runs beside one
    # of User Mode Linux.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(boot_from, [waiting.popleft, waiting.pop], [processors[0], processors[-1]]))
    for guest in guests:
        if guest.job.alone:
            guest.boot(processors[-1])


def run(pairs, bins, test_filter):
    """Runs each job, and prints the summary. Returns the exit status."""
    labels = {case.label for _, job in pairs for case in job.cases if case.label}
    environments = rule_environments(labels)
    folder = tempfile.mkdtemp(prefix='urma-vm.')
    guests = []
    skips = os.path.join(folder, 'skips')
    with open(skips, 'w', encoding='utf-8') as file:
        for kind, job in pairs:
            guest = Guest(kind, job, tempfile.mkdtemp(prefix=f'{kind}-{job.name}.', dir=folder))
            if reason := cannot_boot(kind):
                file.writelines(f'{guest.name(case)}\t{reason}\n' for case in guest.cases)
                continue
            guest.write_job(bins, environments, test_filter)
            guests.append(guest)
    boot_all(sorted(guests, key=lambda guest: guest.kind))
    with open(os.path.join(folder, 'events'), 'w', encoding='utf-8') as events:
        for guest in guests:
            events.writelines(json.dumps(event) + '\n' for event in guest.events(test_filter))
    summary = [os.path.join(ROOT, 'tools/dev/summarize.py'), '--events', events.name,
               '--skips', skips]
    done = subprocess.run([sys.executable] + summary, check=False, stdout=subprocess.PIPE)
    if done.returncode:
        print(f'vm: logs are kept in {folder}', file=sys.stderr, flush=True)
    else:
        shutil.rmtree(folder)
    # The totals are the very last line.
    sys.stdout.buffer.write(done.stdout)
    return done.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--targets', metavar='BUILD', help='print what has to be built')
    parser.add_argument('--bin', action='append', default=[], metavar='BUILD=FOLDER',
                        help="where Bazel's outputs of BUILD are")
    parser.add_argument('filter', nargs='?', default='')
    options = parser.parse_args()
    guests, test_filter = choose(JOBS, options.filter)
    if options.targets is not None:
        cases = [case for guest, job in guests for case in job.cases
                 if build_of(guest, case) == options.targets and not cannot_boot(guest)]
        labels = {label for case in cases for label in [case.label, *case.needs] if label}
        for label in sorted(labels):
            print(label)
        return 0
    bins = dict(folder.split('=', 1) for folder in options.bin)
    return run(guests, bins, test_filter)


if __name__ == '__main__':
    sys.exit(main())
