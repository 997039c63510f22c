#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The initial inputs of fuzzers: test/fuzz/corpus.tar.gz, which has corpus/NAME/HASH.

    seeds.py add NAME FILE...  puts inputs in, for the fuzzer NAME
    seeds.py list              says how many each fuzzer has

Equal inputs make equal archives: their order is that of their names, and they have neither times
nor owners.
"""

import argparse
import gzip
import hashlib
import io
import os
import sys
import tarfile

ARCHIVE = os.path.join(os.path.dirname(os.path.realpath(__file__)), 'corpus.tar.gz')


def read():
    """Returns the inputs of each fuzzer."""
    inputs = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            name = member.name.split('/')[1]
            inputs.setdefault(name, set()).add(archive.extractfile(member).read())
    return inputs


def write(inputs):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode='w', format=tarfile.USTAR_FORMAT) as archive:
        for path, data in sorted((f'corpus/{name}/{hashlib.sha1(data).hexdigest()}', data)
                                 for name, each in inputs.items() for data in each):
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    # Written next to the old one, then renamed: an interrupted run leaves the old one intact.
    with open(ARCHIVE + '.new', 'wb') as file:
        file.write(gzip.compress(packed.getvalue(), mtime=0))
    os.replace(ARCHIVE + '.new', ARCHIVE)


def read_files(paths):
    data = set()
    for path in paths:
        with open(path, 'rb') as file:
            data.add(file.read())
    return data


def unpack(name, folder):
    """Writes the inputs of one fuzzer into a folder."""
    for data in read().get(name, ()):
        with open(os.path.join(folder, hashlib.sha1(data).hexdigest()), 'wb') as file:
            file.write(data)


def replace(name, paths):
    """Replaces the inputs of a fuzzer."""
    write({**read(), name: read_files(paths)})


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='command', required=True)
    add = commands.add_parser('add')
    add.add_argument('name')
    add.add_argument('files', nargs='+')
    commands.add_parser('list')
    args = parser.parse_args()
    inputs = read()
    if args.command == 'add':
        inputs.setdefault(args.name, set()).update(read_files(args.files))
        write(inputs)
    for name in sorted(inputs):
        print(f'{name}: {len(inputs[name])} inputs')
    return 0


if __name__ == '__main__':
    sys.exit(main())
