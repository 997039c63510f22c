#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws figures/*.{flow,dot} as SVG beside them, in one style, for light and dark.

    figures.py [--root DIR] [--check]   with --check: lists flows whose drawing is out of date

A flow is a sequence of steps between lanes, from top to bottom:

    title: TEXT
    example: FILE                       whose text the figure goes with
    lanes: A | B | C
    A -> B: TEXT                        an arrow; `-->`: an answer; A -> A: an action of A
    A, C: TEXT                          an action of both

Graphviz draws graphs; it is needed only if one has changed.
"""

import argparse
import html
import pathlib
import re
import subprocess
import sys

LANE, STEP, TOP, MARGIN = 264, 46, 84, 105
PER_LETTER = 6.6  # approximate width of a letter
STYLE = """<style>
svg { color: #1f2328; font: 13px sans-serif; }
@media (prefers-color-scheme: dark) { svg { color: #e6edf3; } }
text { fill: currentColor; }
.line { stroke: currentColor; fill: none; }
.lane { stroke: currentColor; stroke-dasharray: 2 4; opacity: 0.5; }
.head { fill: currentColor; }
.title { font-weight: bold; font-size: 15px; }
</style>
"""
MARKER = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path class="head" d="M0,0 L8,4 L0,8 z"/></marker></defs>\n'
)


class FlowError(Exception):
    """An input that cannot be drawn."""


def read_flow(path):
    """Returns the title, the lanes, and the steps: (from, to, dashed, text)."""
    title, lanes, steps = "", [], []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        key, _, text = line.partition(": ")
        if key == "title":
            title = text
        elif key == "lanes":
            lanes = text.split(" | ")
        elif key != "example" and line:
            ends = re.split(r" --?> |, ", key)
            if len(ends) != 2 or any(end not in lanes for end in ends):
                raise FlowError(f"{path}:{number}: '{key}' is not a step between two of the lanes {lanes}")
            kind = "both" if "," in key else "answer" if " --> " in key else "call"
            start, end = lanes.index(ends[0]), lanes.index(ends[1])
            check_width(path, number, start, end, lanes, text)
            steps.append((start, end, kind, text))
    return title, lanes, steps


def check_width(path, number, start, end, lanes, text):
    room = LANE * (abs(end - start) if start != end else max(len(lanes) - 1 - start, 0.3)) - 12
    if len(text) * PER_LETTER > room:
        raise FlowError(f"{path}:{number}: '{text}' is wider than its arrow; shorten it")


def words(x, y, text, extra="", anchor="middle"):
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{extra}>{html.escape(text)}</text>\n'


def draw_step(start, end, kind, text, y):
    x1, x2 = MARGIN + start * LANE, MARGIN + end * LANE
    if kind == "both":
        middle = (x1 + x2) / 2
        bar = f'<path class="line" d="M{x1},{y} L{x2},{y}" stroke-width="3" opacity="0.4"/>\n'
        return bar + words(middle, y - 7, text)
    if start == end:
        loop = f'<path class="line" marker-end="url(#tip)" d="M{x1},{y - 12} h24 v16 h-24"/>\n'
        return loop + words(x1 + 32, y + 1, text, anchor="start")
    dash = ' stroke-dasharray="5 4"' if kind == "answer" else ""
    arrow = f'<path class="line"{dash} marker-end="url(#tip)" d="M{x1},{y} L{x2},{y}"/>\n'
    return arrow + words((x1 + x2) / 2, y - 7, text)


def lane_path(lane, steps, height):
    """The line of a lane, open where the text of a step between two other lanes crosses it."""
    x = MARGIN + lane * LANE
    line = f"M{x},62"
    for i, (start, end, _, text) in enumerate(steps):
        y, middle = TOP + i * STEP + 26, MARGIN + (start + end) * LANE / 2
        if start != end and abs(x - middle) < len(text) * PER_LETTER / 2 + 4:
            line += f" V{y - 20} M{x},{y - 3}"
    return f'<path class="lane" d="{line} V{height - 12}"/>\n'


def draw_flow(path):
    title, lanes, steps = read_flow(path)
    width = 2 * MARGIN + (len(lanes) - 1) * LANE
    height = TOP + len(steps) * STEP + 24
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n',
        f"<title>{html.escape(title)}</title>\n",
        STYLE,
        MARKER,
        words(MARGIN - 75, 22, title, ' class="title"', "start"),
    ]
    for i, lane in enumerate(lanes):
        x = MARGIN + i * LANE
        out.append(f'<rect class="line" x="{x - 78}" y="36" width="156" height="26" rx="6"/>\n')
        out.append(words(x, 53, lane))
        out.append(lane_path(i, steps, height))
    for i, step in enumerate(steps):
        out.append(draw_step(*step, TOP + i * STEP + 26))
    return "".join(out) + "</svg>\n"


def draw_graph(path):
    made = subprocess.run(
        ["dot", "-Tsvg", "-Nfontname=sans-serif", "-Efontname=sans-serif", "-Gfontname=sans-serif",
         "-Gfontsize=13", "-Nfontsize=13", "-Efontsize=12", "-Gbgcolor=transparent", path],
        stdout=subprocess.PIPE, check=True).stdout.decode()
    title = re.search(r"(?m)^// title: (.*)$", path.read_text()).group(1)
    made = re.sub(r"(?s)^.*?<svg", "<svg", made)
    made = re.sub(r"(?s)<!--.*?-->\n?", "", made)
    made = re.sub(r"<title>.*?</title>\n?", "", made)
    made = re.sub(r' width="\d+pt" height="\d+pt"', ' role="img"', made, count=1)
    made = re.sub(r'<polygon fill="none" stroke="(transparent|none)"[^>]*/>\n', "", made)
    made = made.replace('"black"', '"currentColor"')
    return made.replace(">\n<g", f">\n<title>{html.escape(title)}</title>\n{STYLE}<g", 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    wrong = 0
    for path in sorted((args.root / "figures").glob("*.flow")):
        target, drawn = path.with_suffix(".svg"), draw_flow(path)
        if not args.check:
            target.write_text(drawn)
        elif not target.exists() or target.read_text() != drawn:
            wrong += 1
            print(f"{target} is not what {path.name} says; run tools/dev/figures.py")
    if not args.check:
        for path in sorted((args.root / "figures").glob("*.dot")):
            path.with_suffix(".svg").write_text(draw_graph(path))
    return wrong


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (FlowError, subprocess.CalledProcessError, FileNotFoundError) as error:
        sys.exit(f"figures.py: {error}")
