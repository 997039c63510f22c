#!/bin/bash
# Runs a command without address space randomisation if that is allowed, else as it is: the thread
# sanitizer cannot place its shadow under kernels that randomise widely.
if setarch -R true 2>/dev/null; then
  exec setarch -R "$@"
fi
exec "$@"
