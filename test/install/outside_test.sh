#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Programs outside of the tree against an installation: found by pkg-config and by CMake, in C and
# in C++, after which the installation is moved, since the CMake package says where things are
# relative to itself. Looks at the manual pages and at the versions too.
set -euo pipefail

source test/install/installed.sh
readonly prefix="${TEST_TMPDIR}/installed" work="${TEST_TMPDIR}/work"
install_built "${prefix}"
mkdir -p "${work}"
export URMA_RUNTIME_DIR="${TEST_TMPDIR}/runtime" LD_LIBRARY_PATH="${prefix}/lib"

cat >"${work}/program.c" <<'END'
#include <stdio.h>
#include <string.h>

#include "urma_api.h"
#include "urma_ext.h"

/* Valid as C and as C++. Says the version, and fails where there is no device. */
int main(void) {
  int count = 0;
  if (urma_init(NULL) != URMA_SUCCESS) return 1;
  urma_device_t** list = urma_get_device_list(&count);
  urma_free_device_list(list);
  printf("%s\n", urma_ext_version());
  return urma_uninit() == URMA_SUCCESS && count > 0 ? 0 : 2;
}
END
cp "${work}/program.c" "${work}/program.cc"

export PKG_CONFIG_PATH="${prefix}/lib/pkgconfig"
version="$(pkg-config --modversion urma)"
read -ra flags <<<"$(pkg-config --cflags --libs urma)"
cc -std=c11 -Wall -Werror -Wno-psabi -o "${work}/in_c" "${work}/program.c" "${flags[@]}"
c++ -std=c++17 -Wall -Werror -Wno-psabi -o "${work}/in_cxx" "${work}/program.cc" "${flags[@]}"
[[ "$("${work}/in_c")" == "${version}" ]]
[[ "$("${work}/in_cxx")" == "${version}" ]]

# The rest against an installation that was moved: what CMake finds has to go along.
mv "${prefix}" "${prefix}.moved"
export LD_LIBRARY_PATH="${prefix}.moved/lib"
cat >"${work}/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(outside C CXX)
find_package(urma ${version} REQUIRED)
add_executable(cmake_c program.c)
target_link_libraries(cmake_c PRIVATE urma::urma)
add_executable(cmake_cxx program.cc)
target_link_libraries(cmake_cxx PRIVATE urma::urma)
END
cmake -S "${work}" -B "${work}/build" -DCMAKE_PREFIX_PATH="${prefix}.moved" >"${work}/cmake.log" ||
  { cat "${work}/cmake.log"; exit 1; }
cmake --build "${work}/build" >"${work}/make.log" || { cat "${work}/make.log"; exit 1; }
[[ "$("${work}/build/cmake_c")" == "${version}" ]]
[[ "$("${work}/build/cmake_cxx")" == "${version}" ]]

# A version that is not there is not found.
sed -i "s/urma ${version} REQUIRED/urma 99.0 REQUIRED/" "${work}/CMakeLists.txt"
! cmake -S "${work}" -B "${work}/other" -DCMAKE_PREFIX_PATH="${prefix}.moved" &>"${work}/cmake.log"
grep -q '99.0' "${work}/cmake.log"

export MANPATH="${prefix}.moved/share/man" LC_ALL=C.UTF-8
man urma_modify_jfc | grep -q 'Changes when completions raise an event'
man 7 urma | grep -q CONCEPTS
