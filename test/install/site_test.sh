#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The figures and the site: each flow is drawn as its text says, figures have no colour of their
# own, each stands in a document; every document has a page that the navigation leads to, and every
# link of the site leads somewhere. Things that are wrong are noticed.
set -euo pipefail

readonly tree="${TEST_TMPDIR}/tree" site="${TEST_TMPDIR}/site"
mkdir -p "${tree}/urma/core/process"
cp -rL docs tools README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md "${tree}"
cp -rL urma/include "${tree}/urma/"
cp -L urma/core/process/settings.cc "${tree}/urma/core/process/"

fail() {
  echo "FAIL: $*"
  exit 1
}

python3 tools/dev/figures.py --root "${tree}" --check || fail "a figure is not what its text says"
for source in "${tree}"/docs/figures/*.{flow,dot}; do
  drawn="${source%.*}.svg"
  python3 -c 'import sys, xml.dom.minidom as d; d.parse(sys.argv[1])' "${drawn}"
  ! grep -Eo '(fill|stroke)="[^"]*"' "${drawn}" | grep -vE 'none|currentColor|transparent' ||
    fail "${drawn##*/} has a colour that does not follow light and dark"
  grep -q "figures/${drawn##*/}" "${tree}"/docs/*/*.md || fail "${drawn##*/} stands in no document"
done

python3 "${tree}/tools/dev/site.py" --root "${tree}" --out "${site}"
cat >"${TEST_TMPDIR}/links.py" <<'END'
import pathlib, re, sys

site, wrong = pathlib.Path(sys.argv[1]), []
pages = {p.name: p.read_text() for p in site.glob("*.html")}
for name, text in pages.items():
    for link in re.findall(r'(?:href|src)="([^"]+)"', text):
        place, _, anchor = link.partition("#")
        if re.match(r"https?:", link):
            continue
        if place and not (site / place).exists():
            wrong.append(f"{name}: {link} leads nowhere")
        elif anchor and f'id="{anchor}"' not in pages.get(place or name, ""):
            wrong.append(f"{name}: {link} has no such place")
for name in pages:
    if not any(f'href="{name}"' in text for text in pages.values()):
        wrong.append(f"nothing leads to {name}")
print("\n".join(wrong))
sys.exit(bool(wrong) or len(pages) < 60)
END
python3 "${TEST_TMPDIR}/links.py" "${site}" || fail "links of the site (above)"

rm "${site}/errors.html"
! python3 "${TEST_TMPDIR}/links.py" "${site}" >/dev/null || fail "a page that is gone is not missed"
sed -i 's/urma_rearm_jfc/urma_rearm_later/' "${tree}/docs/figures/interrupt.flow"
! python3 tools/dev/figures.py --root "${tree}" --check >/dev/null ||
  fail "a figure that differs from its text is not noticed"
echo "nobody -> client: hello" >>"${tree}/docs/figures/polling.flow"
! python3 tools/dev/figures.py --root "${tree}" --check 2>/dev/null ||
  fail "a lane that is not there is not noticed"
