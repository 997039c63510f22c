#!/bin/bash
#
# usage: kernel_arm64.sh arm64|arm64-16k|arm64-64k
# Prints the folder of the kernel of this flavour for QEMU, and makes it first if it is not in the
# cache: `vmlinuz`, `busybox`, and `lib/modules` with the modules listed below. Debian has no kernel
# with pages of 64 KiB: that one is built from the source of Debian's kernel, without modules.

set -euo pipefail

here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
source "${here}/cache.sh"

readonly MODULES=(9p 9pnet_virtio overlay)

copy_image() {
  local folder="$1" work="$2" package release
  package="$(vm_image "${flavour}")"
  release="${package#linux-image-}"
  dpkg -x "$(vm_package "${package}")" "${work}/image"
  cp "${work}/image/boot/vmlinuz-${release}" "${folder}/vmlinuz"
  vm_copy_modules "${work}/image" "${folder}" "${release}" "${MODULES[@]}"
  depmod -b "${folder}" "${release}"
}

build_image() {
  local folder="$1" work="$2"
  vm_unpack_kernel "${work}/source"
  (
    cd "${work}/source"
    export ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-
    vm_configure "${here}/arm64.config"
    nice -n 10 make -s -j"$(nproc)" Image
  ) >&2
  cp "${work}/source/arch/arm64/boot/Image" "${folder}/vmlinuz"
}

make_kernel() {
  local folder="$1" work
  vm_use_architecture arm64
  work="$(mktemp -d -p "${VM_CACHE}" work.XXXXXX)"
  dpkg -x "$(vm_package busybox-static)" "${work}/busybox"
  cp "${work}/busybox/bin/busybox" "${folder}/busybox"
  case "${flavour}" in
    arm64-64k) build_image "${folder}" "${work}" ;;
    *) copy_image "${folder}" "${work}" ;;
  esac
  rm -rf "${work}"
}

main() {
  readonly flavour="$1"
  local folder
  folder="$(vm_folder "${flavour}" "${BASH_SOURCE[0]}" "${here}/arm64.config")"
  vm_make_once "${folder}" make_kernel
}

main "$@"
