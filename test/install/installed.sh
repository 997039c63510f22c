#!/bin/bash
# SPDX-License-Identifier: MIT
#
# To be sourced by tests that look at an installation: runs the real `./dev install` on what has
# been built, with stand-ins for the two programs that it would ask.

# Installs under the folder given. The test has //:install_sources, the table of settings, the
# libraries, the module shm and the example `segment` at hand.
install_built() {
  local target="$1" built="${PWD}" source="${TEST_TMPDIR}/source" tools="${TEST_TMPDIR}/tools"
  local file
  mkdir -p "${source}" "${tools}"
  for file in dev docs packaging LICENSE CHANGELOG.md tools/dev/{man.py,deb.sh} \
    urma/core/settings.cc urma/include; do
    mkdir -p "${source}/$(dirname "${file}")"
    cp -rL "${file}" "${source}/${file}"
  done
  cat >"${tools}/bazel" <<END
#!/bin/bash
case "\$*" in
  query*//:all*)
    printf '//:lib/%s\n' lib{tpsa,urma,urma_common}.so.0 urma/liburma-shm.so ;;
  query*) echo //examples:segment ;;
  "info bazel-bin"*) echo "${built}" ;;
esac
END
  cat >"${tools}/dpkg-query" <<'END'
#!/bin/bash
shift 3
printf 'installed %s\n' "$@"
END
  chmod +x "${tools}/bazel" "${tools}/dpkg-query"
  PATH="${tools}:${PATH}" "${source}/dev" install --prefix "${target}"
}
