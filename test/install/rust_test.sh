#!/bin/bash
# SPDX-License-Identifier: MIT
#
# docs/guide/rust.md with Debian's Rust packages: bindgen's layout tests pass, and the client of the
# page talks to the server of the getting-started page.
set -euo pipefail

export PATH="/usr/bin:${PATH}"
for program in bindgen rustc; do
  [[ -x "/usr/bin/${program}" ]] || { echo "SKIP: /usr/bin/${program} is not installed"; exit 0; }
done

source test/install/installed.sh
readonly page="${PWD}/docs/guide/rust.md" start="${PWD}/docs/guide/getting_started.md"
readonly prefix="${TEST_TMPDIR}/installed"
install_built "${prefix}"
export URMA_RUNTIME_DIR="${TEST_TMPDIR}/runtime" LD_LIBRARY_PATH="${prefix}/lib"
export PKG_CONFIG_PATH="${prefix}/lib/pkgconfig"

# Prints the block of a FILE that is marked with a word, for this installation.
block() {
  awk -v mark="\`\`\`$2" '$0 == mark { on = 1; next } /^```$/ { on = 0 } on' "$1" |
    sed "s|/usr/local|${prefix}|"
}

cd "${TEST_TMPDIR}"
for step in bindgen layout; do bash -euxc "$(block "${page}" "${step}")"; done

mkdir server
block "${start}" c >server/hello.c
(cd server && bash -euc "$(block "${start}" build)")
block "${page}" rust >hello.rs
bash -euxc "$(block "${page}" build)"
mkfifo told
timeout 60 server/hello server >told &
server=$!
exec 3<told
read -r line <&3
[[ "${line}" == ready ]]
[[ "$(timeout 60 bash -c "$(block "${page}" client)")" == sent ]]
[[ "$(cat <&3)" == 'received 6 bytes: hello' ]]
wait "${server}"
