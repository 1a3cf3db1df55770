# SPDX-License-Identifier: Apache-2.0
"""Writes this interpreter's _Py_DebugOffsets, the start of its _PyRuntime, to standard output.

For tests/layouts/debug_offsets/*.bin: python3.14 save_debug_offsets.py >3.14.10.bin. Needs ctypes and a
symbol _PyRuntime. Of a version whose size is not known here it writes more than the table.
"""
import ctypes
import sys

SIZES = {(3, 13): 584, (3, 14): 760, (3, 15): 888}

runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
sys.stdout.buffer.write(ctypes.string_at(runtime, SIZES.get(sys.version_info[:2], 1024)))
