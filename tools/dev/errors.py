#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares docs/reference/errors.md with the messages that the library can log.

    errors.py [--root DIR]           lists messages without an entry, and entries without a message;
                                     fails if there are any
    errors.py [--root DIR] --list    prints every message, and its places in the sources

Variable parts of a message appear as `…`. An entry of the document is a list of messages, each
alone between backticks on a line of the list, followed by a paragraph.
"""

import argparse
import pathlib
import re
import sys

FOLDERS = ("urma", "jetty", "segment")
DOCUMENT = "docs/reference/errors.md"

# Calls whose text reaches the log. Those of the second kind append ": " and the system's error
# text.
PLAIN = (
    r"URMA_LOG|URMA_LOG_LIMITED|URMA_LOG_FAILED|log_line|fail|refuse|damaged|skip|remember|"
    r"leave_out|because|push_back|urma_log_loc"
)
WITH_REASON = r"fail_errno|fail_device|fail_no_fd|checked_fd|require"
CALL = re.compile(rf"\b(?:(?P<plain>{PLAIN})|(?P<reason>{WITH_REASON}))\(")
ASSIGNED = re.compile(r"\bwhy =\s((?:\"(?:[^\"\\]|\\.)*\"|[^\";])*);")
TEXTS = re.compile(r"^(?:const char\*|std::string) (?:\w+_text|why_\w+)\(.*?^}", re.M | re.S)
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\s*\n?\s*"((?:[^"\\]|\\.)*)")*')
COMMENT = re.compile(r"(?m)//.*$")
ANY = "…"


def arguments(text, start):
    """Returns the text between the bracket before `start` and its closing one."""
    depth, i, quoted = 1, start, False
    while depth:
        c = text[i]
        if quoted:
            if c == "\\":
                i += 1
            elif c == '"':
                quoted = False
        elif c == '"':
            quoted = True
        elif c in "()":
            depth += 1 if c == "(" else -1
        i += 1
    return text[start : i - 1]


def literals(text):
    """Returns the string literals of a piece of source, adjacent ones joined."""
    joined = re.sub(r'(?<!\\)"\s+"', "", text)
    return [m.group(1).replace('\\"', '"') for m in LITERAL.finditer(joined)]


def normalised(text):
    text = re.sub(r"{[^{}]*}", ANY, text)
    return text + ANY if text.endswith(" ") else text


def is_message(text):
    return re.search(r"[A-Za-z]{3}", text.replace(ANY, "")) is not None


def is_reason(text):
    """A text that replaces a `…` of another message, and has a meaning by itself."""
    return text.count(" ") >= 2 and re.match(rf"[A-Za-z{ANY}]", text) is not None


def messages_of(source):
    """Yields (offset, message) of each message that a source file can log."""
    for match in CALL.finditer(source):
        texts = [normalised(t) for t in literals(arguments(source, match.end()))]
        plain = match.group("plain")
        if plain in ("push_back", "because", "remember", "skip"):
            texts = [t for t in texts if is_reason(t)]
        texts = [t for t in texts if is_message(t)]
        for i, text in enumerate(texts):
            if i == 0:
                yield match.start(), text if plain else f"{text}: {ANY}"
            elif is_reason(text):
                yield match.start(), text
    for match in ASSIGNED.finditer(source):
        for text in map(normalised, literals(match.group(1))):
            if is_reason(text):
                yield match.start(), text
    for match in TEXTS.finditer(source):
        for text in map(normalised, literals(match.group(0))):
            if is_reason(text):
                yield match.start(), text


def messages(root):
    """Returns {message: [FILE:LINE, ...]} of the library and its modules."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".cc", ".h"):
                continue
            source = COMMENT.sub("", path.read_text())
            for offset, text in messages_of(source):
                line = source.count("\n", 0, offset) + 1
                found.setdefault(text, []).append(f"{path.relative_to(root)}:{line}")
    return found


def entries(text):
    """Returns the messages that have an entry, and complaints about entries without text."""
    found, complaints, pending = [], [], []
    for line in text.splitlines():
        match = re.match(r"- (`+) ?(.*?) ?\1$", line)
        if match:
            found.append(match.group(2))
            pending.append(match.group(2))
        elif line.startswith("#") and pending:
            complaints.append(f"no answer follows: {pending[-1]}")
            pending = []
        elif line.strip():
            pending = []
    if pending:
        complaints.append(f"no answer follows: {pending[-1]}")
    return found, complaints


def compare(root):
    """Returns the errors of the document."""
    logged = messages(root)
    listed, complaints = entries((root / DOCUMENT).read_text())
    for text, places in sorted(logged.items()):
        if text not in listed:
            complaints.append(f"{places[0]}: {DOCUMENT} has no entry for: {text}")
    for text in sorted(set(listed)):
        if text not in logged:
            complaints.append(f"{DOCUMENT}: nothing logs this any more: {text}")
        if listed.count(text) > 1:
            complaints.append(f"{DOCUMENT}: more than one entry for: {text}")
    return complaints


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        for text, places in messages(args.root).items():
            print(f"{text}\t{' '.join(places)}")
        return 0
    complaints = compare(args.root)
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
