# SPDX-License-Identifier: MIT
"""Replaces a piece of text in a source file, where it must occur exactly once."""

import sys


def main() -> int:
    source, result, old, new = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        text = file.read()
    count = text.count(old)
    if count != 1:
        print(f"{source}: the text to replace stands there {count} times, not once:\n{old}",
              file=sys.stderr)
        return 1
    with open(result, "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))
    return 0


if __name__ == "__main__":
    sys.exit(main())
