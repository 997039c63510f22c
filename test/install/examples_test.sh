#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The installed examples: they are with the documents, not with the tools, and find the library from
# there. They also build from their installed sources against the installed library, in another
# folder, after which the two programs talk to each other.
set -euo pipefail

source test/install/installed.sh
readonly prefix="${TEST_TMPDIR}/installed" work="${TEST_TMPDIR}/work"
readonly examples="${prefix}/share/doc/urma/examples"
install_built "${prefix}"

[[ ! -e "${prefix}/bin" ]] || { echo "in bin: $(ls "${prefix}/bin")"; exit 1; }
env -u LD_LIBRARY_PATH DEMO_EXAMPLES=segment "${examples}/demo.sh" "${examples}" "${TEST_TMPDIR}"

mkdir "${work}"
cd "${work}"
status=0
make -f "${examples}/Makefile" &>alone || status=$?
((status != 0))
grep -q 'pkg-config does not find urma; set PKG_CONFIG_PATH' alone

export PKG_CONFIG_PATH="${prefix}/lib/pkgconfig"
make --silent -j 2 -f "${examples}/Makefile" CFLAGS='-O0 -Wall -Werror' CXXFLAGS='-O0 -Wall -Werror'
export LD_LIBRARY_PATH="${prefix}/lib"
DEMO_EXAMPLES='segment segment_cc event_loop' "${examples}/demo.sh" "${work}" "${TEST_TMPDIR}"

# As examples/README.md describes by hand.
cp "${examples}"/*.[ch] "${TEST_TMPDIR}"
cd "${TEST_TMPDIR}"
bash -euc "$(grep '^cc ' "${examples}/README.md")"
{ ./segment || true; } 2>&1 | grep usage >/dev/null
./segment --help | grep usage >/dev/null
[[ "$({ "${work}/event_loop" client || true; } 2>&1 | grep -c usage)" == 1 ]]
{ URMA_DEVICE=none ./segment client 127.0.0.1 0 || true; } 2>&1 |
  grep '^connecting to 127.0.0.1, port 0, failed' >/dev/null
{ ./segment server 65536 || true; } 2>&1 | grep '^65536: not a port' >/dev/null
