#!/bin/bash
# Runs a command without address space randomisation where that is allowed:
# the thread sanitizer cannot place its shadow under kernels that randomise
# widely. Where it is not allowed, the command runs as it is.
if setarch -R true 2>/dev/null; then
  exec setarch -R "$@"
fi
exec "$@"
