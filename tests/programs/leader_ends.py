# SPDX-License-Identifier: Apache-2.0
"""Two threads that go on when the main one ends: it does, by pthread_exit(3), for a line on stdin."""
import ctypes
import sys
import threading
import time


def spin():
    while True:
        sum(range(1000))


threading.Thread(target=spin, name="spinner", daemon=True).start()
threading.Thread(target=time.sleep, args=(1000,), name="sleeper", daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
ctypes.CDLL(None).pthread_exit(None)
