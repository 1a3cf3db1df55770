# SPDX-License-Identifier: Apache-2.0
"""Writes the first 1024 bytes of this interpreter's _PyRuntime to standard output.

That is its _Py_DebugOffsets with what follows, for tests/layouts/*.bin. Run it with the interpreter in
question: python3.14 save_debug_offsets.py >3.14.10.bin. Needs ctypes and a symbol _PyRuntime.
"""
import ctypes
import sys

runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
sys.stdout.buffer.write(ctypes.string_at(runtime, 1024))
