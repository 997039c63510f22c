# SPDX-License-Identifier: MIT
"""What tests have in common: GoogleTest and the standard library are read once for all of them.

Reading them takes the compiler half of the time that it spends on a test.
Whatever is compiled with other flags than this header reads its text instead.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

_HEADERS = "//test/precompiled:headers"

_COPTS = select({
    "//test/precompiled:off": [],
    "//conditions:default": [
        "-include",
        "test/precompiled/first.h",
    ],
})

_DEPS = select({
    "//test/precompiled:off": [],
    "//conditions:default": [_HEADERS],
})

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )

    # No header of this name lies among the sources: there the compiler would find it first, and
    # nothing precompiled beside it.
    text = ctx.actions.declare_file(ctx.attr.out)
    made = ctx.actions.declare_file(ctx.attr.out + ".gch")
    ctx.actions.symlink(output = text, target_file = ctx.file.hdr)
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = ctx.file.hdr.path,
        output_file = made.path,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts +
                             ctx.attr.copts + ["-x", "c++-header"],
        use_pic = True,
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
        ),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        inputs = depset([ctx.file.hdr], transitive = [toolchain.all_files]),
        outputs = [made],
        mnemonic = "CppPrecompile",
    )
    both = depset([text, made])
    return [
        DefaultInfo(files = both),
        CcInfo(compilation_context = cc_common.create_compilation_context(headers = both)),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "hdr": attr.label(allow_single_file = [".h"], mandatory = True),
        "out": attr.string(mandatory = True),
        "copts": attr.string_list(),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

# Tags of what no sanitizer sees: it has memory, threads, calls or instructions of its own, or runs
# programs that know nothing of a sanitizer's libraries.
NOT_SANITIZED = [
    "no-asan",
    "no-tsan",
]

def _precompiled(copts = [], deps = [], **attributes):
    return dict(attributes, copts = _COPTS + copts, deps = deps + _DEPS)

def cc_test(name, srcs = None, deps = [], env = {}, **attributes):
    """A native cc_test in C++ that begins with the precompiled header, and has GoogleTest's main().

    Args:
      name: of the test.
      srcs: NAME.cc, if nothing is said.
      deps: besides GoogleTest.
      env: of the test. There is no network but for tests that say otherwise: which addresses a
        machine has is its own affair.
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
    """Tests that differ in NAME.cc alone.

    Args:
      names: of the tests.
      srcs: what each has besides NAME.cc.
      tags: of each.
      soak: those that have a long form.
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
