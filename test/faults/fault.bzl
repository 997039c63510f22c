# SPDX-License-Identifier: MIT
"""Copies of the library with a fault in it, which the tests must find.

A fault is a piece of text in one source file and its replacement. Only that file is compiled
again, without optimisation; the linker takes its symbols instead of those of the ordinary object.
"""

load("//urma:link_time.bzl", "ORDINARY_CODE_LINKOPTS")

TAGS = [
    "no-asan",
    "no-tsan",
]

# The sources of the library and the module, and how they are linked.
PRODUCTS = {
    "library": struct(
        part = "//urma/core/api",
        map = "//urma/core/api:liburma.map",
        name = "liburma.so.0",
        options = ["-Wl,-z,nodelete"],
    ),
    "module": struct(
        part = "//urma/providers/shm:module",
        map = "//urma/providers:module.map",
        name = "liburma-shm.so",
        options = [],
    ),
}

# The location of each component, and its product.
COMPONENTS = {
    "api": ("//urma/core/api", "library"),
    "jetty": ("//jetty", "module"),
    "segment": ("//segment", "module"),
}

def _product(name, kind, deps):
    product = PRODUCTS[kind]
    native.cc_binary(
        name = name,
        testonly = True,
        additional_linker_inputs = [product.map],
        linkopts = [
            "-Wl,-soname," + product.name,
            "-Wl,--version-script=$(location %s)" % product.map,
            "-Wl,--allow-multiple-definition",
        ] + product.options + ORDINARY_CODE_LINKOPTS,
        linkshared = True,
        tags = TAGS,
        deps = deps + [product.part],
    )

def _test(name, expected, library, module, finders):
    programs = {finder.split("=")[0]: True for finder in finders}.keys()
    native.sh_test(
        name = name,
        size = "medium",
        srcs = ["find_fault.sh"],
        args = [expected, "$(rootpath %s)" % library, "$(rootpath %s)" % module] + [
            "$(rootpath %s)%s" % (finder.split("=")[0], finder[len(finder.split("=")[0]):])
            for finder in finders
        ],
        data = [library, module] + programs,
        tags = TAGS,
    )

def fault_test(name, file, old, new, finders):
    """A fault that one of the finders must find.

    Args:
      name: what is wrong.
      file: the source file, as COMPONENT/FILE.
      old: the text to replace, which occurs exactly once.
      new: its replacement.
      finders: tests to run in this order, as LABEL or LABEL=FILTER.
    """
    component, source = file.split("/")
    part, kind = COMPONENTS[component]
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = [part + ":" + source],
        outs = [name + ".cc"],
        cmd = "python3 $(location patch.py) $< $@ '%s' '%s'" % (
            old.replace("'", "'\\''").replace("$", "$$"),
            new.replace("'", "'\\''").replace("$", "$$"),
        ),
        tags = TAGS,
        tools = ["patch.py"],
    )
    native.cc_library(
        name = name + "_object",
        testonly = True,
        srcs = [name + ".cc"],
        copts = [
            "-O0",
            "-g0",
            "-w",
        ],
        linkstatic = True,
        tags = TAGS,
        deps = [part],
        alwayslink = True,
    )
    faulty = name + "/" + PRODUCTS[kind].name
    _product(faulty, kind, [":%s_object" % name])
    library = faulty if kind == "library" else "//:lib/liburma.so.0"
    module = faulty if kind == "module" else "//:lib/urma/liburma-shm.so"
    _test(name + "_test", "found", ":" + library if kind == "library" else library,
          ":" + module if kind == "module" else module, finders)

def control_test(name, finders):
    """The same without a fault: all finders pass."""
    for kind in PRODUCTS:
        _product("%s/%s" % (name, PRODUCTS[kind].name), kind, [])
    _test(name + "_test", "passes", ":%s/liburma.so.0" % name, ":%s/liburma-shm.so" % name, finders)
