#!/bin/bash
#
# Prints the folder of the User Mode Linux kernel, and makes it first if it is not in the cache:
# `linux`, built from the source of Debian's kernel, and `xstate.so`, which it is run with. The
# distribution's own User Mode Linux has no RDMA.

set -euo pipefail

here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
source "${here}/cache.sh"

make_kernel() {
  local folder="$1" source
  source="$(mktemp -d -p "${VM_CACHE}" work.XXXXXX)"
  vm_unpack_kernel "${source}"
  (
    cd "${source}"
    # Programs that wait for each other by polling take turns at this rate.
    sed -i '/^config HZ$/,/default/s/default .*/default 1000/' arch/um/Kconfig
    # The scheduler's clock. Without it, it is the number of ticks: the process that runs when one
    # comes pays for all of it, and two programs that wait for each other take turns by luck.
    echo 'unsigned long long notrace sched_clock(void) { return os_nsecs(); }' \
      >>arch/um/kernel/time.c
    export ARCH=um
    vm_configure "${here}/uml.config"
    nice -n 10 make -s -j"$(nproc)" linux
  ) >&2
  strip -o "${folder}/linux" "${source}/linux"
  gcc -O2 -shared -fPIC -o "${folder}/xstate.so" "${here}/uml_xstate.c"
  rm -rf "${source}"
}

main() {
  local folder
  folder="$(vm_folder uml "${BASH_SOURCE[0]}" "${here}/uml.config" "${here}/uml_xstate.c")"
  vm_make_once "${folder}" make_kernel
}

main
