# SPDX-License-Identifier: Apache-2.0
"""Runs cython_scene.pyx, compiled, from the directory that it is told, until stdin ends."""
import select
import sys

sys.path.insert(0, sys.argv[1])
import cython_scene  # noqa: E402


class Here(cython_scene.Shop):
    def is_over(self):
        return bool(select.select([sys.stdin], [], [], 0)[0])


print("ready", flush=True)
Here().work(100000)
