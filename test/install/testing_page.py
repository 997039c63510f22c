#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Reads docs/guide/testing_your_program.md for the tests that run it.

    testing_page.py PAGE block WORD            prints the block that is marked with the word
    testing_page.py PAGE console               runs what follows `$ `, and compares what it prints
    testing_page.py PAGE steps github|gitlab NAME...  prints the commands of these steps of the job
"""

import pathlib
import re
import subprocess
import sys


def blocks(page: str, word: str) -> list:
    found = re.findall(rf"^```{word}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return found or sys.exit(f"the page has no block {word}")


def run_console(text: str) -> int:
    """Runs the commands of a block one by one. Returns their number."""
    commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
    for command, expected in commands:
        print(f"$ {command}", flush=True)
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=600)
        if done.stdout != expected:
            sys.exit(f"printed:\n{done.stdout}instead of:\n{expected}and on stderr:\n{done.stderr}")
    return len(commands)


def steps(page: str, service: str, names: list) -> str:
    import yaml  # pylint: disable=import-outside-toplevel
    job = yaml.safe_load(blocks(page, service)[0])
    if service == "github":
        by_name = {step.get("name"): step.get("run") for step in job["jobs"]["test"]["steps"]}
        return "\n".join(by_name[name] for name in names)
    return "\n".join("\n".join(job["test"][name]) for name in names)


def main() -> None:
    page = pathlib.Path(sys.argv[1]).read_text()
    command, *words = sys.argv[2:]
    if command == "block":
        print("".join(blocks(page, words[0])), end="")
    elif command == "steps":
        print(steps(page, words[0], words[1:]))
    else:
        ran = sum(run_console(text) for text in blocks(page, "console"))
        print(f"{ran} commands")


if __name__ == "__main__":
    main()
