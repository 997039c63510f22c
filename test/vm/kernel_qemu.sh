#!/bin/bash
#
# Prints the folder of Debian's kernel for QEMU, and makes it first if it is not in the cache:
# `vmlinuz`, and `lib/modules` with the modules listed below, unpacked and indexed.

set -euo pipefail

here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
source "${here}/cache.sh"

# The crc modules are asked for by name when a device is made; no symbol leads to them.
readonly MODULES=(
  9p 9pnet_virtio overlay
  dummy sch_netem veth
  ib_uverbs rdma_rxe rdma_ucm
  crc32_generic crc32c_generic libcrc32c
  amdgpu
)

# Builds Soft-iWARP, which Debian's configuration leaves out, against the headers' packages. Their
# files name each other by absolute paths: those are bent to where they are unpacked.
build_siw() {
  local work="$1" folder="$2" release="$3"
  local headers="${work}/headers" package file target
  for package in "linux-headers-${release}" "linux-headers-${release%-amd64}-common" \
    "linux-kbuild-${release%-amd64}"; do
    dpkg -x "$(vm_package "${package}")" "${headers}"
  done
  find "${headers}/usr/src" -maxdepth 2 -type f \( -name Makefile -o -name .kernelvariables \) \
    -exec sed -i "s#/usr/src/#${headers}/usr/src/#g" {} +
  while read -r file; do
    target="$(readlink "${file}")"
    [[ "${target}" != /usr/* ]] || ln -sfn "${headers}${target}" "${file}"
  done < <(find "${headers}/usr/src" -maxdepth 2 -type l)
  vm_unpack_source "${work}/siw" --strip-components=5 --wildcards '*/drivers/infiniband/sw/siw/*'
  make -s -C "${headers}/usr/src/linux-headers-${release}" M="${work}/siw" \
    CONFIG_RDMA_SIW=m CONFIG_DEBUG_INFO_BTF_MODULES= modules >&2
  mkdir -p "${folder}/lib/modules/${release}/extra"
  strip -g -o "${folder}/lib/modules/${release}/extra/siw.ko" "${work}/siw/siw.ko"
}

make_kernel() {
  local folder="$1" work package release
  package="$(vm_image amd64)"
  release="${package#linux-image-}"
  work="$(mktemp -d -p "${VM_CACHE}" work.XXXXXX)"
  dpkg -x "$(vm_package "${package}")" "${work}/image"
  cp "${work}/image/boot/vmlinuz-${release}" "${folder}/vmlinuz"
  vm_copy_modules "${work}/image" "${folder}" "${release}" "${MODULES[@]}"
  build_siw "${work}" "${folder}" "${release}"
  depmod -b "${folder}" "${release}"
  rm -rf "${work}"
}

main() {
  local folder
  folder="$(vm_folder qemu "${BASH_SOURCE[0]}")"
  vm_make_once "${folder}" make_kernel
}

main
