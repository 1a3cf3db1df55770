# SPDX-License-Identifier: Apache-2.0
"""Runs another program of this directory where asyncio has no part in C. Usage: without_c.py PROGRAM ARGUMENTS"""
import os
import runpy
import sys

sys.modules["_asyncio"] = None
sys.argv.pop(0)
runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), sys.argv[0]), run_name="__main__")
