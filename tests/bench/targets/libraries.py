# SPDX-License-Identifier: Apache-2.0
"""A busy process with libraries mapped: every file in DIRECTORY. Usage: libraries.py DIRECTORY"""
import ctypes
import os
import sys

loaded = [ctypes.CDLL(os.path.join(sys.argv[1], name)) for name in sorted(os.listdir(sys.argv[1]))]
print("ready", len(loaded), flush=True)
while True:
    sum(range(1000))
