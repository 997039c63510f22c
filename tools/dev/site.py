#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a site out of the documents and the manual pages, with mkdocs.

    site.py [--root DIR] --out DIR

The documents keep their places, so links between them stay valid; links that leave the site become
text. The navigation follows docs/README.md, in its order.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import man  # pylint: disable=wrong-import-position

TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
INDEX = "docs/README.md"
SECTIONS = {"1": "Programs", "7": "Overviews", "3": "Functions"}
LINK = re.compile(r"(?<!!)\[((?:[^\]\[]|`[^`]*`)+)\]\(([^)\s]+)\)")
REFERENCE = re.compile(r"(?:\*\*)?\b(urma_?\w*|fi_urma|uvs_\w+)(?:\*\*)?\((\d)\)")
# Code with an option, short enough for one line of a narrow screen.
OPTION = re.compile(r"`(?=(?:[^`]* )?--?\w)[^`\n]{1,32}`")
# mkdocs wants an empty line before a list; the documents are not written so.
LIST = re.compile(r"(?m)^(?!\s*(?:[-|#>]|\d+\.)|```)(\S.*\n)(?=(?:- |1\. ))")


def toggle(scheme, other, icon):
    return {
        "media": f"(prefers-color-scheme: {'dark' if scheme == 'slate' else 'light'})",
        "scheme": scheme,
        "primary": "indigo",
        "toggle": {"icon": icon, "name": f"Switch to {other}"},
    }


CONFIG = {
    "site_name": "liburma",
    "use_directory_urls": False,
    "theme": {
        "name": "material",
        "font": False,
        "features": ["navigation.sections", "navigation.top", "search.highlight"],
        "palette": [
            toggle("default", "dark", "material/weather-night"),
            toggle("slate", "light", "material/weather-sunny"),
        ],
    },
    "plugins": ["search"],
    "markdown_extensions": [
        "sane_lists",
        "tables",
        {"toc": {"permalink": True}},
        "pymdownx.highlight",
        "pymdownx.superfences",
    ],
    "extra": {"generator": False},
    "extra_css": ["site.css"],
}


class Site:
    """The folder of documents that mkdocs reads."""

    def __init__(self, root, docs):
        self.root = root
        self.docs = docs
        self.manual = man.Manual(root)
        self.known = {f"{page.name}.{page.section}" for page in self.manual.pages}

    def write(self):
        folders = (self.root / "docs", self.root / "figures")
        inside = [path for folder in folders for path in folder.rglob("*")]
        for path in [*map(self.root.__truediv__, TOP), *inside]:
            place = path.relative_to(self.root)
            if path.suffix in (".md", ".svg") and place.parts[:2] != ("docs", "man"):
                (self.docs / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, self.docs / place)
        shutil.copyfile(pathlib.Path(__file__).with_name("site.css"), self.docs / "site.css")
        for path in list(self.docs.rglob("*.md")):
            path.write_text(self.adapted(path, path.read_text()))
        (self.docs / "manual").mkdir()
        for page in self.manual.pages:
            path = self.docs / "manual" / f"{page.name}.{page.section}.md"
            text = re.sub(r"(?m)^(?=#+ )", "#", page.expanded())
            path.write_text(f"# {page.name}({page.section})\n\n{self.adapted(path, text)}")

    def adapted(self, path, text):
        """The text of a page, adapted for mkdocs."""
        parts = re.split(r"(?ms)(^```.*?^```$)", text)
        for i in range(0, len(parts), 2):
            parts[i] = LIST.sub(r"\1\n", parts[i])
            parts[i] = LINK.sub(lambda match: self.link(path, match), parts[i])
            parts[i] = re.sub(
                r"(?m)^#.*$|``.+?``|`[^`]*`|\[[^\]]*\]\([^)]*\)|" + REFERENCE.pattern,
                lambda match: self.reference(path, match),
                parts[i],
            )
        return "".join(parts)

    def link(self, path, match):
        """Keeps a link that leads into the site, or should; mkdocs finds dead ones."""
        place = os.path.relpath(path.parent / match.group(2).partition("#")[0], self.docs)
        inside = place.startswith(("docs/", "figures/")) or (self.docs / place).exists()
        return match.group(0) if inside or ":" in place else match.group(1)

    def reference(self, path, match):
        """Turns the name of a manual page into a link; code in a table needs no backslash."""
        if match.group(1) is None:
            text = match.group(0).replace("\\|", "|")
            return f'<span class="option">{text}</span>' if OPTION.fullmatch(text) else text
        name = f"{match.group(1)}.{match.group(2)}"
        if name not in self.known:
            return match.group(0)
        place = os.path.relpath(self.docs / "manual", path.parent)
        return f"[{match.group(1)}({match.group(2)})]({place}/{name}.md)"

    def navigation(self):
        chapters = [{"Overview": "README.md"}, {"Documents": INDEX}]
        for chapter in re.split(r"(?m)^## ", (self.root / INDEX).read_text())[1:]:
            places = [os.path.normpath("docs/" + place) for _, place in LINK.findall(chapter)]
            chapters.append({chapter.split(":")[0]: places})
        chapters.append({"Project": ["CHANGELOG.md", "SECURITY.md"]})
        pages = [
            {title: [f"manual/{name}.md" for name in sorted(self.known) if name[-1] == section]}
            for section, title in SECTIONS.items()
        ]
        return [*chapters, {"Manual": pages}]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        site = Site(args.root, pathlib.Path(folder) / "docs")
        site.write()
        config = pathlib.Path(folder) / "mkdocs.yml"
        config.write_text(json.dumps({**CONFIG, "nav": site.navigation()}))
        # With --quiet, newer ones count no warnings.
        built = subprocess.run(
            ["mkdocs", "build", "--strict", "--clean", "--config-file", config,
             "--site-dir", args.out.resolve()],
            stderr=subprocess.PIPE,
            text=True,
        )
        if built.returncode != 0:
            sys.exit(f"{built.stderr}site.py: mkdocs ended with {built.returncode}")


if __name__ == "__main__":
    try:
        main()
    except (man.PageError, FileNotFoundError) as error:
        sys.exit(f"site.py: {error}")
