# SPDX-License-Identifier: Apache-2.0
"""Runs another program of this directory, named by the first argument, with asyncio all in Python: without _asyncio."""
import os
import runpy
import sys

sys.modules["_asyncio"] = None
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
del sys.argv[0]
runpy.run_path(os.path.join(sys.path[0], sys.argv[0]), run_name="__main__")
