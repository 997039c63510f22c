#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares docs/internals/architecture.md with the sources.

    architecture.py [--root DIR]           lists names on the page that the sources lack, and
                                           folders that the page lacks; fails if there are any
    architecture.py [--root DIR] --list    prints every function on the page, and its file

The page has a function as `name` (`file`), a member as `Class::name`. That file must declare or
define it; a call, or its name in a comment, is not enough.
"""

import argparse
import pathlib
import re
import sys

DOCUMENT = "docs/internals/architecture.md"
FIGURE = "figures/components.dot"
# Folders where each subfolder with a BUILD.bazel is a component.
COMPONENTS = ("jetty", "segment", "urma")

FUNCTION = re.compile(r"`([~\w:]+)`\s+\(`([\w./]+)`\)")
NAMES = re.compile(r"`([\w/]+)`")
LABEL = re.compile(r'"//((?:%s)(?:/\w+)*)"' % "|".join(COMPONENTS))
EDGE = re.compile(r'"([\w/]+)" -> "([\w/]+)"')
IGNORED = re.compile(r'//.*$|"(?:[^"\\\n]|\\.)*"|\[\[.*?\]\] *', re.M)
# What precedes the name of a function on a line that declares it.
TYPE = r"(?!(?:return|else|throw|new|delete|case)\b)\w[\w:<>,*& ]*[*& ]"


def body_of(text, name):
    """Returns the body of a class definition, "" if there is none."""
    match = re.search(rf"\b(?:class|struct)\s[^;:{{}}]*?\b{name}\b[^;{{}}()]*{{", text)
    if match is None:
        return ""
    depth, i = 1, match.end()
    while depth and i < len(text):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        i += 1
    return text[match.end() : i - 1]


def declares(source, name):
    """Whether a source declares or defines a function. Names outside classes are not indented."""
    text = IGNORED.sub("", source)
    owner, _, own = name.rpartition("::")
    if not owner:
        return re.search(rf"(?m)^{TYPE}(?:[a-z]\w*::)*{own}\(", text) is not None
    returns = f"(?:{TYPE})?" if own.lstrip("~") == owner else TYPE
    return (
        re.search(rf"(?m)^{returns}{owner}::{own}\(", text) is not None
        or re.search(rf"(?m)^ *{returns}{own}\(", body_of(text, owner)) is not None
    )


def check_functions(root, page):
    for name, file in FUNCTION.findall(page):
        path = root / file
        if not path.is_file():
            yield f"{name}: there is no file {file}"
        elif not declares(path.read_text(), name):
            yield f"{file} does not declare {name}"


def components_of(page):
    """Returns {folder: the folders that it uses, or None if the page does not say}."""
    components = {}
    header = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            header = []
        elif not header:
            header = cells
        elif header[0] == "folder":
            uses = set(NAMES.findall(cells[2])) if "uses" in header else None
            components.update((folder, uses) for folder in NAMES.findall(cells[0]))
    return components


def check_components(root, components, figure):
    for folder, uses in components.items():
        build = root / folder / "BUILD.bazel"
        if not (root / folder).is_dir():
            yield f"there is no folder {folder}"
        elif uses is not None:
            used = set(LABEL.findall(build.read_text())) if build.exists() else set()
            if uses != used:
                yield f"{folder} uses {', '.join(sorted(used)) or 'nothing'}, says its BUILD.bazel"
    for top in COMPONENTS:
        for build in sorted((root / top).rglob("BUILD.bazel")):
            folder = str(build.parent.relative_to(root))
            if folder not in components:
                yield f"{DOCUMENT} has no line for {folder}"
    for user, used in EDGE.findall(figure):
        if user not in components or used not in (components[user] or {"urma/include"}):
            yield f"{FIGURE}: {user} does not use {used}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    page = (args.root / DOCUMENT).read_text()
    if args.list:
        for name, file in FUNCTION.findall(page):
            print(f"{name}\t{file}")
        return 0
    complaints = [
        *check_functions(args.root, page),
        *check_components(args.root, components_of(page), (args.root / FIGURE).read_text()),
    ]
    print("".join(f"{complaint}\n" for complaint in complaints), end="")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
