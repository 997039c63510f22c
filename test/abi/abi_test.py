#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the C interface of liburma with its inventory, urma_abi.json; libtpsa's is uvs_abi.json.

    abi_test.py --include DIR [--map FILE] [--lib FILE] [--inventory FILE]

DIR has the headers. Each of them is compiled alone; then static assertions, and a small program for
the bit-fields, check what they declare. --map checks the version script, --lib the symbols of the
library: exactly the interface, nothing missing and nothing more. Prints one line for each group of
checks, the checks that failed, and 'N passed, N failed, N skipped' last. The exit status is 0 only
if none failed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

EXTENSIONS = "urma_ext.h"
LEGACY = "urma_legacy.h"  # macros alone

C_PRELUDE = """\
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#define SAME(a, b) __builtin_types_compatible_p(a, b)
"""

CXX_PRELUDE = """\
#include <cstddef>
"""

PROBE_MAIN = """\
static int probe(const unsigned char* bytes, size_t size, size_t first, size_t width) {
  for (size_t i = 0; i < size * 8; i++) {
    int set = bytes[i / 8] >> (i % 8) & 1;
    if (set != (i >= first && i < first + width)) return 0;
  }
  return 1;
}
"""


class Results:
    """Counts checks, and reports them group by group."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = 0

    def group(self, name, checks):
        """Reports a group; `checks` is a list of (description, reason of the failure or None)."""
        failures = [(what, why) for what, why in checks if why is not None]
        self.passed += len(checks) - len(failures)
        self.failed += len(failures)
        print(f"{name}: {len(checks) - len(failures)} passed, {len(failures)} failed")
        for what, why in failures:
            print(f"  {what}: {why}")

    def skip(self, name, why):
        self.skipped += 1
        print(f"SKIP: {name}: {why}")

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed else 0


class Compiler:
    """Compiles sources of the test against the headers."""

    def __init__(self, include, work):
        self.include = include
        self.work = work

    def run(self, command, language, standard, source, extra):
        suffix = "c" if language == "c" else "cc"
        path = os.path.join(self.work, f"probe.{suffix}")
        with open(path, "w", encoding="utf-8") as out:
            out.write(source)
        return subprocess.run(
            [command, "-x", language, f"-std={standard}", "-I", self.include, *extra, path],
            capture_output=True, text=True, check=False)

    def assertions(self, command, language, standard, prelude, entries):
        """Checks (description, expression) entries in one compilation, and reports which ones fail.

        Every entry is on a line of its own, so that the place of an error names the entry.
        """
        keyword = "_Static_assert" if language == "c" else "static_assert"
        lines = prelude.splitlines()
        first = len(lines) + 1
        lines += [f'{keyword}({expression}, "");' for _, expression in entries]
        limit = "-ferror-limit=0" if "clang" in command else "-fmax-errors=0"
        done = self.run(command, language, standard, "\n".join(lines) + "\n",
                        ["-fsyntax-only", "-w", limit])
        reasons = {}
        for match in re.finditer(r"probe\.cc?:(\d+):\d+: (?:fatal )?error: (.*)", done.stderr):
            reasons.setdefault(int(match.group(1)) - first, match.group(2))
        if done.returncode and not any(0 <= line < len(entries) for line in reasons):
            text = done.stderr.strip() or "the compiler failed"
            return [(what, text.splitlines()[0]) for what, _ in entries]
        return [(what, reasons.get(i)) for i, (what, _) in enumerate(entries)]


def pointer_to(function):
    """The type of a pointer to a function of the inventory."""
    _, result, parameters = function
    return f"{result} (*)({', '.join(parameters) or 'void'})"


def fit_mutexes(inventory, compiler, command):
    """Makes room for glibc's mutex, which has 8 bytes more on aarch64 than in the inventory."""
    defined = compiler.run(command, "c", "c11", "", ["-E", "-dM"]).stdout
    if not re.search(r"^#define __aarch64__ 1$", defined, re.M):
        return
    for name, record in inventory["records"].items():
        grown = 0
        for field in record["fields"]:
            field[2] += grown
            if field[1] == "pthread_mutex_t":
                field[3] += 8
                grown += 8
        record["size"] += grown
        for typedef in inventory["typedefs"].values():
            typedef[2] += grown if typedef[1] == name else 0


def is_liburma(inventory):
    """Whether there are headers that the inventory lacks."""
    return "urma_api.h" in inventory["headers"]


