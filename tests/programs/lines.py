# SPDX-License-Identifier: Apache-2.0
"""Ground truth for lines: line HOT takes almost all of the time of spin(); prints its number."""
import sys
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0


def spin(end):
    while time.time() < end:
        a = 1
        b = a + 1
        c = sum(range(20000))  # HOT
        d = b + c
    return d


import inspect  # noqa: E402

src, first = inspect.getsourcelines(spin)
print("hot", first + next(i for i, s in enumerate(src) if "# HOT" in s), flush=True)
spin(time.time() + SECONDS)
