#!/bin/bash
echo "coverage reports need Bazel's own coverage tools, which are not part of this tree" >&2
exit 1
