#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The CMake build compared with Bazel's: both compile the same sources with the same flags, give
# each library the same name, exported symbols and search path, and install the same files. CMake
# compiles nothing: Bazel's products replace its own. The long form (URMA_SOAK, `./dev soak cmake`)
# compiles everything and compares the result.
set -euo pipefail

source test/install/installed.sh
readonly copy="${TEST_TMPDIR}/source" build="${TEST_TMPDIR}/build" prefix=/usr/local
readonly by_bazel="${TEST_TMPDIR}/by_bazel" by_cmake="${TEST_TMPDIR}/by_cmake"

fail() {
  echo "FAIL: $*"
  exit 1
}

# Runs a command, and shows its output only if it fails.
quietly() {
  "$@" >"${TEST_TMPDIR}/log" 2>&1 || { tail -n 40 "${TEST_TMPDIR}/log"; fail "$*"; }
}

# Prints the link flags of FILE, one per line.
link_flags() {
  grep -lE -- " -o [^ ]*/${1//./\\.} " "${build}"/CMakeFiles/*.dir/link.txt | xargs cat |
    tr -d "'\"\\\\" | tr ' ' '\n'
}

# Prints the field NAME of the dynamic section of FILE: the names in brackets.
dynamic() { readelf -d "$2" | sed -nE "s/.*\\(($1)\\).*\\[(.*)\\]/\\2/p" | sort; }

# Prints the names that FILE exports.
exported() { nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort; }

# Prints the names that the version script FILE exports.
listed() {
  sed -e 's|/\*.*\*/||' "$1" | tr -d '\n' | sed -E -e 's/.*global:(.*)local:.*/\1/' |
    tr -s '; ' '\n' | grep . | sort
}

# Prints everything below the folder DIR: names, kinds, modes and link targets.
tree() { (cd "$1" && find . -mindepth 1 ! -type d -printf '%P %y %m %l\n' | sort); }

# Relative to the folder of the caller.
DESTDIR="$(realpath --relative-to=. "${by_bazel}")" dev_on_built install --prefix "${prefix}"
# CMake does not install the Python binding.
rm -rf "${by_bazel}${prefix}"/lib/python3* "${by_bazel}${prefix}/share/doc/urma/examples/python"
add_cmake_sources
quietly cmake -S "${copy}" -B "${build}" "-DCMAKE_INSTALL_PREFIX=${prefix}" \
  -DURMA_LEFT_OUT=FATAL_ERROR

sed -n 's/^  "file": "\(.*\)",\?$/\1/p' "${build}/compile_commands.json" | grep "^${copy}/" |
  sed "s|^${copy}/||" | sort -u >"${TEST_TMPDIR}/compiled"
sed -n -e 's|^//||' -e 's|^:||' -e 's|:|/|p' test/install/compiled_sources | sort -u |
  diff - "${TEST_TMPDIR}/compiled" || fail "Bazel (<) and CMake (>) compile different sources"

# A folder may be given as a whole path too.
quietly cmake -S "${copy}" -B "${build}_whole" "-DCMAKE_INSTALL_PREFIX=${prefix}" \
  "-DCMAKE_INSTALL_LIBDIR=${prefix}/lib" "-DCMAKE_INSTALL_BINDIR=${prefix}/bin"
for file in urma.pc urma-config.cmake; do
  diff "${build}/${file}" "${build}_whole/${file}" || fail "${file} differs for whole paths (>)"
done

# Both files name the folder of the headers.
quietly cmake -S "${copy}" -B "${build}_headers" "-DCMAKE_INSTALL_PREFIX=${prefix}" \
  -DCMAKE_INSTALL_INCLUDEDIR=include/of_urma
grep -xF 'includedir=${prefix}/include/of_urma' "${build}_headers/urma.pc" >/dev/null ||
  fail "urma.pc does not name the folder of the headers"
