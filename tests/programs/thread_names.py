# SPDX-License-Identifier: Apache-2.0
"""Ground truth for thread names: given, changed, long, odd, and known to the kernel alone.

Prints {"native id": name}; null where threading knows no name. Ends at the end of stdin.
"""
import _thread
import ctypes
import json
import os
import sys
import threading
import time

names = {}
wait_end, write_end = os.pipe()
reported = threading.Semaphore(0)


def body(rename=None):
    if rename is not None:
        threading.current_thread().name = rename
    names[threading.get_native_id()] = threading.current_thread().name
    reported.release()
    os.read(wait_end, 1)


def unknown_to_threading():
    """No Thread object: the kernel's name is the only one. PR_SET_NAME is 15."""
    ctypes.CDLL(None).prctl(15, b"only-kernel", 0, 0, 0)
    names[threading.get_native_id()] = None
    reported.release()
    os.read(wait_end, 1)


GIVEN = ["worker", "ünï", "名前", "\U0001f9f5 spool", "n" * 300, "with;semicolon", "new\nline"]
for given in GIVEN:
    threading.Thread(target=body, name=given, daemon=True).start()
threading.Thread(target=body, args=("changed later",), daemon=True).start()
threading.Thread(target=body, daemon=True).start()
_thread.start_new_thread(unknown_to_threading, ())
for _ in range(len(GIVEN) + 3):
    reported.acquire()
names[threading.get_native_id()] = threading.current_thread().name
time.sleep(0.05)
print(json.dumps(names), flush=True)
sys.stdin.read()
