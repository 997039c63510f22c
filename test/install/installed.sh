#!/bin/bash
# SPDX-License-Identifier: MIT
#
# To be sourced by tests of an installation: runs the real `./dev` on the existing build, with stubs
# for the two programs that it would call.

# Prints the Bazel labels of the files on stdin.
as_labels() { sed -E -e 's|^|//|' -e 's|^//lib/|//:lib/|' -e '/:/!s|/([^/]*)$|:\1|'; }

# Runs `./dev ARGUMENT...` in a copy of the files that it reads. The test needs //:install_sources,
# the table of settings, and the products to be installed.
dev_on_built() {
  local built="${PWD}" source="${TEST_TMPDIR}/source" tools="${TEST_TMPDIR}/tools"
  local file
  mkdir -p "${source}" "${tools}"
  for file in dev docs packaging python LICENSE CHANGELOG.md CMakeLists.txt tools/dev/man.py \
    urma/core/process/settings.cc urma/include; do
    mkdir -p "${source}/$(dirname "${file}")"
    cp -rL "${file}" "${source}/$(dirname "${file}")"
  done
  [[ ! -e tools/dev/portable.sh ]] || cp -L tools/dev/portable.sh "${source}/tools/dev"
  mkdir -p "${source}/examples"
  cp -L examples/{*.c,*.cc,*.h,Makefile,README.md,demo.sh} "${source}/examples"
  chmod -R u+w "${source}"
  find -L lib -name '*.so*' | as_labels >"${tools}/libraries"
  find -L tools -name 'urma_*' -type f -perm -u+x | as_labels >"${tools}/programs"
  find -L examples ! -name '*.*' -type f -perm -u+x | as_labels >"${tools}/examples"
  cat >"${tools}/bazel" <<END
#!/bin/bash
case "\$*" in
  query*//:all*) cat "${tools}/libraries" ;;
  query*//tools/*) cat "${tools}/programs" ;;
  query*//examples/*) cat "${tools}/examples" ;;
  "info "*bazel-bin*) echo "${built}" ;;
esac
END
  cat >"${tools}/dpkg-query" <<'END'
#!/bin/bash
[[ "$1 $2 $3" == '-W -f ${db:Status-Status} ${Package}\n' ]] || exec /usr/bin/dpkg-query "$@"
shift 3
printf 'installed %s\n' "$@"
END
  chmod +x "${tools}/bazel" "${tools}/dpkg-query"
  PATH="${tools}:${PATH}" "${source}/dev" "$@"
}

# Adds what CMake reads (:cmake_sources) to that copy.
add_cmake_sources() {
  mkdir -p "${TEST_TMPDIR}/source"
  cp -rL --remove-destination CMakeLists.txt BUILD.bazel docs jetty ofi segment third_party tools \
    urma "${TEST_TMPDIR}/source"
  chmod -R u+w "${TEST_TMPDIR}/source"
}

# Installs under the folder given.
install_built() { dev_on_built install --prefix "$1"; }
