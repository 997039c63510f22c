#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks how documents are written.

    prose.py FILE...           lists lines of more than 100 characters and paragraphs of more than
                               100 words; fails if there are any
    prose.py --wrap FILE...    wraps the paragraphs of such lines

Tables, blocks of code and headings may be wider, and so may unbreakable text: code between
backticks, and links.
"""

import argparse
import pathlib
import re
import sys

WIDTH, WORDS = 100, 100
ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
# Where lines are not broken, and words with a meaning at the start of a line.
WHOLE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)|!?\[[^\]]*\]\([^)]*\)")
MARKER = re.compile(r"[-+*#>|]|\d+[.)]$|```")
GLUE = "\0"


def paragraphs(lines):
    """Yields (index, lines) of each paragraph and each item of a list."""
    part, code, remark = [], False, False
    for i, line in enumerate([*lines, ""]):
        fence = line.lstrip().startswith("```")
        outside = code or fence or remark or re.match(r"\s*$|\||#|\s*<!--", line)
        code ^= fence
        remark = (remark or "<!--" in line) and "-->" not in line
        if part and (outside or ITEM.match(line)):
            yield i - len(part), part
            part = []
        if not outside:
            part.append(line)


def wrapped(part):
    """Returns a paragraph in lines of at most WIDTH, if it can be broken so."""
    item = ITEM.match(part[0])
    first = item.group(0) if item else re.match(r"\s*", part[0]).group(0)
    text = " ".join(line.strip() for line in part)[len(first.lstrip()) :]
    text = WHOLE.sub(lambda match: match.group(0).replace(" ", GLUE), text)
    out, line = [], first
    for word in text.split():
        if line.strip() and len(line) + len(word) > WIDTH and line != first:
            if not MARKER.match(word):
                out.append(line.rstrip())
                line = " " * len(first)
        line += word + " "
    return [line.replace(GLUE, " ") for line in [*out, line.rstrip()]]


def complaints(lines):
    for start, part in paragraphs(lines):
        words = sum(len(line.split()) for line in part)
        if words > WORDS:
            yield start + 1, f"{words} words in a paragraph, more than {WORDS}; make a list of it"
        for i, line in enumerate(part):
            if len(line) > WIDTH and len(wrapped([line])) > 1:
                yield start + i + 1, f"{len(line)} characters, more than {WIDTH}; see prose.py --wrap"


def wrap(lines):
    """Returns the lines; paragraphs with a line that is too long are wrapped."""
    out, done = [], 0
    for start, part in paragraphs(lines):
        if any(len(line) > WIDTH for line in part):
            out += lines[done:start] + wrapped(part)
            done = start + len(part)
    return out + lines[done:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--wrap", action="store_true")
    args = parser.parse_args()
    found = 0
    for path in args.files:
        lines = path.read_text().split("\n")
        if args.wrap:
            path.write_text("\n".join(wrap(lines)))
            continue
        for number, text in sorted(complaints(lines)):
            print(f"{path}:{number}: {text}")
            found += 1
    return found > 0


if __name__ == "__main__":
    sys.exit(main())
