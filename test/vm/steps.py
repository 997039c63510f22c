"""For programs of a guest that try one thing after the other."""

import sys
import traceback


def run_steps(steps, *arguments):
    """Calls each step with the ARGUMENTS, and prints its result and, last, their number.

    Returns an exit status.
    """
    passed = failed = 0
    for step in steps:
        print(f'== {step.__name__}', flush=True)
        try:
            step(*arguments)
            passed += 1
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc(file=sys.stdout)
            failed += 1
    print(f'{passed} passed, {failed} failed, 0 skipped')
    return int(failed > 0)
