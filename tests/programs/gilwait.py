# SPDX-License-Identifier: Apache-2.0
"""THREADS threads in pure Python, all busy: one holds the GIL, the others wait for it.

Usage: gilwait.py SECONDS THREADS
"""
import sys
import threading
import time

SECONDS = float(sys.argv[1])
end = time.time() + SECONDS


def busy():
    x = 0
    while time.time() < end:
        for i in range(1000):
            x += i


# Who waits wakes once an interval to ask for it. A busy machine lets what has woken wait for a processor: the
# fewer of that, the surer is each thread's state.
sys.setswitchinterval(0.1)
threads = [threading.Thread(target=busy, name="busy_%d" % i) for i in range(int(sys.argv[2]))]
for thread in threads:
    thread.start()
print("ready", flush=True)
for thread in threads:
    thread.join()
