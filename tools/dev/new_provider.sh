#!/bin/bash
# SPDX-License-Identifier: MIT
#
# new_provider.sh NAME: adds a provider to the tree it runs in: a copy of the loopback provider
# under that name, whose queues work within one process, and its test suite. Called by ./dev
# new-provider.
set -euo pipefail

[[ $# -eq 1 && "$1" =~ ^[a-z][a-z0-9]{0,23}$ ]] || {
  echo "usage: ./dev new-provider NAME; at most 24 lower-case letters and digits, a letter first" >&2
  exit 2
}
readonly name="$1" folder="urma/providers/$1" tests="test/$1"
for place in "${folder}" "${tests}"; do
  [[ ! -e "${place}" ]] || { echo "${place} exists; choose another name" >&2; exit 1; }
done

# Prints stdin with loopback's name replaced by the provider's.
renamed() {
  sed -e "s/LOOPBACK/${name^^}/g" -e "s/Loopback/${name^}/g" -e "s/loopback/${name}/g"
}

mkdir -p "${folder}" "${tests}"
for file in BUILD.bazel module.cc wire.cc wire.h; do
  renamed <"urma/providers/loopback/${file}" >"${folder}/${file}"
done
renamed <test/loopback/BUILD.bazel >"${tests}/BUILD.bazel"
renamed <test/loopback/loopback_test.cc >"${tests}/${name}_test.cc"
{
  echo
  sed -n '/^    name = "lib\/loopback\/liburma-loopback.so"/,/^)/p' BUILD.bazel |
    sed '1s/^/cc_binary(\n/' | renamed
} >>BUILD.bazel

cat <<END
made ${folder} and ${tests}, and lib/${name}/liburma-${name}.so in BUILD.bazel. Next:
  ./dev test ${tests}        the suite, as far as one process can ask: it passes
  ${folder}/wire.h           where bytes travel: carry them farther than this process
  test/install/BUILD.bazel   add //${folder}:sources to library_sources; then the tests there ask
                             for messages in docs/reference/errors.md and a line in
                             docs/internals/architecture.md
  docs/reference/conformance.md
                             what programs may count on
  CONTRIBUTING.md            "A new provider": what to write, in which order, and which tests
END