def all_headers(inventory):
    return inventory["headers"] + ([EXTENSIONS, LEGACY] if is_liburma(inventory) else [])


def include_lines(inventory):
    return "".join(f'#include "{header}"\n' for header in all_headers(inventory)
                   if header != LEGACY)


def layout_entries(inventory, align):
    """Sizes, alignments and offsets, for both languages."""
    entries = []
    for name, record in inventory["records"].items():
        entries.append((f"size of {name}", f"sizeof({name}) == {record['size']}"))
        entries.append((f"alignment of {name}", f"{align}({name}) == {record['align']}"))
        for path, _, offset, size in record["fields"]:
            entries.append((f"offset of {name}.{path}", f"offsetof({name}, {path}) == {offset}"))
            if size:
                entries.append((f"size of {name}.{path}",
                                f"sizeof((({name}*)0)->{path}) == {size}"))
    return entries


def type_entries(inventory):
    entries = []
    for name, record in inventory["records"].items():
        for path, spelling, _, _ in record["fields"]:
            if spelling:
                entries.append((f"type of {name}.{path}",
                                f"SAME(__typeof__((({name}*)0)->{path}), {spelling})"))
    for name, (_, spelling, size) in inventory["typedefs"].items():
        entries.append((f"size of {name}", f"sizeof({name}) == {size}"))
        if spelling:
            entries.append((f"type of {name}", f"SAME({name}, {spelling})"))
    for name in inventory["forward_declared"]:
        entries.append((f"{name} is declared",
                        f"SAME(__typeof__(((urma_device_t*)0)->sysfs_dev), {name}*)"))
    return entries


def constant_entries(inventory):
    entries = []
    for name, enum in inventory["enums"].items():
        entries.append((f"size of {name}", f"sizeof({name}) == 4"))
        for constant, value in enum["constants"].items():
            entries.append((constant, f"(long long){constant} == {value}LL"))
    for name, (_, kind, value) in inventory["macros"].items():
        if kind == "integer":
            entries.append((name, f"(unsigned long long)({name}) == {value % 2**64}ULL"))
    return entries


def function_entries(inventory):
    entries = []
    for group in ("functions", "inline_functions"):
        for name, function in inventory[group].items():
            entries.append((name, f"SAME(__typeof__(&{name}), {pointer_to(function)})"))
    for group in ("variables", "tables"):
        for name, (_, spelling) in inventory[group].items():
            entries.append((name, f"SAME(__typeof__({name}), __typeof__({spelling}))"))
    if not is_liburma(inventory):
        return entries
    entries.append(("urma_log", "SAME(__typeof__(&urma_log), "
                    "void (*)(const char*, int, urma_vlog_level_t, const char*, ...))"))
    entries.append(("urma_log_loc", "SAME(__typeof__(&urma_log_loc), void (*)(const char*, "
                    "const char*, int, urma_vlog_level_t, const char*, ...))"))
    entries.append(("urma_log_drop",
                    "SAME(__typeof__(&urma_log_drop), bool (*)(urma_vlog_level_t))"))
    return entries


def run_bit_fields(compiler, command, inventory, prelude):
    """Sets each bit-field to ones, and checks which bits of its structure change."""
    fields = [(name, *bits) for name, record in inventory["records"].items()
              for bits in record.get("bits", [])]
    source = prelude + PROBE_MAIN
    for i, (name, path, _, first, width) in enumerate(fields):
        source += (f"static int check{i}(void) {{ {name} r; memset(&r, 0, sizeof(r)); "
                   f"r.{path} = (unsigned long long)-1; "
                   f"return probe((const unsigned char*)&r, sizeof(r), {first}, {width}); }}\n")
    source += "int main(void) {\n"
    source += "".join(f'  printf("%d\\n", check{i}());\n' for i in range(len(fields)))
    source += "  return 0;\n}\n"
    program = os.path.join(compiler.work, "probe")
    done = compiler.run(command, "c", "gnu11", source, ["-w", "-o", program])
    if done.returncode:
        return [(f"{name}.{path}", "the probe does not compile") for name, path, *_ in fields]
    answers = subprocess.run([program], capture_output=True, text=True,
                             check=False).stdout.split()
    return [(f"{name}.{path}", None if answer == "1" else f"not at bits {first}+{width}")
            for (name, path, _, first, width), answer
            in zip(fields, answers + ["0"] * (len(fields) - len(answers)))]


