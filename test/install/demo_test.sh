#!/bin/bash
# SPDX-License-Identifier: MIT
#
# README.md shows of ./dev demo what the examples print: the same lines, in that order, and the same
# last line. Figures may differ; the page gives ranges of latencies.
set -euo pipefail

shown() { awk '/^== send_recv_polling$/ { on = 1 } /^```$/ { on = 0 } on' README.md; }

# Numbers and addresses match any, and poll() matches io_uring, which a kernel may refuse.
forms() {
  sed -E -e 's/[0-9]+ to [0-9]+ /0 /' -e 's/0x[0-9a-f]+/ADDRESS/' -e '/^demo:/!s/[0-9]+/N/g' \
    -e 's/by poll\(\):/by io_uring:/'
}

export DEMO_SECONDS=300
examples/demo.sh . "${TEST_TMPDIR}" | tee "${TEST_TMPDIR}/printed"
forms <"${TEST_TMPDIR}/printed" >"${TEST_TMPDIR}/printed_forms"

[[ "$(shown | tail -n 1)" == "$(tail -n 1 "${TEST_TMPDIR}/printed")" ]]
if shown | grep ' latency ' | grep -vE ' latency [0-9]+ to [0-9]+ ns \(needs two free cores\): '; then
  echo 'README.md shows a latency without a range, or without its conditions'
  exit 1
fi
# Each line of the page is found after the one before it.
shown | forms | awk -v printed="${TEST_TMPDIR}/printed_forms" '
  {
    do {
      if ((getline line <printed) <= 0) { print "README.md shows, and nobody prints: " $0; exit 1 }
    } while (line != $0)
  }
  END { if (NR < 10) exit 1 }'
