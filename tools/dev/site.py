#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a site of static HTML out of the documents, with lowdown.

    site.py [--root DIR] --out DIR

A page for README.md and for each of docs/*.md and docs/man/*.md; figures lie beside them. Links to
documents lead to their pages. What a link leads to outside of the site stays as text.
"""

import argparse
import html
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import man  # pylint: disable=wrong-import-position

# What the navigation has, in this order; a document that is not named here is missed by nobody.
CHAPTERS = (
    ("Begin", ("index", "getting_started", "install", "concepts", "porting_verbs", "porting_ucx",
               "porting_libfabric", "porting_iceoryx2", "service")),
    ("Use", ("tools", "errors", "faults", "tracing", "performance", "shm", "verbs", "rocm")),
    ("Count on", ("conformance", "specification", "security", "reliability", "abi", "vm", "release",
                  "CHANGELOG", "SECURITY_POLICY")),
    ("Work on it", ("architecture", "CONTRIBUTING")),
)
TOP = {"README.md": "index", "CHANGELOG.md": "CHANGELOG", "CONTRIBUTING.md": "CONTRIBUTING",
       "SECURITY.md": "SECURITY_POLICY"}
STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --text: #1f2328; --soft: #f3f4f6;
  --rule: #d0d7de; --link: #0550ae; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --text: #e6edf3; --soft: #161b22;
  --rule: #30363d; --link: #79b8ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; background: var(--back); color: var(--text);
  font: 16px/1.55 system-ui, sans-serif; display: grid; grid-template-columns: 13rem 1fr; }
nav { padding: 1.5rem 1rem; border-right: 1px solid var(--rule); font-size: 0.92rem; }
nav h2 { font-size: 0.8rem; text-transform: uppercase; margin: 1.2rem 0 0.3rem; opacity: 0.7; }
nav a { display: block; padding: 0.12rem 0; text-decoration: none; }
nav a[aria-current] { font-weight: bold; color: var(--text); }
main { padding: 1.5rem 2rem 4rem; min-width: 0; overflow-wrap: break-word; }
a { color: var(--link); }
h1 { line-height: 1.2; }
code, pre { font: 0.88em/1.45 ui-monospace, monospace;
  background: var(--soft); border-radius: 4px; }
code { padding: 0.1em 0.3em; }
pre { padding: 0.8rem; overflow-x: auto; }
pre code { padding: 0; background: none; font-size: 1em; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.92rem; }
th, td { border: 1px solid var(--rule); padding: 0.35rem 0.6rem; text-align: left;
  vertical-align: top; }
td code { overflow-wrap: anywhere; }
img { max-width: 100%; height: auto; }
@media (max-width: 48rem) { body { display: block; }
  nav { border: 0; border-bottom: 1px solid var(--rule); }
  nav div { display: inline; } nav h2 { display: none; }
  nav a { display: inline-block; margin-right: 0.8rem; } main { padding: 1rem; } }
"""


class Site:
    """All pages, and what leads from one to another."""

    def __init__(self, root):
        self.root = root
        self.pages = {}  # path of a source: name of its page
        for name, page in TOP.items():
            if (root / name).exists():
                self.pages[root / name] = page
        for path in sorted((root / "docs").glob("*.md")):
            self.pages[path] = path.stem
        self.manual = man.Manual(root)
        self.manual_pages = {f"{p.name}.{p.section}": p for p in self.manual.pages}
        self.titles = {page: title_of(path.read_text()) for path, page in self.pages.items()}

    def target(self, source, link):
        """Returns what a link of a source leads to on the site; None: it leads out of it."""
        if re.match(r"[a-z]+:|#", link):
            return link
        place, _, anchor = link.partition("#")
        path = (source.parent / place).resolve()
        for known, page in self.pages.items():
            if known.resolve() == path:
                return f"{page}.html" + (f"#{anchor}" if anchor else "")
        if path.suffix == ".svg" and path.exists():
            return f"figures/{path.name}"
        return None

    def links(self, source, text):
        def image(match):
            found = self.target(source, match.group(2))
            if found is None:
                raise man.PageError(f"{source}: there is no figure {match.group(2)}")
            return f"![{match.group(1)}]({found})"

        def link(match):
            found = self.target(source, match.group(2))
            return f"[{match.group(1)}]({found})" if found else match.group(1)

        text = re.sub(r"!\[([^\]]*)\]\(([^)]+)\)", image, text)
        return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", link, text)

    def references(self, body):
        """Names of manual pages become links to them."""

        def reference(match):
            page = f"{match.group(1)}.{match.group(2)}"
            if page not in self.manual_pages:
                return match.group(0)
            return f'<a href="{page}.html">{match.group(1)}({match.group(2)})</a>'

        return re.sub(r"(?:<strong>)?\b(urma_?\w*)(?:</strong>)?\((\d)\)", reference, body)

    def navigation(self, current):
        out = []
        for title, names in CHAPTERS:
            known = [n for n in names if n in self.titles]
            links = []
            for name in known:
                here = ' aria-current="page"' if name == current else ""
                label = "liburma" if name == "index" else name.replace("_", " ").lower()
                links.append(f'<a href="{name}.html"{here}>{label}</a>')
            out.append(f"<div><h2>{title}</h2>{''.join(links)}</div>")
        here = ' aria-current="page"' if current == "manual" else ""
        out.append(f'<div><h2>Manual</h2><a href="manual.html"{here}>all pages</a></div>')
        return "<nav>" + "".join(out) + "</nav>"

    def page(self, name, title, markdown):
        body = subprocess.run(
            ["lowdown", "-Thtml", "--out-no-smarty", "--parse-no-intraemph"],
            input=markdown.encode(), stdout=subprocess.PIPE, check=True).stdout.decode()
        body = body.replace("<table>", '<div class="table"><table>').replace(
            "</table>", "</table></div>")
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>"
            f"{self.navigation(name)}<main>{self.references(body)}</main></body></html>\n"
        )

    def write(self, out):
        (out / "figures").mkdir(parents=True, exist_ok=True)
        for folder in ("figures", "docs/figures"):
            for path in (self.root / folder).glob("*.svg"):
                shutil.copyfile(path, out / "figures" / path.name)
        for path, name in self.pages.items():
            text = self.links(path, path.read_text())
            (out / f"{name}.html").write_text(self.page(name, self.titles[name], text))
        listed = ["# The manual\n"]
        for name, page in self.manual_pages.items():
            text = f"# {page.name}({page.section})\n\n{page.expanded()}"
            (out / f"{name}.html").write_text(self.page("manual", page.name, text))
            listed.append(f"- [{page.name}({page.section})]({name}.html): {page.summary}\n")
        (out / "manual.html").write_text(self.page("manual", "The manual", "".join(listed)))


def title_of(text):
    match = re.search(r"(?m)^# (.*)$", text)
    return match.group(1) if match else "liburma"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    Site(args.root).write(args.out)


if __name__ == "__main__":
    try:
        main()
    except (man.PageError, subprocess.CalledProcessError, FileNotFoundError) as error:
        sys.exit(f"site.py: {error}")
