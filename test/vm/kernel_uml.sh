#!/bin/bash
#
# Prints the folder of the User Mode Linux kernel, and makes it first if it is not in the cache:
# `linux`, built from the source of Debian's kernel, and `xstate.so`, which it is run with. The
# distribution's own User Mode Linux has no RDMA.

set -euo pipefail

here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
source "${here}/cache.sh"

# Writes the configuration, and sees to it that nothing asked for was dropped.
configure() {
  make -s ARCH=um tinyconfig
  scripts/kconfig/merge_config.sh -m .config "${here}/uml.config" >&2
  make -s ARCH=um olddefconfig
  local wanted
  while read -r wanted; do
    grep -qxF "${wanted}" .config || vm_die "the kernel's configuration has dropped ${wanted}"
  done < <(grep '^CONFIG_' "${here}/uml.config")
}

make_kernel() {
  local folder="$1" source
  source="$(mktemp -d -p "${VM_CACHE}" work.XXXXXX)"
  # Left out are the largest parts that this kernel does not read.
  vm_unpack_source "${source}" --strip-components=1 --exclude='*/Documentation/devicetree' \
    --exclude='*/arch/*/boot/dts' --exclude='*/drivers/gpu/drm/amd/include/asic_reg' \
    --exclude='*/tools/testing'
  (
    cd "${source}"
    # Programs that wait for each other by polling take turns at this rate.
    sed -i '/^config HZ$/,/default/s/default .*/default 1000/' arch/um/Kconfig
    # The scheduler's clock. Without it, it is the number of ticks: the process that runs when one
    # comes pays for all of it, and two programs that wait for each other take turns by luck.
    echo 'unsigned long long notrace sched_clock(void) { return os_nsecs(); }' \
      >>arch/um/kernel/time.c
    configure
    nice -n 10 make -s ARCH=um -j"$(nproc)" linux
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
