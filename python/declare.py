#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Makes urma/_abi.py, the declarations that cffi needs, of the public headers.

    declare.py HEADER_FOLDER OUTPUT [MACHINE]

MACHINE is what `uname -m` prints where the binding will run, by default that of this machine.

cffi reads C without a preprocessor and without what only compilers know. So comments, directives
and __extension__ go, constants in sizes of arrays become numbers, and opaque types of the C library
get their sizes. //python:layout_test compares the result with what the compiler says.
"""

import contextlib
import errno
import os
import pathlib
import platform
import re
import sys
import tempfile

import cffi

HEADERS = ("urma_opcode.h", "urma_types.h", "urma_api.h")

# Definitions that the headers use from elsewhere. The locks are opaque; only their size and
# alignment count.
FOREIGN = """
typedef unsigned short sa_family_t;
typedef unsigned long atomic_ulong;
struct in_addr { uint32_t s_addr; };
struct in6_addr { uint32_t s6_addr32[4]; };
typedef union { char bytes[MUTEX_BYTES]; long align; } pthread_mutex_t;
typedef union { char bytes[48]; long long align; } pthread_cond_t;
"""

# libffi passes no unions by value. These have 32 bits, which Linux calling conventions pass like a
# uint32_t; calls with a larger union are left out.
FLAGS_BY_VALUE = re.compile(r"\burma_\w+_(?:flag|mask)_t(?= \w+[,)])")
LEFT_OUT = re.compile(r"\(urma_eid_t |\burma_tp_attr_value\b|\burma_tp_attr_value_t\b")


def read(folder: pathlib.Path, name: str) -> str:
    """A header without comments and C++."""
    text = re.sub(r"//.*|/\*.*?\*/", "", (folder / name).read_text())
    text = text.replace("\\\n", " ").replace("__extension__", "")
    return re.sub(r"^#ifdef __cplusplus\n.*?^#(?:else|endif).*?\n", "", text,
                  flags=re.MULTILINE | re.DOTALL)


def constants(text: str) -> dict:
    """The numbers that a header defines, by name."""
    known = {}
    for name, value in re.findall(r"^#define (\w+) +(.+)$", text, re.MULTILINE):
        value = re.sub(r"(?<=[0-9a-f])[UL]+\b", "", value)
        if not re.search(r"[a-z_]{2}(?<!0x)", value):
            value = re.sub(r"[A-Z]\w+", lambda m: str(known.get(m[0], getattr(errno, m[0], m[0]))),
                           value)
            if re.fullmatch(r"[0-9a-fx()<+ ]+", value):
                known[name] = eval(value)
    return known


def declarations(text: str) -> list:
    """The types and functions of a header, one by one."""
    text = re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE)
    text = text.replace('extern "C" {', "")
    found, depth, start = [], 0, 0
    for place, sign in enumerate(text):
        depth += (sign == "{") - (sign == "}")
        if sign == ";" and depth == 0:
            found.append(text[start:place + 1].strip())
            start = place + 1
    return found


def define(ffi: cffi.FFI, text: str, sizes: dict) -> None:
    for declaration in declarations(text):
        if LEFT_OUT.search(declaration):
            continue
        declaration = re.sub(r"\[(\w+)\]", lambda m: f"[{sizes.get(m[1], m[1])}]", declaration)
        if "{" not in declaration:
            declaration = FLAGS_BY_VALUE.sub("uint32_t", declaration)
        packed = "__attribute__((packed))" in declaration
        ffi.cdef(declaration.replace("__attribute__((packed))", ""), packed=packed)


def texts(header: str, numbers: dict) -> dict:
    """The texts of urma_types_str.h for results of calls and of requests, by number."""
    table = re.search(r"g_urma_cr_status_str\[\] = \{(.*?)\};", header, re.DOTALL)[1]
    body = re.search(r"urma_status_to_string\(urma_status_t status\) \{(.*?)\n\}", header,
                     re.DOTALL)[1]
    return {
        "REQUEST_TEXTS": re.findall(r'"(.*?)"', table),
        "CALL_TEXTS": {numbers[name]: text
                       for name, text in re.findall(r'case (\w+):\s+return "(.*?)"', body)},
    }


def make(folder: pathlib.Path, machine: str) -> str:
    ffi = cffi.FFI()
    ffi.cdef(FOREIGN.replace("MUTEX_BYTES", "48" if machine == "aarch64" else "40"))
    headers = [read(folder, name) for name in HEADERS]
    numbers = constants("\n".join(headers))
    for header in headers:
        define(ffi, header, numbers)
    ffi.set_source("urma._abi", None)
    with tempfile.TemporaryDirectory() as work:
        made = pathlib.Path(work, "_abi.py")
        with contextlib.redirect_stdout(open(os.devnull, "w")):
            ffi.emit_python_code(str(made))
        code = made.read_text()
    tables = texts(read(folder, "urma_types_str.h"), numbers)
    for name, value in {"CONSTANTS": numbers, **tables}.items():
        code += f"{name} = {value!r}\n"
    return code


def main() -> None:
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    headers, output, machine = *sys.argv[1:3], (*sys.argv[3:], platform.machine())[0]
    pathlib.Path(output).write_text(make(pathlib.Path(headers), machine))


if __name__ == "__main__":
    main()
