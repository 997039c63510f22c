# SPDX-License-Identifier: MIT
"""A fuzzer, and the test that runs what it has found."""

load("//urma:link_time.bzl", "ORDINARY_CODE_LINKOPTS")

def fuzz_target(name, deps, size = "small", tags = [], data = []):
    """NAME_fuzz.cc and corpus/NAME.

    Args:
      name: of the fuzzer, which links with --config=fuzz only.
      deps: what it calls.
      size: of the test.
      tags: of the test.
      data: of both.
    """
    sources = [name + "_fuzz.cc"]
    deps = deps + [":bytes"]
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = sources,
        data = data,
        # -rdynamic: counters of shared libraries are the program's.
        linkopts = [
            "-fsanitize=fuzzer",
            "-rdynamic",
        ],
        tags = [
            "fuzz",
            "manual",
        ],
        deps = deps,
    )
    native.cc_test(
        name = name + "_corpus_test",
        size = size,
        srcs = sources,
        args = ["test/fuzz/corpus/" + name],
        data = data + native.glob(["corpus/%s/*" % name]),
        linkopts = ORDINARY_CODE_LINKOPTS,
        tags = tags,
        deps = deps + [":replay_main"],
    )
