# SPDX-License-Identifier: MIT
"""Runs a server and a client, each on a core of its own, and returns what the client prints."""

import dataclasses
import functools
import os
import pathlib
import socket
import subprocess
import tempfile
import time

START_LIMIT_S = 10.0
RUN_LIMIT_S = 60.0
END_LIMIT_S = 10.0
LISTENING = '0A'  # the state as /proc/net/tcp has it


class RunFailed(Exception):
    """A run produced no figures; the text is the reason in one line."""


@dataclasses.dataclass(frozen=True)
class Cores:
    server: int
    client: int


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two command lines; `{port}` in them stands for a free TCP port."""
    server: tuple[str, ...]
    client: tuple[str, ...]
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


def siblings(core: int) -> set[int]:
    """The logical CPUs of the same core."""
    path = pathlib.Path(f'/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list')
    found: set[int] = set()
    try:
        for part in path.read_text(encoding='ascii').strip().split(','):
            first, _, last = part.partition('-')
            found.update(range(int(first), int(last or first) + 1))
    except (OSError, ValueError):
        pass
    return found | {core}


def pick_cores() -> Cores:
    """The first allowed CPU, and the next one on another core."""
    cores = sorted(os.sched_getaffinity(0))
    others = [core for core in cores if core not in siblings(cores[0])] or cores[1:]
    if not others:
        raise RunFailed('only one core may be used; a run needs two')
    return Cores(cores[0], others[0])


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def is_listening(port: int) -> bool:
    """Checks without connecting: a server would take that for its client."""
    suffix = f':{port:04X}'
    for name in ('tcp', 'tcp6'):
        with open(f'/proc/net/{name}', encoding='ascii') as table:
            for line in table:
                fields = line.split()
                if fields[3] == LISTENING and fields[1].endswith(suffix):
                    return True
    return False


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else 'it printed nothing'


def fill(command: tuple[str, ...], port: int) -> list[str]:
    return [word.replace('{port}', str(port)) for word in command]


def await_server(server: subprocess.Popen[str], port: int, name: str) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while not is_listening(port):
        if server.poll() is not None:
            raise RunFailed(f'the server of {name} ended with status {server.returncode}')
        if time.monotonic() > deadline:
            raise RunFailed(f'the server of {name} does not listen after {START_LIMIT_S:.0f} s')
        time.sleep(0.002)


def run_client(command: list[str], core: int, environment: dict[str, str]) -> str:
    pin = functools.partial(os.sched_setaffinity, 0, {core})
    try:
        done = subprocess.run(command, env=environment, preexec_fn=pin, capture_output=True,
                              text=True, timeout=RUN_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise RunFailed(f'{command[0]} takes longer than {RUN_LIMIT_S:.0f} s') from error
    if done.returncode != 0:
        raise RunFailed(f'status {done.returncode}: {last_line(done.stderr or done.stdout)}')
    return done.stdout


def end_server(server: subprocess.Popen[str]) -> None:
    """A server ends with its client; if it does not, it is killed."""
    try:
        server.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def run_pair(pair: Pair, cores: Cores) -> str:
    """Returns what the client prints. Raises RunFailed."""
    port = free_port()
    environment = os.environ | pair.environment
    pin = functools.partial(os.sched_setaffinity, 0, {cores.server})
    with tempfile.TemporaryFile('w+') as said:
        server = subprocess.Popen(fill(pair.server, port), env=environment, preexec_fn=pin,
                                  stdout=said, stderr=said, text=True)
        try:
            await_server(server, port, os.path.basename(pair.server[0]))
            output = run_client(fill(pair.client, port), cores.client, environment)
        except (RunFailed, OSError) as error:
            server.kill()
            server.wait()
            said.seek(0)
            raise RunFailed(f'{error}; the server: {last_line(said.read())}') from error
        end_server(server)
    return output
