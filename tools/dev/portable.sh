#!/bin/bash
# SPDX-License-Identifier: MIT
#
# portable.sh DIR: prints what programs and libraries below DIR need that not every machine has, and
# fails if there is anything: glibc newer than 2.30, or libraries other than glibc's and libgcc_s.
# Modules for libraries that have to be the machine's own may need those.
set -euo pipefail

readonly BOUND=2.30

# Prints the libraries that the file $1 may need.
allowed() {
  printf '%s\n' ld-linux-x86-64.so.2 lib{c,m}.so.6 libdl.so.2 libpthread.so.0 \
    librt.so.1 libgcc_s.so.1 liburma.so.0
  case "$1" in
    */liburma-verbs.so) printf '%s\n' libibverbs.so.1 librdmacm.so.1 ;;
    */liburma-fi.so) echo libfabric.so.1 ;;
  esac
}

status=0
while IFS= read -r -d '' file; do
  dynamic="$(readelf --dynamic --wide "${file}" 2>/dev/null)" || continue
  newest="$(objdump -T "${file}" | grep -oP '\(GLIBC_\K[0-9.]+' | sort -V | tail -n 1)" || true
  libraries="$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"${dynamic}" |
    grep -vxFf <(allowed "${file}") | xargs)" || true
  [[ "$(printf '%s\n' "${BOUND}" "${newest}" | sort -V | tail -n 1)" == "${BOUND}" ]] ||
    { echo "${file} needs glibc ${newest}, newer than ${BOUND}"; status=1; }
  [[ -z "${libraries}" ]] || { echo "${file} needs ${libraries}"; status=1; }
done < <(find "$1" -type f \( -perm -u+x -o -name '*.so*' \) -print0)
exit "${status}"
