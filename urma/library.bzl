# SPDX-License-Identifier: MIT
"""What the products consist of."""

load("//urma:link_time.bzl", "LINK_TIME_COPTS")
load("//third_party/precompiled:precompiled.bzl", "begin_with")

def cc_library(**attributes):
    """A native cc_library in C++ that is inlined across files, and begins with the precompiled header.

    Args:
      **attributes: of the native rule.
    """
    native.cc_library(**begin_with(
        "third_party/precompiled/first.h",
        "//third_party/precompiled:headers",
        dict(attributes, copts = LINK_TIME_COPTS, linkstatic = True),
    ))
