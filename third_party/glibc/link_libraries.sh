#!/bin/bash
# SPDX-License-Identifier: MIT
#
# link_libraries.sh BOUND COMPATIBLE DIR: makes in DIR what programs are linked with in place of the C
# and C++ libraries of this machine, so that they start wherever glibc is not older than BOUND, such
# as 2.30, and need no libstdc++ there.
#
# glibc keeps the old versions of its functions for programs that were linked long ago; the linker
# takes the newest. Here each symbol exists in one version, the newest that is not above BOUND. The
# archive COMPATIBLE has what only newer ones have. Nothing else of this is used at run time.
set -euo pipefail

readonly bound="$1" compatible="$2" dir="$3"

# Prints where the linker finds the library NAME.
real() { gcc -print-file-name="$1"; }

# Makes DIR/NAME of the assembly on stdin.
link() {
  local name="$1"
  shift
  gcc -shared -nostdlib -fuse-ld=bfd -Wl,-soname,"${name}" "$@" -o "${dir}/${name}" \
    -x assembler -
}

# Makes DIR/NAME, with the symbols of the library NAME.
make_stub() {
  local name="$1" work
  work="$(mktemp -d)"
  readelf --wide --dyn-syms "$(real "${name}")" | awk -v bound="${bound}" -v map="${work}/map" '
    function number(version, part) {
      split(version, part, ".")
      return (part[1] * 1000 + part[2]) * 1000 + part[3]
    }
    $7 != "UND" && $4 != "TLS" && $8 ~ /@GLIBC_[0-9.]+$/ {
      split($8, half, /@+GLIBC_/)
      value = number(half[2])
      if (value > number(bound) || value <= best[half[1]]) next
      best[half[1]] = value
      names[value] = "GLIBC_" half[2]
      size[half[1]] = $4 == "OBJECT" ? $3 : 0
    }
    END {
      for (symbol in best) {
        listed[best[symbol]] = listed[best[symbol]] " " symbol ";"
        printf ".%s\n.globl %s\n.type %s, @%s\n.size %s, %d\n%s: .space %d\n",
               size[symbol] ? "bss" : "text", symbol, symbol,
               size[symbol] ? "object" : "function", symbol, size[symbol], symbol,
               size[symbol] ? size[symbol] : 1
      }
      for (value in names) printf "%s { global:%s };\n", names[value], listed[value] >map
    }' >"${work}/stub"
  link "${name}" -Wl,--version-script,"${work}/map" <"${work}/stub"
  rm -r "${work}"
}

make_stub libc.so.6
make_stub libm.so.6
# Before glibc 2.34 threads, dlopen() and timers have libraries of their own. Newer ones keep the
# names.
for name in libpthread.so.0 libdl.so.2 librt.so.1; do link "${name}" </dev/null; done
cat >"${dir}/libc.so" <<END
INPUT(-l:libpthread.so.0 -l:libdl.so.2 -l:librt.so.1)
GROUP(
  -l:libc.so.6 -l:libglibc_compatible.a $(real libc_nonshared.a)
  AS_NEEDED($(real ld-linux-x86-64.so.2))
)
END
echo 'INPUT(-l:libm.so.6)' >"${dir}/libm.so"
echo 'INPUT(-l:libstdc++.a)' >"${dir}/libstdc++.so"

# Bazel links anew when this archive changes, so it changes with the others.
cp "${compatible}" "${dir}/libglibc_compatible.a"
(cd "${dir}" && sha256sum lib*.so lib*.so.*) >"${dir}/made"
ar q "${dir}/libglibc_compatible.a" "${dir}/made"
rm "${dir}/made"