def run_macros(compiler, command, inventory):
    """Guards and function-like macros are defined, and strings have their value."""
    checks = []
    for header in all_headers(inventory):
        done = compiler.run(command, "c", "c11", f'#include "{header}"\n', ["-E", "-dM"])
        defined = dict(re.findall(r"^#define (\w+)(?:\([^)]*\))? ?(.*)$", done.stdout, re.M))
        for name, (where, kind, value) in inventory["macros"].items():
            if where != header or kind == "integer":
                continue
            if name not in defined:
                checks.append((name, "not defined"))
            elif kind == "string":
                text = "".join(re.findall(r'"([^"]*)"', defined[name]))
                checks.append((name, None if text == value else "another value"))
            else:
                checks.append((name, None))
    return checks


def interface(inventory, include):
    """The names that the library exports."""
    names = {*inventory["functions"], *inventory["variables"], *inventory["exported_elsewhere"]}
    if not is_liburma(inventory):
        return names
    with open(os.path.join(include, EXTENSIONS), encoding="utf-8") as source:
        text = re.sub(r"//.*", "", source.read())
    extensions = re.findall(r"\b(urma_\w+)\s*\((?!\*)", text)
    return {*names, *extensions}


def compare_names(expected, found):
    checks = [(name, None if name in found else "missing") for name in sorted(expected)]
    return checks + [(name, "not part of the interface") for name in sorted(found - expected)]


def names_of_map(path):
    with open(path, encoding="utf-8") as source:
        text = re.sub(r"/\*.*?\*/", "", source.read(), flags=re.S)
    body = re.search(r"global:(.*?)local:\s*\*;", text, re.S)
    return set(re.findall(r"[\w*?]+(?=;)", body.group(1))) if body else set()


def names_of_library(path):
    done = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True,
                          check=False)
    names = set()
    for line in done.stdout.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] != "A":  # A: the name of a version
            names.add(fields[2].split("@")[0])
    return names


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser()
    parser.add_argument("--include", required=True)
    parser.add_argument("--map")
    parser.add_argument("--lib")
    parser.add_argument("--inventory", default=os.path.join(here, "urma_abi.json"))
    arguments = parser.parse_args()
    with open(arguments.inventory, encoding="utf-8") as source:
        inventory = json.load(source)

    c = os.environ.get("CC", "cc")
    cxx = os.environ.get("CXX", "c++")
    results = Results()
    with tempfile.TemporaryDirectory(prefix="abi_test.") as work:
        compiler = Compiler(arguments.include, work)
        fit_mutexes(inventory, compiler, c)

        for command, language, standards in ((c, "c", ("c11", "gnu11")),
                                             (cxx, "c++", ("c++17", "c++20")),
                                             ("clang", "c", ("c11",)),
                                             ("clang++", "c++", ("c++17",))):
            for standard in standards:
                name = f"headers alone, {command} -std={standard}"
                if not shutil.which(command):
                    results.skip(name, f"no {command}")
                    continue
                checks = []
                for header in all_headers(inventory):
                    done = compiler.run(command, language, standard, f'#include "{header}"\n',
                                        ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic",
                                         "-Werror"])
                    text = done.stderr.strip() or "the compiler failed"
                    checks.append((header, text.splitlines()[0] if done.returncode else None))
                results.group(name, checks)

        c_prelude = C_PRELUDE + include_lines(inventory)
        cxx_prelude = CXX_PRELUDE + include_lines(inventory)
        for name, entries in (("layout in C", layout_entries(inventory, "_Alignof")),
                              ("types", type_entries(inventory)),
                              ("constants", constant_entries(inventory)),
                              ("functions and variables", function_entries(inventory))):
            results.group(name, compiler.assertions(c, "c", "gnu11", c_prelude, entries))
        results.group("layout in C++",
                      compiler.assertions(cxx, "c++", "gnu++17", cxx_prelude,
                                          layout_entries(inventory, "alignof")))
        results.group("bit-fields", run_bit_fields(compiler, c, inventory, c_prelude))
        results.group("other macros", run_macros(compiler, c, inventory))

    expected = interface(inventory, arguments.include)
    for name, path, read in (("version script", arguments.map, names_of_map),
                             ("exported symbols", arguments.lib, names_of_library)):
        if path:
            results.group(name, compare_names(expected, read(path)))
        else:
            results.skip(name, "no file given")
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
