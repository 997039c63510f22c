#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The examples in Python, each as two processes.
set -euo pipefail

export DEMO_SECONDS=300 DEMO_EXAMPLES='send_recv.py segment.py event_loop.py'
examples/demo.sh python/examples "${TEST_TMPDIR}"
