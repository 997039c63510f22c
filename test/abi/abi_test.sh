#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs abi_test.py with files of the build: the test, a header, the version script, the library, the
# inventory.
set -eu

test=$1
header=$2
map=$3
library=$4
inventory=$5

exec python3 "$test" --include "$(dirname "$header")" --map "$map" --lib "$library" \
  --inventory "$inventory"
