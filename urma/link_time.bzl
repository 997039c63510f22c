# SPDX-License-Identifier: MIT
"""Inlining across files, for what stands between a program and its memory.

The products are linked with it: a post and a poll go through a dozen small
functions in as many files, and take a quarter less time without the calls.
Objects hold ordinary code too, which tests that link them use.
"""

LINK_TIME_COPTS = select({
    "//urma:link_time": [
        "-flto",
        # Callers of these functions save registers for each frame pointer.
        "-fomit-frame-pointer",
        "-ffat-lto-objects",
        # To pack two fields for one store costs more than two stores.
        "-fno-tree-slp-vectorize",
        # What a request is checked for holds nearly always: a branch for each.
        "--param=logical-op-non-short-circuit=0",
    ],
    "//conditions:default": [],
})

LINK_TIME_LINKOPTS = select({
    "//urma:link_time": [
        "-flto=auto",
        "-fuse-linker-plugin",
        "-O2",
        "--param=logical-op-non-short-circuit=0",
    ],
    "//conditions:default": [],
})

ORDINARY_CODE_LINKOPTS = select({
    "//urma:link_time": ["-fno-use-linker-plugin"],
    "//conditions:default": [],
})
