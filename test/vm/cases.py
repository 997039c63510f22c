"""What a table of jobs is made of (jobs.py)."""

import dataclasses
import shlex

GUESTS = {'qemu': 20, 'uml': 5}  # How many times slower than the machine itself each may be.


@dataclasses.dataclass
class Case:
    """A command that has to end with 0 within LIMIT seconds, as measured outside of a guest."""
    name: str
    command: list = ()
    limit: int = 10
    # Of a Bazel test only: its label, the name of its --config, and settings of its environment.
    label: str = ''
    config: str = ''
    environment: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Job:
    """Cases that share one guest of each kind, which has to be done within SECONDS."""
    name: str
    guests: list
    cases: list
    devices: bool = False  # Whether devices.sh comes first.
    seconds: int = 300


def command(name, text, **options):
    """A command line."""
    return Case(name, shlex.split(text), **options)


def pair(name, server, client, **options):
    """Two command lines: a server, and a client that starts when the server listens."""
    return Case(name, ['test/vm/pair.sh', server, client], **options)


def both_ends(name, text, **options):
    """A program of two sides that finds the other by a host name, between rxe0 and rxe1."""
    client = text.format(device='rxe1') + ' 127.0.0.1'
    return pair(name, text.format(device='rxe0'), client, **options)


def test(label, config='', limit=10, **environment):
    """A Bazel test. What follows the label is set in its environment, beside what its rule sets."""
    name = f'{label} ({config})' if config else label
    return Case(name, limit=limit, label=label, config=config, environment=environment)
