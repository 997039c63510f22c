#!/bin/bash
# SPDX-License-Identifier: MIT
#
# docs/guide/getting_started.md: its blocks are compiled and run here against an installation, and
# print what the page says. Without a server the client says so, and exits.
set -euo pipefail

source test/install/installed.sh
source test/install/page.sh
readonly page="${PWD}/docs/guide/getting_started.md" prefix="${TEST_TMPDIR}/installed"
install_built "${prefix}"
export URMA_RUNTIME_DIR="${TEST_TMPDIR}/runtime" LD_LIBRARY_PATH="${prefix}/lib"
export PKG_CONFIG_PATH="${prefix}/lib/pkgconfig"

cd "${TEST_TMPDIR}"
block c >hello.c
cc -std=c11 -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags urma) hello.c
bash -euc "$(block build)"

status=0
timeout 60 bash -c "$(block client)" >alone || status=$?
((status == 1)) || { echo "without a server the client ended with ${status}, not 1"; exit 1; }
grep -q 'the request failed: peer not reachable' alone

expect_server_and_client