grep -F '"${_urma_prefix}/include/of_urma"' "${build}_headers/urma-config.cmake" >/dev/null ||
  fail "urma-config.cmake does not name the folder of the headers"

# Those of .bazelrc for every build, and of urma/link_time.bzl.
{
  sed -nE 's/^build --(c|cxx)opt=(-[^s].*)/\2/p' .bazelrc
  sed -n '/^LINK_TIME_COPTS/,/^})/s/^ *"\(-.*\)",$/\1/p' urma/link_time.bzl
} | while read -r flag; do
  grep -F -- "/jetty/sender.cc" "${build}/compile_commands.json" | grep -F -- "${flag} " >/dev/null ||
    fail "CMake compiles without ${flag}"
done
grep '/jetty/sender.cc' "${build}/compile_commands.json" | grep -e -std=c++20 >/dev/null

checked=0
while read -r library; do
  name="${library##*/}"
  link_flags "${name}" >"${TEST_TMPDIR}/flags"
  [[ "$(sed -n 's/^-Wl,-soname,//p' "${TEST_TMPDIR}/flags")" == "$(dynamic SONAME "${library}")" ]] ||
    fail "${name} has another soname in CMake"
  [[ "$(sed -n 's/^-Wl,-rpath,//p' "${TEST_TMPDIR}/flags" | sed 's/:*$//')" == \
     "$(dynamic 'RUNPATH|RPATH' "${library}")" ]] || fail "${name} has another search path in CMake"
  map="$(sed -n 's/^-Wl,--version-script=//p' "${TEST_TMPDIR}/flags")"
  [[ -z "${map}" ]] || diff <(listed "${map}") <(exported "${library}") ||
    fail "CMake's version script (<) and the exports of Bazel's ${name} (>) differ"
  for flag in -flto=auto -Wl,-z,nodelete; do
    [[ "$(sed -n "\|/${name}\",|,/^)/p" BUILD.bazel | grep -cE -- "\"${flag}\"|${flag/-flto=auto/LINK_TIME}")" == \
      "$(grep -cxF -- "${flag}" "${TEST_TMPDIR}/flags")" ]] || fail "Bazel and CMake differ in ${flag} for ${name}"
  done
  checked=$((checked + 1))
done < <(find "${by_bazel}${prefix}/lib" -name '*.so*' -type f)
((checked >= 7)) || fail "only ${checked} libraries checked, fewer than 7"

if [[ -n "${URMA_SOAK:-}" ]]; then
  quietly cmake --build "${build}" "-j$(nproc)"
  URMA_RUNTIME_DIR="${TEST_TMPDIR}/runtime" quietly ctest --test-dir "${build}" --output-on-failure
else
  quietly cmake --build "${build}" --target manual
  (cd "${by_bazel}${prefix}" && cp -r --parents lib/*.so* lib/urma lib/libfabric bin \
    share/doc/urma/examples "${build}")
fi
DESTDIR="${by_cmake}" quietly cmake --install "${build}"
diff <(tree "${by_bazel}") <(tree "${by_cmake}") || fail "Bazel's files (<) and CMake's (>) differ"
while read -r file; do
  if readelf -h "${by_bazel}/${file}" &>/dev/null; then
    for field in SONAME NEEDED 'RUNPATH|RPATH'; do
      diff <(dynamic "${field}" "${by_bazel}/${file}") <(dynamic "${field}" "${by_cmake}/${file}") ||
        fail "${field} of ${file} differs between Bazel (<) and CMake (>)"
    done
    diff <(exported "${by_bazel}/${file}") <(exported "${by_cmake}/${file}") ||
      fail "the symbols of ${file} differ between Bazel (<) and CMake (>)"
  else
    cmp "${by_bazel}/${file}" "${by_cmake}/${file}"
  fi
done < <(cd "${by_bazel}" && find . -type f)
echo "the same sources, flags, ${checked} libraries and $(tree "${by_cmake}" | wc -l) files"
