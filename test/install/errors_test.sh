#!/bin/bash
# SPDX-License-Identifier: MIT
#
# docs/reference/errors.md: every message that the library can log has an entry, no entry is
# obsolete, and the comparison detects both.
set -euo pipefail

readonly tree="${TEST_TMPDIR}/tree"

fail() {
  echo "FAIL: $*"
  exit 1
}

# Expects the comparison to fail, with a line that contains TEXT.
expect_complaint() {
  local said
  ! said="$(python3 tools/dev/errors.py --root "${tree}")" || fail "not reported: $1"
  grep -qF -- "$1" <<<"${said}" || fail "instead of '$1': ${said}"
}

python3 tools/dev/errors.py --root . || fail "the page and the sources differ (above)"
(($(python3 tools/dev/errors.py --root . --list | wc -l) > 400)) || fail "400 messages or fewer found"

mkdir -p "${tree}"
cp -rL docs urma jetty segment "${tree}"
sed -i '/^- `post: tjetty is NULL/d' "${tree}/docs/reference/errors.md"
expect_complaint "no entry for: post: tjetty is NULL"
cp -L docs/reference/errors.md "${tree}/docs/reference/errors.md"

cat >"${tree}/jetty/later.cc" <<'END'
void later(bool open) {
  URMA_LOG_LIMITED(ERR, "post: {} came too late; {}", 1,
                   open ? "ask its \"owner\" first" : "post "
                                                      "it earlier");
  if (!open) fail_errno(URMA_FAIL, urma::format("coming to {} at all", 2));
}
END
expect_complaint "no entry for: post: … came too late; …"
expect_complaint 'no entry for: ask its "owner" first'
expect_complaint "no entry for: post it earlier"
expect_complaint "no entry for: coming to … at all: …"
rm "${tree}/jetty/later.cc"

printf '\n## Later\n\n- `nobody says so`\n' >>"${tree}/docs/reference/errors.md"
expect_complaint "nothing logs this any more: nobody says so"
expect_complaint "no answer follows: nobody says so"
