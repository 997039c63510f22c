#!/bin/bash
# SPDX-License-Identifier: MIT
#
# deb.sh STAGE OUT: makes Debian packages in the folder OUT of what `./dev install --prefix /usr`
# has put into STAGE, and prints their paths. Run in the root of the tree; ./dev deb does. Who makes
# them for others says who that is: DEBFULLNAME, DEBEMAIL.
set -euo pipefail

(($# == 2)) || { echo "usage: $0 STAGE OUT" >&2; exit 2; }
stage="$(realpath "$1")"
mkdir -p "$2"
out="$(realpath "$2")"
work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT

version="$(sed -n 's/^Version: //p' packaging/urma.pc.in)"
triplet="$(dpkg-architecture -qDEB_HOST_MULTIARCH)"
architecture="$(dpkg-architecture -qDEB_HOST_ARCH)"
maintainer="${DEBFULLNAME:-liburma} <${DEBEMAIL:-liburma@localhost.localdomain}>"
readonly stage out work version triplet architecture maintainer
readonly libdir="usr/lib/${triplet}"
readonly tools=(urma_admin urma_perftest urma_ping urma_run)

# Moves FILE... of the stage into the folder DEST of PACKAGE.
take() {
  local package="$1" dest="${work}/$1/$2"
  shift 2
  mkdir -p "${dest}"
  local file
  for file in "$@"; do cp -P "${stage}/usr/${file}" "${dest}/"; done
}

# The libraries of liburma0 that others link.
shared_libraries() { printf "%s 0 liburma0 (>= ${version})\n" libtpsa liburma liburma_common; }

# What the programs and libraries of PACKAGE need, as dpkg-shlibdeps finds it.
needed() {
  local files
  mapfile -t files < <(find "${work}/$1" -type f \( -path '*/bin/*' -o -name '*.so*' \))
  ((${#files[@]})) || return 0
  mkdir -p "${work}/source/debian"
  printf 'Source: liburma\n\nPackage: %s\nArchitecture: any\n' "$1" >"${work}/source/debian/control"
  shared_libraries >"${work}/source/debian/shlibs.local"
  (cd "${work}/source" && dpkg-shlibdeps -O "-x$1" "-l${work}/liburma0/${libdir}" "${files[@]/#/-e}") |
    sed -n 's/^shlibs:Depends=//p'
}

# Writes what every package has, and builds PACKAGE: section, what it depends on besides, texts,
# and what it recommends.
build() {
  local package="$1" section="$2" depends="$3" summary="$4" about="$5" recommends="${6:-}"
  local root="${work}/${package}" doc="${work}/${package}/usr/share/doc/${package}" found
  mkdir -p "${root}/DEBIAN" "${doc}"
  {
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n'
    printf 'Files: *\nCopyright: %s\nLicense: MIT\n' "$(sed -n 's/^Copyright (c) //p' LICENSE)"
    sed -e '1,/^Copyright/d' LICENSE | sed -e '/./,$!d' -e 's/^$/./' -e 's/^/ /'
  } >"${doc}/copyright"
  printf 'liburma (%s) unstable; urgency=medium\n\n  * See %s.\n\n -- %s  %s\n' "${version}" \
    "CHANGELOG.md in the sources" "${maintainer}" \
    "$(date -R -ud "@${SOURCE_DATE_EPOCH}")" | gzip -9n >"${doc}/changelog.gz"
  find "${root}/usr/share/man" -type f -exec gzip -9n {} + 2>/dev/null || true
  find "${root}" -type f \( -path '*/bin/*' -o -name 'libtpsa.so.0' \) -exec chrpath -d {} + \
    >/dev/null
  find "${root}" -type f \( -path '*/bin/*' -o -name '*.so*' \) \
    -exec strip --strip-unneeded --remove-section=.comment {} +
  found="$(needed "${package}")"
  depends="${found}${found:+${depends:+, }}${depends}"
  {
    printf 'Package: %s\nSource: liburma\nVersion: %s\n' "${package}" "${version}"
    printf 'Architecture: %s\nMulti-Arch: %s\n' "${architecture}" \
      "$([[ "${section}" == libs ]] && echo same || echo no)"
    echo "Maintainer: ${maintainer}"
    echo "Installed-Size: $(du -sk "${root}/usr" | cut -f1)"
    echo "${depends:+Depends: ${depends}}"
    echo "${recommends:+Recommends: ${recommends}}"
    printf 'Section: %s\nPriority: optional\nDescription: %s\n%s\n' "${section}" "${summary}" \
      "$(fold -s -w 75 <<<"${about}" | sed -e 's/ *$//' -e 's/^/ /')"
  } | sed '/^$/d' >"${root}/DEBIAN/control"
  (cd "${root}" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
  find "${root}" -type d -exec chmod 0755 {} +
  dpkg-deb --root-owner-group --build "${root}" "${out}" >/dev/null
  echo "${out}/${package}_${version}_${architecture}.deb"
}

SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(stat -c %Y CHANGELOG.md)}"
export SOURCE_DATE_EPOCH
readonly urma="URMA is the programming interface of the UnifiedBus: asynchronous queues, registered \
and imported memory, one-sided, two-sided and atomic operations."

take liburma0 "${libdir}" lib/lib{tpsa,urma,urma_common}.so.0
take liburma0 "${libdir}/urma" lib/urma/liburma-shm.so
chmod 0644 "${work}/liburma0/${libdir}"/*.so* "${work}/liburma0/${libdir}"/urma/*
mkdir -p "${work}/liburma0/DEBIAN"
shared_libraries >"${work}/liburma0/DEBIAN/shlibs"
echo "activate-noawait ldconfig" >"${work}/liburma0/DEBIAN/triggers"
build liburma0 libs "" "unified remote memory access, shared library" \
  "${urma} This package has the library, and the provider for processes of one machine."

take liburma-verbs "${libdir}/urma" lib/urma/liburma-verbs.so
chmod 0644 "${work}/liburma-verbs/${libdir}"/urma/*
build liburma-verbs libs "liburma0 (= ${version})" "unified remote memory access over RDMA devices" \
  "${urma} This package has the provider for RoCE, InfiniBand and iWARP devices."

take liburma-rocm "${libdir}/urma" lib/urma/liburma-rocm.so
chmod 0644 "${work}/liburma-rocm/${libdir}"/urma/*
build liburma-rocm libs "liburma0 (= ${version})" \
  "unified remote memory access over memory of AMD GPUs" \
  "${urma} This package has the provider for memory of AMD GPUs. It was never run on AMD hardware." \
  libhsa-runtime64-1

mapfile -t headers < <(cd "${stage}/usr" && find include -maxdepth 1 -name '*.h*' | sort)
take liburma-dev usr/include "${headers[@]}"
take liburma-dev usr/include/ub/umdk/urma "${headers[@]/#include/include\/ub\/umdk\/urma}"
take liburma-dev "${libdir}" lib/lib{tpsa,urma,urma_common}.so
take liburma-dev "${libdir}/pkgconfig" lib/pkgconfig/urma.pc
take liburma-dev usr/lib/cmake/urma lib/cmake/urma/urma-config{,-version}.cmake
mapfile -t pages < <(cd "${stage}/usr" && find share/man/man3 -type f | sort)
take liburma-dev usr/share/man/man3 "${pages[@]}"
mapfile -t pages < <(cd "${stage}/usr" && find share/man/man7 -type f | sort)
take liburma-dev usr/share/man/man7 "${pages[@]}"
sed -i "s|^libdir=.*|libdir=\${prefix}/lib/${triplet}|" \
  "${work}/liburma-dev/${libdir}/pkgconfig/urma.pc"
sed -i "s|/lib/liburma.so.0|/lib/${triplet}/liburma.so.0|" \
  "${work}/liburma-dev/usr/lib/cmake/urma/urma-config.cmake"
build liburma-dev libdevel "liburma0 (= ${version})" \
  "unified remote memory access, headers and manual" \
  "${urma} This package has what programs are compiled with, and the manual pages."

take urma-tools usr/bin "${tools[@]/#/bin/}"
take urma-tools "${libdir}/urma" lib/urma/urma_run.so
chmod 0644 "${work}/urma-tools/${libdir}"/urma/*
pages=("${tools[@]/#/share/man/man1/}")
take urma-tools usr/share/man/man1 "${pages[@]/%/.1}"
build urma-tools utils "liburma0 (= ${version})" "unified remote memory access, tools" \
  "${urma} This package has tools that measure it, show what processes do with it, ask whether a peer \
answers, and show programs its devices in /sys/class/ubcore."
