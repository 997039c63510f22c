#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the manual pages of the library and its tools out of docs/man/*.md.

    man.py [--root DIR] --out DIR       writes DIR/man1, man3 and man7
    man.py [--root DIR] --list          prints each name that has a page of section 3
    man.py [--root DIR] --examples DIR  writes each example of a page as a C file

A page NAME.SECTION.md begins with `# NAME(SECTION): what it is`. Text from elsewhere is included
by a comment on a line of its own:

    <!-- functions HEADER: NAME... -->  prototypes, descriptions, results and rules for threads of
                                        functions, from the header; sections before the first `##`
                                        of the page come first, the others after it
    <!-- types HEADER: NAME... -->      definitions of structs and enums, with their comments
    <!-- banner HEADER: TITLE -->       a comment of a header, from the line on that begins with TITLE
    <!-- settings -->                   the table of settings
    <!-- include FILE: TITLE -->        a section of a document; `-TITLE`: all but these sections,
                                        separated by `;`

The text of functions comes from their headers, so there is one place to correct. lowdown converts
it to roff.
"""

import argparse
import datetime
import os
import pathlib
import re
import subprocess
import sys

HEADERS = pathlib.Path("urma/include")
DIRECTIVE = re.compile(r"<!-- (functions|types|banner|settings|include)(?: ([\w./]+):([^>]*))? -->")


class PageError(Exception):
    """A page refers to something that does not exist."""


def escape(text):
    """Marks up the plain text of a comment, except between backticks."""
    parts = text.split("`")
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([*_<\[\]])", r"\\\1", parts[i])
    return "`".join(parts)


def uncomment(lines):
    return [re.sub(r"^// ?", "", line) for line in lines]


class Header:
    """The functions, data and types that a header declares."""

    def __init__(self, root, name):
        self.name = name
        self.text = (root / HEADERS / name).read_text()
        self.functions = {}
        self.types = {}
        self.comments = []
        self._read()

    def _read(self):
        lines = self.text.splitlines()
        comment, i = [], 0
        while i < len(lines):
            line = lines[i]
            if line.startswith("// "):
                comment.append(line)
            elif line == "//":
                comment.append(line)
            elif re.match(r"typedef (struct|union|enum)\b.*{$", line):
                end = next(j for j in range(i, len(lines)) if lines[j].startswith("}"))
                name = re.search(r"(\w+)\s*;", lines[end])
                if name:
                    self.types[name.group(1)] = "\n".join(comment + lines[i : end + 1])
                i, comment = end, []
            elif re.match(r"[a-z].*[\w*] ?\**\w+\(", line) and not line.startswith(
                ("static", "typedef")
            ):
                end = next(j for j in range(i, len(lines)) if lines[j].endswith(";"))
                name = re.search(r"(\w+)\(", line).group(1)
                self.functions[name] = (comment, "\n".join(lines[i : end + 1]))
                i, comment = end, []
            elif line.startswith("extern const"):
                name = re.search(r"(\w+)(\[\])?;", line).group(1)
                self.functions[name] = (comment, line)
            else:
                self.comments.append(uncomment(comment))
                comment = []
            i += 1

    def function(self, name):
        """Returns (prototype, description, result, rule for threads) of a function."""
        if name not in self.functions:
            raise PageError(f"{self.name} declares no {name}")
        comment, prototype = self.functions[name]
        text = "\n".join(uncomment(comment))
        text = re.sub(r"\n?Specification:.*", "", text, flags=re.S).strip()
        result = re.search(r"(?:^|(?<=\s))Returns?\s.*", text, flags=re.S)
        result = " ".join(result.group(0).split()) if result else ""
        text = re.sub(r"(?:^|(?<=\s))Returns?\s.*", "", text, flags=re.S)
        text = " ".join(text.split())
        sentences = re.split(r"(?<=[.:;]) (?=[A-Z])", text)
        threads = [s for s in sentences if re.match(THREADS, s)]
        rest = [s for s in sentences if s not in threads]
        return prototype, " ".join(rest), result, " ".join(threads)

    def banner(self, title):
        for comment in self.comments:
            for i, line in enumerate(comment):
                if line.startswith(title):
                    text = "\n".join(escape(c) for c in comment[i:] if not c.startswith("----"))
                    return re.sub(r":\n- ", ":\n\n- ", text)
        raise PageError(f"{self.name} has no comment with a line that begins with {title}")


THREADS = r"(Not thread-safe|Thread-safe|Any thread|Calls for the same|All calls are thread-safe)"


class Manual:
    """All pages, and their sources."""

    def __init__(self, root):
        self.root = root
        self.headers = {p.name: Header(root, p.name) for p in (root / HEADERS).glob("*.h")}
        self.pages = [Page(self, path) for path in sorted((root / "docs/man").glob("*.[137].md"))]

    def header(self, name):
        if name not in self.headers:
            raise PageError(f"there is no header {name}")
        return self.headers[name]

    def page_of(self, document):
        """The name of the page that has a whole document; nothing if there is none."""
        for page in self.pages:
            if f"<!-- include {document}: -" in page.source:
                return f"**{page.name}**({page.section})"
        return ""

    def settings(self):
        """Reads the table of settings: (name, type, default, range, help) of each."""
        text = (self.root / "urma/core/process/settings.cc").read_text()
        table = re.search(r"kRows\[\] = {\n(.*?)\n};", text, flags=re.S)
        rows = []
        for row in re.findall(r"{(\"URMA_.*?\")},", table.group(1), flags=re.S):
            row = re.sub(r"\"\s*\n\s*\"", "", row)
            name, kind, default, allowed, text = re.match(
                r'"(.*?)", SettingType::(\w+), "(.*?)", "(.*?)",\s*"(.*)"$', row, flags=re.S
            ).groups()
            rows.append((name, kind, default, "0|1" if kind == "kBool" else allowed, text))
        return rows


def bullets(match):
    """A table as a list, which reads better in a terminal: the first cell, then the others."""
    rows = [
        [c.strip().replace("\\|", "|") for c in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
        for line in match.group(0).strip().splitlines()
    ]
    out = []
    for row in rows[2:]:
        rest = [
            f"{title + ' ' if title in ('default', 'in UMDK', 'here') and i else ''}{cell}"
            for i, (title, cell) in enumerate(zip(rows[0], row))
            if cell and i
        ]
        out.append(f"- {row[0]}" + (": " + "; ".join(rest) if rest else ""))
    return "\n".join(out) + "\n"


class Page:
    """A page of the manual."""

    def __init__(self, manual, path):
        self.manual = manual
        self.path = path
        self.name, self.section = path.name[:-3].rsplit(".", 1)
        self.source = path.read_text()
        title = re.match(r"# (\w+)\((\d)\): (.*)\n", self.source)
        if not title or (title.group(1), title.group(2)) != (self.name, self.section):
            raise PageError(f"{path}: does not begin with '# {self.name}({self.section}): '")
        self.summary = title.group(3)
        self.names = []
        for kind, _, names in DIRECTIVE.findall(self.source):
            if kind == "functions":
                self.names += names.split()

    def expanded(self):
        """The page as Markdown, with all included text."""
        body = self.source.split("\n", 1)[1]
        wanted = [(h, n.split()) for k, h, n in DIRECTIVE.findall(body) if k == "functions"]
        body = re.sub(r"<!-- functions.*?-->\n*", "", body, flags=re.S)
        parts = re.split(r"(?m)^(?=## )", body, maxsplit=1)
        intro, rest = parts[0].strip(), parts[1] if len(parts) > 1 else ""
        names = ", ".join(self.names or [self.name])
        out = [f"## NAME\n\n{names} - {self.summary}\n"]
        if wanted:
            out.append(self._synopsis(wanted))
        if intro:
            out.append(f"## DESCRIPTION\n\n{intro}\n")
        if wanted:
            out.append(self._functions(wanted))
        out.append(rest)
        text = DIRECTIVE.sub(self._expand, "\n".join(out))
        text = re.sub(r"(?m)(^\|.*\n)+", bullets, text)
        text = self._unlink(text, self.path)
        return re.sub(r"(?m)^#(#+) ", r"\1 ", text)

    def _unlink(self, text, path):
        """The text of the document at `path`, without links, which roff does not have: documents are
        named by their page or, without one, by where the source has them."""

        def name(match):
            shown, target = match.groups()
            if not re.search(r"\.md\b", shown) or target.startswith("#"):
                return shown
            file = os.path.normpath(path.parent / target.split("#")[0])
            file = os.path.relpath(file, self.manual.root)
            return self.manual.page_of(file) or f"{file} of the source"

        return re.sub(r"!?\[([^\]]+)\]\((?!http)([^)]+)\)", name, text)

    def _synopsis(self, wanted):
        blocks = []
        for header, names in wanted:
            prototypes = [self.manual.header(header).function(n)[0] for n in names]
            blocks.append(f"#include <{header}>\n\n" + "\n".join(prototypes))
        return "## SYNOPSIS\n\n```c\n" + "\n\n".join(blocks) + "\n```\n"

    def _functions(self, wanted):
        about, results, threads = [], [], []
        for header, names in wanted:
            for name in names:
                prototype, text, result, rule = self.manual.header(header).function(name)
                about.append(f"**{name}**: {escape(text)}\n")
                if prototype.startswith("extern"):
                    continue
                if result:
                    result = re.sub(r"^Returns? ", "", result)
                elif prototype.startswith("void "):
                    result = "nothing."
                elif "banner" not in self.source and not re.match("Tells what", text):
                    raise PageError(f"{self.path}: {name} does not say what it returns")
                if result:
                    results.append(f"**{name}**: {escape(result)}\n")
                rule = rule or "No other thread may use the object in the meantime."
                threads.append(f"**{name}**: {escape(rule)}\n")
        if "banner" in self.source:
            results.append("Unless stated otherwise: as the description says for all of them.\n")
            threads = ["All calls are thread-safe, as said above.\n"]
        common = (
            "**urma**(7) says what holds for every call, such as the result for a NULL handle, or "
            "for an operation that the provider does not support.\n"
        )
        return "\n".join(
            about + ["## RETURN VALUE\n"] + results + [common, "## THREADS\n"] + threads
        )

    def _expand(self, match):
        kind, name, words = match.groups()
        words = (words or "").strip()
        if kind == "types":
            types = self.manual.header(name).types
            missing = [w for w in words.split() if w not in types]
            if missing:
                raise PageError(f"{self.path}: {name} defines no {missing[0]}")
            return "```c\n" + "\n\n".join(types[w] for w in words.split()) + "\n```\n"
        if kind == "banner":
            return self.manual.header(name).banner(words)
        if kind == "settings":
            return self._settings()
        return self._include(name, words)

    def _settings(self):
        out = []
        for name, _, default, allowed, text in self.manual.settings():
            facts = f"Allowed: `{allowed}`. " if allowed else ""
            facts += f"Default: `{default}`." if default else "No default."
            out.append(f"### {name}\n\n{escape(text[0].upper() + text[1:])}.\n\n{facts}\n")
        return "\n".join(out)

    def _include(self, name, words):
        path = self.manual.root / name
        text = self._unlink(path.read_text(), path)
        chapters = re.split(r"(?m)^(?=## )", text)
        title = lambda chapter: chapter.split("\n")[0][3:]
        if words.startswith("-"):
            left_out = [w.strip() for w in words[1:].split(";")]
            kept = [c for c in chapters[1:] if title(c) not in left_out]
            if len(kept) + len([w for w in left_out if w]) != len(chapters) - 1:
                raise PageError(f"{self.path}: {name} lacks a section of: {words}")
            first = chapters[0].split("\n", 1)[1]
            return first + "".join("## " + title(c).upper() + c[3 + len(title(c)) :] for c in kept)
        for chapter in chapters[1:]:
            if title(chapter) == words:
                return chapter.split("\n", 1)[1]
        raise PageError(f"{self.path}: {name} has no section {words}")

    def roff(self):
        """The page as roff."""
        epoch = int(os.environ.get("SOURCE_DATE_EPOCH", str(int(self.path.stat().st_mtime))))
        day = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).date()
        head = f"title: {self.name}\nsection: {self.section}\ndate: {day}\nsource: liburma\n\n"
        made = subprocess.run(
            ["lowdown", "-s", "-Tman", "--out-no-smarty", "--parse-no-intraemph"],
            input=(head + self.expanded()).encode(),
            stdout=subprocess.PIPE,
            check=True,
        ).stdout.decode()
        # Indexers expect the name of a section on its macro's line; terminals have no typewriter
        # font; ragged lines are easier to read; and search words must not be hyphenated (each macro
        # turns hyphenation on again, unless HY is 0).
        made = re.sub(r"(?m)^\.(S[HS])\n", r".\1 ", made)
        made = re.sub(r"(?m)^(\.S[HS] .*\n)\.[LP]P\n", r"\1", made)
        made = re.sub(r"(?m)^\.[LP]P\n(?=\.(S[HS]|[LP]P))", "", made)
        made = re.sub(r"(?m)^(\.TH .*)$", r"\1\n.nr HY 0\n.nh\n.ad l", made)
        return made.replace("\\fC", "\\fB")

    def examples(self):
        return re.findall(r"(?ms)^```c\n(.*?)^```$", self.source)


def write(manual, out):
    for page in manual.pages:
        folder = out / f"man{page.section}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{page.name}.{page.section}").write_text(page.roff())
        for name in page.names:
            if name != page.name:
                text = f".so man{page.section}/{page.name}.{page.section}\n"
                (folder / f"{name}.{page.section}").write_text(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--examples", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    manual = Manual(args.root)
    if args.list:
        for page in manual.pages:
            for name in page.names:
                print(name)
    if args.examples:
        args.examples.mkdir(parents=True, exist_ok=True)
        for page in manual.pages:
            for i, text in enumerate(page.examples()):
                (args.examples / f"{page.name}.{page.section}.{i}.c").write_text(text)
    if args.out:
        write(manual, args.out)


if __name__ == "__main__":
    try:
        main()
    except (PageError, subprocess.CalledProcessError, FileNotFoundError) as error:
        sys.exit(f"man.py: {error}")
