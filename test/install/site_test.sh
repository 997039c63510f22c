#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The figures and the site: each flow is drawn as its text says, figures have no colours of their
# own, each is in a document; every document has a page in the navigation, and every link of the
# site leads somewhere. Errors are detected.
set -euo pipefail

readonly tree="${TEST_TMPDIR}/tree" site="${TEST_TMPDIR}/site"
mkdir -p "${tree}/urma/core/process"
cp -rL docs figures tools README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md "${tree}"
cp -rL urma/include "${tree}/urma/"
cp -L urma/core/process/settings.cc "${tree}/urma/core/process/"

fail() {
  echo "FAIL: $*"
  exit 1
}

python3 tools/dev/figures.py --root "${tree}" --check || fail "a figure differs from its text (above)"
for source in "${tree}"/figures/*.{flow,dot}; do
  drawn="${source%.*}.svg"
  python3 -c 'import sys, xml.dom.minidom as d; d.parse(sys.argv[1])' "${drawn}"
  ! grep -Eo '(fill|stroke)="[^"]*"' "${drawn}" | grep -vE 'none|currentColor|transparent' ||
    fail "${drawn##*/} has a colour that does not follow light and dark"
  grep -q "figures/${drawn##*/}" "${tree}"/docs/*/*.md || fail "no document shows ${drawn##*/}"
done

cp -r "${tree}" "${TEST_TMPDIR}/wrong"
sed -i 's/urma_rearm_jfc/urma_rearm_later/' "${TEST_TMPDIR}/wrong/figures/interrupt.flow"
! python3 tools/dev/figures.py --root "${TEST_TMPDIR}/wrong" --check >/dev/null ||
  fail "a figure that differs from its text is not reported"
echo "nobody -> client: hello" >>"${TEST_TMPDIR}/wrong/figures/polling.flow"
! python3 tools/dev/figures.py --root "${TEST_TMPDIR}/wrong" --check 2>/dev/null ||
  fail "a missing lane is not reported"

command -v mkdocs >/dev/null || { echo "SKIP: mkdocs is not installed"; exit 0; }
python3 "${tree}/tools/dev/site.py" --root "${tree}" --out "${site}"
cat >"${TEST_TMPDIR}/links.py" <<'END'
import pathlib, posixpath, re, sys, urllib.parse

site, wrong, found = pathlib.Path(sys.argv[1]), [], set()
pages = {str(p.relative_to(site)): p.read_text() for p in site.rglob("*.html")}
pages.pop("404.html", None)
for name, text in pages.items():
    for link in re.findall(r'(?:href|src)="([^"]+)"', text):
        place, _, anchor = urllib.parse.unquote(link).partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = posixpath.join(posixpath.dirname(name), place) if place else name
        target = posixpath.normpath(target)
        if target != name:
            found.add(target)
        if not (site / target).exists():
            wrong.append(f"{name}: {link} leads nowhere")
        elif anchor and f'id="{anchor}"' not in pages.get(target, ""):
            wrong.append(f"{name}: {link} has no such place")
wrong += [f"nothing leads to {name}" for name in pages if name not in found]
print("\n".join(wrong))
sys.exit(bool(wrong) or len(pages) < 60)
END
python3 "${TEST_TMPDIR}/links.py" "${site}" || fail "links of the site (above)"
grep -q '<span class="option"><code>--fair-sched=try' "${site}/docs/guide/testing_your_program.html" ||
  fail "an option may be broken after its dashes"
! grep -rl '&lt;span class="option"' "${site}" || fail "markup of an option is shown as text (above)"
for page in "${tree}"/docs/{guide,reference,internals}/*.md; do
  grep -q "${page#"${tree}"/docs/}" "${tree}/docs/README.md" || fail "docs/README.md lacks ${page}"
done

rm "${site}/docs/reference/errors.html"
! python3 "${TEST_TMPDIR}/links.py" "${site}" >/dev/null || fail "a removed page is not reported"
sed -i 's/reference.errors.md/reference\/error.md/' "${tree}/docs/README.md"
! python3 "${tree}/tools/dev/site.py" --root "${tree}" --out "${site}" &>/dev/null ||
  fail "a missing page in the index is not reported"
cp -L docs/README.md "${tree}/docs/README.md"
echo '[gone](gone.md)' >>"${tree}/docs/guide/concepts.md"
! python3 "${tree}/tools/dev/site.py" --root "${tree}" --out "${site}" &>/dev/null ||
  fail "a link to a missing page is not reported"
