# SPDX-License-Identifier: MIT
"""What declare.py has read of the headers is what the compiler reads: sizes, places of fields and
bits, enumerators, constants, and that no function is missing.

    layout_test.py HEADER_FOLDER
"""

import ast
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from urma import _abi

ffi = _abi.ffi
FOLDER = pathlib.Path(sys.argv.pop())
LOCKS = ("pthread_mutex_t", "pthread_cond_t")
LEFT_OUT = {"urma_get_device_by_eid", "urma_set_tp_attr", "urma_get_tp_attr"}


def fields_of(kind):
    return kind.fields or [] if kind.kind in ("struct", "union") else []


class Probe:
    """A C program that prints what Python says, line by line, as the compiler has it."""

    def __init__(self):
        self.expected, self.lines = [], []

    def say(self, label, value, expression):
        self.expected.append(f"{label} {value}")
        self.lines.append(f'printf("{label} %lld\\n", (long long)({expression}));')

    def bits(self, name, path):
        """Sets all bits of a field, and shows the whole object."""
        thing = ffi.new(f"{name}*")
        place = thing
        *way, last = path
        for step in way:
            place = getattr(place, step)
        kind = ffi.typeof(place)
        field = dict((kind.item if kind.kind == "pointer" else kind).fields)[last]
        setattr(place, last, (1 << field.bitsize) - 1)
        self.expected.append(f"{name}.{'.'.join(path)} {bytes(ffi.buffer(thing)).hex()}")
        self.lines.append(f"{{ {name} x; memset(&x, 0, sizeof x); x.{'.'.join(path)} = -1; "
                          f'show("{name}.{".".join(path)}", &x, sizeof x); }}')

    def walk(self, name, kind, path=()):
        for field_name, field in fields_of(kind):
            here = (*path, field_name)
            if not field_name:  # its members stand for themselves
                self.walk(name, field.type, path)
            elif field.bitsize > 0:
                self.bits(name, here)
            else:
                dotted = ".".join(here)
                self.say(f"{name}.{dotted}", ffi.offsetof(name, *here),
                         f"offsetof({name}, {dotted})")
                if "$" in field.type.cname:  # it has no name, and is not walked otherwise
                    self.walk(name, field.type, here)


class Layout(unittest.TestCase):
    def test_layout_matches_the_compiler(self):
        probe = Probe()
        typedefs, structs, unions = ffi.list_types()
        names = [n for n in typedefs if n.startswith(("urma_",) + LOCKS)]
        names += [f"struct {n}" for n in structs if n.startswith("urma_")]
        names += [f"union {n}" for n in unions if n.startswith("urma_")]
        for name in names:
            kind = ffi.typeof(name)
            if kind.kind == "enum":
                for number, enumerator in kind.elements.items():
                    probe.say(enumerator, number, enumerator)
            elif kind.kind in ("struct", "union") and kind.fields is not None:
                probe.say(f"sizeof {name}", ffi.sizeof(name), f"sizeof({name})")
                if name not in LOCKS:
                    probe.walk(name, kind)
        for name, number in _abi.CONSTANTS.items():
            probe.say(name, number, name)
        self.assertGreater(len(probe.lines), 800)
        wrong = [f"{ours}, but the compiler says {theirs}" for ours, theirs
                 in zip(probe.expected, self.compiled(probe).splitlines()) if ours != theirs]
        self.assertEqual(wrong[:10], [])

    def compiled(self, probe):
        source = """#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "urma_api.h"
static void show(const char* name, const void* x, size_t size) {
  printf("%s ", name);
  for (size_t i = 0; i < size; i++) printf("%02x", ((const unsigned char*)x)[i]);
  printf("\\n");
}
int main(void) {
""" + "\n".join(probe.lines) + "\n}\n"
        with tempfile.TemporaryDirectory() as work:
            pathlib.Path(work, "probe.c").write_text(source)
            subprocess.run(["cc", "-std=gnu11", f"-I{FOLDER}", "-Wno-overflow", "-o",
                            f"{work}/probe", f"{work}/probe.c"], check=True)
            return subprocess.run([f"{work}/probe"], check=True, capture_output=True,
                                  text=True).stdout

    def test_all_functions_are_declared(self):
        header = (FOLDER / "urma_api.h").read_text()
        named = set(re.findall(r"^[a-z].*?\b(urma_\w+)\(", header, re.MULTILINE))
        self.assertGreater(len(named), 100)
        code = pathlib.Path(_abi.__file__).read_text()
        names, = re.findall(r"_globals = (\(.*?\)),?\n", code)
        declared = {entry[4:].decode() for entry in ast.literal_eval(names)
                    if isinstance(entry, bytes)}
        self.assertEqual(named - declared, LEFT_OUT)


class Texts(unittest.TestCase):
    def test_statuses_have_the_texts_of_the_header(self):
        header = (FOLDER / "urma_types_str.h").read_text()
        for text in [*_abi.REQUEST_TEXTS, *_abi.CALL_TEXTS.values()]:
            self.assertIn(f'"{text}"', header)

    def test_enums_of_python_match_the_header(self):
        import urma
        for python, c, prefix in ((urma.Status, "urma_cr_status_t", "URMA_CR_"),
                                  (urma.EventKind, "urma_async_event_type_t", "URMA_EVENT_"),
                                  (urma.State, "urma_jetty_state_t", "URMA_JETTY_STATE_"),
                                  (urma.Mode, "urma_transport_mode_t", "URMA_TM_")):
            self.assertEqual({prefix + entry.name: entry.value for entry in python},
                             ffi.typeof(c).relements)
        for entry in urma.Access:
            self.assertEqual(entry.value, _abi.CONSTANTS[f"URMA_ACCESS_{entry.name}"])
        flag = ffi.new("urma_jfs_wr_flag_t*")
        for value, name in ((urma.SIGNAL, "complete_enable"), (urma.FENCE, "fence"),
                            (urma.SOLICITED, "solicited_enable")):
            flag.value = value
            self.assertEqual(getattr(flag.bs, name), 1)
            setattr(flag.bs, name, 0)
            self.assertEqual(flag.value, 0)


if __name__ == "__main__":
    unittest.main()
