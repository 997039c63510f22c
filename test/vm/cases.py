"""The parts of a table of jobs (jobs.py)."""

import dataclasses
import shlex

# These run what is cross-compiled, and only if the filter begins with their name.
ARM64 = ('arm64', 'arm64-16k', 'arm64-64k', 'arm64-a72')
# How many times slower than the machine itself each may be.
GUESTS = {'qemu': 20, 'uml': 5, **dict.fromkeys(ARM64, 30)}


@dataclasses.dataclass
class Case:
    """A command that must exit with 0 within LIMIT seconds, as measured outside a guest."""
    name: str
    command: list = ()
    limit: int = 10
    environment: dict = dataclasses.field(default_factory=dict)
    label: str = ''   # Of a Bazel test, which needs no command.
    config: str = ''  # The --config of the Bazel build for it.
    only: str = '*'      # Of a Bazel test: its test cases, as a filter of GoogleTest,
    leave_out: dict = dataclasses.field(default_factory=dict)  # but for these, by guest.
    # What else Bazel must build. In the command, {bin} stands for the folder of the results.
    needs: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Job:
    """Cases that share one guest of each kind, which must finish within SECONDS."""
    name: str
    guests: list
    cases: list
    devices: bool = False  # Whether to run devices.sh first,
    kfd: bool = False      # or kfd.sh.
    seconds: int = 300
    alone: bool = False  # Whether it measures, so that no other guest may run at the same time.


def build_of(guest, case):
    """The name of the build that a guest takes a case from: a --config of Bazel, or aarch64."""
    return 'aarch64' if guest in ARM64 else case.config


def command(name, text, limit=10, needs=(), **environment):
    """A command line. Further arguments are set in its environment."""
    return Case(name, shlex.split(text), limit, environment, needs=list(needs))


def pair(name, server, client, limit=10):
    """Two command lines: a server, and a client that starts when the server listens."""
    return Case(name, ['test/vm/pair.sh', server, client], limit)


def both_ends(name, text, limit=10):
    """A program of two sides that finds the other by a host name, between rxe0 and rxe1."""
    client = text.format(device='rxe1') + ' 127.0.0.1'
    return pair(name, text.format(device='rxe0'), client, limit)


def test(label, where='', environment=None, **options):
    """A Bazel test, by its label; WHERE is the part of its name for its environment."""
    remarks = ', '.join(filter(None, [where, options.get('config')]))
    name = f'{label} ({remarks})' if remarks else label
    return Case(name, environment=environment or {}, label=label, **options)
