# SPDX-License-Identifier: MIT
"""Headers that the compiler reads once for many files.

Each file would otherwise read the standard library again. A file that is
compiled with flags that do not fit such a header reads its text.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )

    # No header of this name is among the sources: the compiler would find that first, without
    # anything precompiled beside it.
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

def begin_with(header, label, attributes):
    """The attributes of a native rule in C++ whose files begin with a precompiled header.

    Args:
      header: its path.
      label: what makes it.
      attributes: of the rule otherwise.
    """
    begun = dict(attributes)
    begun["copts"] = attributes.get("copts", []) + select({
        "//third_party/precompiled:off": [],
        "//conditions:default": ["-include", header],
    })
    begun["deps"] = attributes.get("deps", []) + select({
        "//third_party/precompiled:off": [],
        "//conditions:default": [label],
    })
    return begun
