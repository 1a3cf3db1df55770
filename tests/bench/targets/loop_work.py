# SPDX-License-Identifier: Apache-2.0
"""Prints how many steps of an adding loop take MICROSECONDS, call included. Usage: loop_work.py MICROSECONDS"""
import sys

import common


def leaf(work):
    s = 0
    for i in range(work):
        s += i
    return s


print(common.calibrate(leaf, float(sys.argv[1])), flush=True)
