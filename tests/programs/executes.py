# SPDX-License-Identifier: Apache-2.0
"""Burns in burn_first(), then executes another program in the same process.

Usage: executes.py SECONDS COMMAND...; without a command it burns in burn_second() and ends with status 9.
Says ready when it begins to burn.
"""
import os
import sys
import time


def burn_first(end):
    while time.time() < end:
        sum(range(200))


def burn_second(end):
    while time.time() < end:
        sum(range(200))


seconds, command = float(sys.argv[1]), sys.argv[2:]
print("ready", flush=True)
if command:
    burn_first(time.time() + seconds)
    os.execv(command[0], command)
burn_second(time.time() + seconds)
sys.exit(9)
