#!/bin/bash
# SPDX-License-Identifier: MIT
#
# docs/guide/python.md against an installation: the programs in its blocks run and print what the
# page says, the package finds the library that it was installed with, and the examples find each
# other. The program of README.md runs, too.
set -euo pipefail

readonly python=/usr/bin/python3
"${python}" -c 'import cffi' 2>/dev/null || { echo "SKIP: python3-cffi is not installed"; exit 0; }

source test/install/installed.sh
source test/install/page.sh
readonly page="${PWD}/docs/guide/python.md" readme="${PWD}/README.md"
readonly prefix="${TEST_TMPDIR}/installed" demo="${PWD}/examples/demo.sh"
install_built "${prefix}"
export URMA_RUNTIME_DIR="${TEST_TMPDIR}/runtime"
PYTHONPATH="$(echo "${prefix}"/lib/python3.*/dist-packages)"
export PYTHONPATH
mkdir "${TEST_TMPDIR}/bin"
ln -s "${python}" "${TEST_TMPDIR}/bin/python3"
export PATH="${TEST_TMPDIR}/bin:${PATH}"

cd "${TEST_TMPDIR}"
block py >pieces.py
python3 pieces.py

block python >hello.py
expect_server_and_client

# Its server prints nothing before it has received, so the client retries until it is there.
block python "${readme}" >first.py
timeout 60 python3 first.py server >first.txt &
server=$!
until timeout 60 python3 first.py client 2>/dev/null; do kill -0 "${server}"; done
wait "${server}"
[[ "$(cat first.txt)" == 'received: hello' ]]

DEMO_EXAMPLES='send_recv.py segment.py event_loop.py' DEMO_SECONDS=300 \
  "${demo}" "${prefix}/share/doc/urma/examples/python" "${TEST_TMPDIR}"
