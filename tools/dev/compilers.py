#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles the library, its tools and examples with each of the named compilers, by the flags of
CMakeLists.txt, and keeps nothing: a warning fails.

    compilers.py g++-13 clang++-19 ...

clang only parses the sources, which is where its warnings come from. Compilers that are not
installed are skipped. Prints a line for each compiler, then `N passed, N failed, N skipped`.
"""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]


def configured(cxx, folder):
    """The commands that CMake would run with this compiler."""
    cc = cxx.replace('clang++', 'clang').replace('g++', 'gcc')
    subprocess.run(['cmake', '-S', ROOT, '-B', folder, '-DURMA_LINK_TIME=OFF',
                    f'-DCMAKE_C_COMPILER={cc}', f'-DCMAKE_CXX_COMPILER={cxx}'],
                   check=True, stdout=subprocess.DEVNULL)
    commands = json.loads(pathlib.Path(folder, 'compile_commands.json').read_text())
    # A file that two targets compile is there twice.
    return list({command['file']: command for command in commands}.values())


def warnings_of(command, parse_only):
    words = shlex.split(command['command'])
    words[words.index('-o') + 1] = os.devnull
    if parse_only:
        words.append('-fsyntax-only')
    done = subprocess.run(words, cwd=command['directory'], capture_output=True, text=True)
    return done.stderr or (f'exit status {done.returncode}\n' if done.returncode != 0 else '')


def check(cxx):
    """True if the compiler has nothing to say."""
    with tempfile.TemporaryDirectory(prefix='urma-compilers.') as folder:
        try:
            commands = configured(cxx, folder)
        except subprocess.CalledProcessError:
            print(f'FAIL {cxx}: cmake')
            return False
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            said = list(pool.map(lambda command: warnings_of(command, 'clang' in cxx), commands))
    loud = [text for text in said if text]
    sys.stderr.writelines(loud)
    print(f'{"FAIL" if loud else "PASS"} {cxx}: {len(commands)} files, {len(loud)} with warnings',
          flush=True)
    return not loud


def main():
    compilers = sys.argv[1:]
    if not compilers:
        sys.exit(__doc__)
    there = [cxx for cxx in compilers if shutil.which(cxx)]
    for cxx in compilers:
        if cxx not in there:
            print(f'SKIP {cxx}: not installed')
    passed = sum([check(cxx) for cxx in there])
    print(f'{passed} passed, {len(there) - passed} failed, {len(compilers) - len(there)} skipped')
    return passed != len(there)


if __name__ == '__main__':
    sys.exit(main())
