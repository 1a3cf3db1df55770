# SPDX-License-Identifier: Apache-2.0
"""A program that spends nearly all its time in the garbage collector: many objects, collected again and again."""
import gc

gc.disable()
kept = [[i] for i in range(300_000)]


def collect():
    gc.collect()


print("ready", flush=True)
while True:
    collect()
