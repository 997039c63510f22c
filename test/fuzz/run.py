#!/usr/bin/env python3
"""Runs fuzzers, and prints the result of each.

Each begins with its inputs of the archive (seeds.py) and those that earlier runs have left in
out/fuzz/NAME/found. An input that ends a fuzzer is kept in out/fuzz/NAME. The last line is
`N passed, N failed, N skipped`. With --merge, runs nothing for long: gives the archive, instead of
the inputs that it has, the fewest of both places that reach as much code.
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time

import seeds

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
OUT = os.path.join(ROOT, 'out', 'fuzz')
TOGETHER = 420  # Seconds of wall time for all, so that with starts and ends it is below 8 minutes.
LONGEST = 2048  # Bytes of an input.
MOST_INPUTS = 40  # Of a fuzzer in the archive.
TAIL_LINES = 60
# Lines of the library, and of a fuzzer without a finding: not why it ended.
PROGRESS = re.compile(r'\[URMA\]|#\d+\s|\s*NEW_FUNC')
# Why it ended, and on what: printed first, since only the beginning of a long output may be shown.
REASON = re.compile(r'\s*WRONG:|broken: |terminate called|\s*what\(\):|.*runtime error:|'
                    r'==\d+==\s*ERROR|SUMMARY:|ALARM:|Base64:')
FIGURES = re.compile(r'^#(\d+)\s+(?:DONE|pulse|NEW|REDUCE|RELOAD|INITED)\s.*?cov: (\d+) ft: (\d+)'
                     r'(?: corp: (\d+)/)?', re.MULTILINE)
OPTIONS = {
    'ASAN_OPTIONS': 'detect_stack_use_after_return=1:strict_string_checks=1:'
                    'allocator_may_return_null=1:handle_abort=1',
    'UBSAN_OPTIONS': 'print_stacktrace=1',
}


def folder(name, *more):
    path = os.path.join(OUT, name, *more)
    os.makedirs(path, exist_ok=True)
    return path


def command(binary, name, *more):
    # Long inputs from the start: many steps take many bytes.
    return [binary, f'-max_len={LONGEST}', '-len_control=0', '-timeout=25', '-rss_limit_mb=4096',
            f'-artifact_prefix={folder(name)}/', *more]


def run(binary, name, seconds, seed):
    """Returns whether it succeeded, and a line about it."""
    with tempfile.TemporaryDirectory() as corpus:
        seeds.unpack(name, corpus)
        return run_from(corpus, binary, name, seconds, seed)


def run_from(corpus, binary, name, seconds, seed):
    args = command(binary, name, f'-max_total_time={seconds}', f'-seed={seed}',
                   '-print_final_stats=1', folder(name, 'found'), corpus)
    begun = time.monotonic()
    log = os.path.join(folder(name), 'log')
    with open(log, 'wb') as output:
        status = subprocess.run(args, stdout=output, stderr=subprocess.STDOUT, check=False,
                                env={**os.environ, **OPTIONS}).returncode
    with open(log, encoding='utf-8', errors='replace') as output:
        text = output.read()
    figures = FIGURES.findall(text)
    last = figures[-1] if figures else ('0', '0', '0', '')
    line = (f'{name}: {last[0]} executions in {time.monotonic() - begun:.0f} s, coverage {last[1]} '
            f'edges, {last[2]} features, seed {seed}')
    if status == 0:
        return True, line
    kept = re.findall(r'Test unit written to (\S+)', text)
    again = (f'{binary} {kept[-1]}; to keep it: test/fuzz/seeds.py add {name} {kept[-1]}'
             if kept else ' '.join(args))
    rows = [row for row in text.splitlines() if not PROGRESS.match(row)]
    shown = [row for row in rows if REASON.match(row)] + ['its last lines:'] + rows[-TAIL_LINES:]
    return False, '\n    | '.join([f'FAIL {line}; to repeat it: {again}', *shown])


def merge(binary, name):
    """Recreates the inputs of the fuzzer in the archive."""
    with tempfile.TemporaryDirectory() as corpus, tempfile.TemporaryDirectory() as kept:
        seeds.unpack(name, corpus)
        subprocess.run(command(binary, name, '-set_cover_merge=1', '-use_counters=0', kept,
                               corpus, folder(name, 'found')),
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
                       env={**os.environ, **OPTIONS})
        chosen = sorted(os.scandir(kept), key=lambda entry: entry.stat().st_size)[-MOST_INPUTS:]
        seeds.replace(name, [entry.path for entry in chosen])
    print(f'{name}: {len(chosen)} inputs')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--bin', required=True, help='bazel-bin of the build for fuzzing')
    parser.add_argument('--seconds', type=int, help='for each; else all share some minutes')
    parser.add_argument('--seed', type=int, default=int(time.time()) & 0x7fffffff)
    parser.add_argument('--merge', action='store_true')
    parser.add_argument('names', nargs='+')
    args = parser.parse_args()
    binaries = {name: os.path.join(args.bin, 'test', 'fuzz', name) for name in args.names}
    if args.merge:
        for name, binary in binaries.items():
            merge(binary, name)
        return 0
    at_once = min(len(args.names), os.cpu_count() or 1)
    rounds = -(-len(args.names) // at_once)
    seconds = args.seconds or TOGETHER // rounds
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for well, line in pool.map(lambda name: run(binaries[name], name, seconds, args.seed),
                                   args.names):
            print(line, flush=True)
            failed += not well
    print(f'{len(args.names) - failed} passed, {failed} failed, 0 skipped')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
