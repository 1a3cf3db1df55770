# SPDX-License-Identifier: Apache-2.0
"""What the programs of this directory share: a scenario carries the stacks that it must show.

A stack is written root first, `a [b] b c`: functions of the program by their plain names, `[b]` where task b
begins, `+` before a task that its parent started and does not wait for. Frames of asyncio's own files are
left out; so is what stands above the scenario (`main` waits for all of them). With --account a program also
tells all frames of all of its tasks, in a line before "ready": see account.py.
"""
import asyncio
import json
import sys

from account import account

SCENARIOS = {}


def scenario(*stacks, since=(3, 8), before=(4, 0)):
    """Registers a coroutine function; from `since` on and up to but without `before`."""

    def register(function):
        if since <= sys.version_info[:2] < before:
            SCENARIOS[function.__name__] = (function, stacks)
        return function

    return register


def chosen():
    """The functions of the scenarios named on the command line, or of all; prints what they must show."""
    names = [name for name in sys.argv[1:] if name in SCENARIOS] or list(SCENARIOS)
    print(json.dumps({name: list(SCENARIOS[name][1]) for name in names}), flush=True)
    return [SCENARIOS[name][0] for name in names]


def ready():
    if "--account" in sys.argv:
        print(json.dumps(account()), flush=True)
    print("ready", flush=True)


def run(main):
    """On asyncio's own loop, or in one of the two ways in which uvloop takes its place."""
    if "--uvloop.run" in sys.argv:
        import uvloop

        uvloop.run(main)
        return
    if "--uvloop.install" in sys.argv:
        import uvloop

        uvloop.install()
    asyncio.run(main)
