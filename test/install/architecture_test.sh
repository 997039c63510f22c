#!/bin/bash
# SPDX-License-Identifier: MIT
#
# docs/internals/architecture.md: each function is declared in the file named with it, each folder
# exists, no folder of the library is missing, and components use what the page says. The comparison
# detects each violation.
set -euo pipefail

readonly tree="${TEST_TMPDIR}/tree" page="${TEST_TMPDIR}/tree/docs/internals/architecture.md"

fail() {
  echo "FAIL: $*"
  exit 1
}

# Undoes the changes in the copy of the tree.
restore() {
  local file
  rm -rf "${tree}/urma/later" "${tree}/jetty/later.h"
  for file in docs/internals/architecture.md figures/components.dot \
    jetty/BUILD.bazel jetty/event_channel.cc jetty/owner_lock.h; do
    cp -L --remove-destination "${file}" "${tree}/${file}"
  done
}

# Expects the comparison to fail, with the line TEXT and no other.
expect_complaint() {
  local said
  ! said="$(python3 tools/dev/architecture.py --root "${tree}")" || fail "not reported: $1"
  [[ "${said}" == "$1" ]] || fail "instead of '$1': ${said}"
  restore
}

# Adds a function and its file to the page.
claim() { printf '\n`%s` (`%s`)\n' "$1" "$2" >>"${page}"; }

python3 tools/dev/architecture.py || fail "the page and the sources differ (above)"
for way in send registration arm; do
  sed -n "/^## The way of an\? ${way}$/,/^## /p" docs/internals/architecture.md |
    grep -cE '^[0-9]+\. `' >"${TEST_TMPDIR}/steps" || true
  (($(cat "${TEST_TMPDIR}/steps") > 10)) || fail "the path of a ${way} has 10 steps or fewer"
done
(($(python3 tools/dev/architecture.py --list | wc -l) > 100)) || fail "100 functions or fewer found"

mkdir -p "${tree}"
cp -rL docs examples figures jetty ofi packaging python segment test third_party tools urma "${tree}"
claim CompletionQueue::arm_later jetty/completion_queue_events.cc
expect_complaint "jetty/completion_queue_events.cc does not declare CompletionQueue::arm_later"
claim later jetty/later.cc
expect_complaint "later: there is no file jetty/later.cc"

# Calls, comments, and members of other classes do not count as declarations.
claim heavy_barrier jetty/completion_queue_events.cc
expect_complaint "jetty/completion_queue_events.cc does not declare heavy_barrier"
claim enter_module urma/providers/shm/module.cc
expect_complaint "urma/providers/shm/module.cc does not declare enter_module"
claim find_mapped jetty/later.h
echo '// bool find_mapped(int); "bool find_mapped(int);"' >"${tree}/jetty/later.h"
expect_complaint "jetty/later.h does not declare find_mapped"
claim EventChannel::poll jetty/completion_queue.h
expect_complaint "jetty/completion_queue.h does not declare EventChannel::poll"
claim collect jetty/event_channel.h
expect_complaint "jetty/event_channel.h does not declare collect"

# In the sources, too.
sed -i 's/\bfire\b/set_off/' "${tree}/jetty/event_channel.cc"
expect_complaint "jetty/event_channel.cc does not declare EventChannel::fire"
sed -i 's/\benter_at_once\b/enter_now/' "${tree}/jetty/owner_lock.h"
expect_complaint "jetty/owner_lock.h does not declare OwnerLock::enter_at_once"

mkdir -p "${tree}/urma/later"
touch "${tree}/urma/later/BUILD.bazel"
expect_complaint "docs/internals/architecture.md has no line for urma/later"
printf '\n| folder | holds |\n|---|---|\n| `later` | nothing |\n' >>"${page}"
expect_complaint "there is no folder later"
sed -i 's|"//segment",|"//segment",\n        "//urma/core/api",|' "${tree}/jetty/BUILD.bazel"
expect_complaint "jetty uses segment, urma/base, urma/core/api, urma/include, says its BUILD.bazel"
sed -i 's|"segment/inplace" -> "segment"|"segment/inplace" -> "jetty"|' \
  "${tree}/figures/components.dot"
expect_complaint "figures/components.dot: segment/inplace does not use jetty"
