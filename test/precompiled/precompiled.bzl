# SPDX-License-Identifier: MIT
"""Rules for tests: GoogleTest and the standard library are precompiled once for all of them."""

load("//third_party/precompiled:precompiled.bzl", "begin_with")

# Tags for tests that run under no sanitizer: a sanitizer has its own memory, threads, calls or
# instructions, or the test runs programs that know nothing of its libraries.
NOT_SANITIZED = [
    "no-asan",
    "no-tsan",
]

def _precompiled(**attributes):
    return begin_with("test/precompiled/first.h", "//test/precompiled:headers", attributes)

def cc_test(name, srcs = None, deps = [], env = {}, **attributes):
    """A native cc_test in C++ that begins with the precompiled header, and has GoogleTest's main().

    Args:
      name: of the test.
      srcs: NAME.cc by default.
      deps: besides GoogleTest.
      env: of the test. Tests have no network unless they say otherwise: the addresses of a machine
        vary.
      **attributes: of the native rule.
    """
    native.cc_test(**_precompiled(
        name = name,
        srcs = [name + ".cc"] if srcs == None else srcs,
        deps = deps + ["@system//:gtest_main"],
        env = dict({"URMA_TCP_DEVICES": "none"}, **env),
        **attributes
    ))

def cc_tests(names, srcs = [], tags = [], soak = [], **attributes):
    """Tests that differ only in NAME.cc.

    Args:
      names: of the tests.
      srcs: of each, besides NAME.cc.
      tags: of each.
      soak: those with a long form.
      **attributes: of each.
    """
    for name in names:
        cc_test(
            name = name,
            srcs = [name + ".cc"] + srcs,
            tags = tags + (["soak"] if name in soak else []),
            **attributes
        )

def cc_library(**attributes):
    """A native cc_library for tests, in C++, whose files begin with the precompiled header."""
    native.cc_library(testonly = True, **_precompiled(**attributes))
