# SPDX-License-Identifier: MIT
"""Rules for programs and modules on the public headers: compiled as any program is."""

load("//third_party/precompiled:precompiled.bzl", "begin_with")

def _precompiled(attributes):
    return begin_with(
        "third_party/precompiled/plain.h",
        "//third_party/precompiled:plain_headers",
        attributes,
    )

def cc_binary(**attributes):
    """A native cc_binary in C++, whose files begin with the precompiled header."""
    native.cc_binary(**_precompiled(attributes))

def cc_library(**attributes):
    """A native cc_library in C++, whose files begin with the precompiled header."""
    native.cc_library(**_precompiled(attributes))
