#!/bin/bash
#
# usage: initramfs.sh FILE BUSYBOX [MODULE.ko...]
# Packs the first file system of a guest into FILE: busybox, the init next to this script, and the
# modules, which init loads in this order.

set -euo pipefail

here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
file="$(realpath "$1")"
busybox="$2"
shift 2

folder="$(mktemp -d)"
trap 'rm -rf "${folder}"' EXIT
mkdir -p "${folder}"/{bin,dev,host,modules,new,overlay,proc,sys}
cp "${busybox}" "${folder}/bin/busybox"
install -m 0755 "${here}/init" "${folder}/init"
printf '#!/bin/busybox sh\nexec /bin/busybox chroot /new /sbin/modprobe "$@"\n' \
  >"${folder}/modprobe"
chmod 0755 "${folder}/modprobe"
number=10
for module in "$@"; do
  cp "${module}" "${folder}/modules/${number}-${module##*/}"
  number=$((number + 1))
done
cd "${folder}"
find . | cpio -o -H newc --quiet >"${file}"
