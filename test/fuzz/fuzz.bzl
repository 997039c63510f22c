# SPDX-License-Identifier: MIT
"""A fuzzer, and the test that runs its findings."""

load("//urma:link_time.bzl", "ORDINARY_CODE_LINKOPTS")

def _seeds_impl(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    ctx.actions.run_shell(
        inputs = [ctx.file.archive],
        outputs = [folder],
        command = "tar -xzf %s --no-same-owner -C %s/.." % (ctx.file.archive.path, folder.path),
        mnemonic = "Seeds",
    )
    return [DefaultInfo(files = depset([folder]), runfiles = ctx.runfiles([folder]))]

# The files in the archive, in the folder named after this target.
seeds = rule(
    implementation = _seeds_impl,
    attrs = {"archive": attr.label(allow_single_file = True, mandatory = True)},
)

def fuzz_target(name, deps, size = "small", tags = [], data = []):
    """NAME_fuzz.cc, and a test of its seeds.

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
        # -rdynamic: counters of shared libraries belong to the program.
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
        data = data + [":corpus"],
        linkopts = ORDINARY_CODE_LINKOPTS,
        tags = tags,
        deps = deps + [":replay_main"],
    )
