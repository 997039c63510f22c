#!/bin/bash
# SPDX-License-Identifier: MIT
#
# distro.sh RELEASE COMMAND [ARGUMENT...]: runs ./dev COMMAND in another release of this
# distribution, on a copy of the files that standard input names, each followed by a zero byte. The
# release is made by debootstrap from the package source of this machine, and kept in
# ${URMA_DISTRO_CACHE:-~/.cache/urma-distro}.
# Programs that others expand are in single quotes.
# shellcheck disable=SC2016
set -euo pipefail

readonly ROOT="${URMA_DISTRO_CACHE:-${HOME}/.cache/urma-distro}/$1"

make_root() {
  local sources components
  sources="$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages')"
  components="$(awk 'NR == 1 { uri = $1 } $1 == uri { print $2 }' <<<"${sources}" | sort -u |
    paste -sd,)"
  echo "dev: making ${ROOT} (some 250 MiB)" >&2
  rm -rf "${ROOT}.part"
  mkdir -p "$(dirname "${ROOT}")"
  if ! debootstrap --variant=minbase --components="${components}" "$1" "${ROOT}.part" \
    "${sources%% *}" </dev/null >"${ROOT}.log" 2>&1; then
    tail -n 5 "${ROOT}.log" >&2
    echo "dev: debootstrap of $1 failed; see ${ROOT}.log" >&2
    return 1
  fi
  cp -a /etc/apt/apt.conf.d/. "${ROOT}.part/etc/apt/apt.conf.d/"
  mv "${ROOT}.part" "${ROOT}"
}

[[ -d "${ROOT}" ]] || make_root "$1"
shift
cp -L /etc/resolv.conf "${ROOT}/etc/resolv.conf"
rm -rf "${ROOT}/liburma"
mkdir "${ROOT}/liburma"
tar -c --null -T - | tar -x -C "${ROOT}/liburma"
# In a pid and a mount namespace of its own: processes and mounts end with it.
exec unshare --mount --pid --fork --kill-child bash -c '
  root="$1" && shift
  mount -t proc proc "${root}/proc" && mount --rbind /sys "${root}/sys" &&
    mount --rbind /dev "${root}/dev" || exit
  exec chroot "${root}" env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    TERM="${TERM:-dumb}" /liburma/dev "$@"' distro "${ROOT}" "$@"
