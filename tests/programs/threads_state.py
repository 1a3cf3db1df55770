# SPDX-License-Identifier: Apache-2.0
"""Threads whose true state is known. Names say it: run_* is on CPU, wait_* is blocked.

Usage: threads_state.py SECONDS
"""
import hashlib
import os
import queue
import select
import socket
import subprocess
import sys
import threading
import time
import zlib

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
end = time.time() + SECONDS


def run_python():
    while time.time() < end:
        sum(i * i for i in range(500))


def run_nogil_hash():
    data = os.urandom(1 << 22)
    while time.time() < end:
        hashlib.sha256(data).digest()


def run_nogil_zlib():
    data = os.urandom(1 << 20)
    while time.time() < end:
        zlib.compress(data, 6)


def wait_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=SECONDS)


def wait_sleep():
    time.sleep(SECONDS)


def wait_queue():
    try:
        queue.Queue().get(timeout=SECONDS)
    except queue.Empty:
        pass


def wait_socket():
    a, b = socket.socketpair()
    a.settimeout(SECONDS)
    try:
        a.recv(1)
    except OSError:
        pass


def wait_select():
    a, b = socket.socketpair()
    select.select([a], [], [], SECONDS)


def wait_pipe():
    r, w = os.pipe()
    threading.Timer(SECONDS, lambda: os.write(w, b"x")).start()
    os.read(r, 1)


def wait_child():
    subprocess.run(["sleep", str(SECONDS)])


threads = [
    threading.Thread(target=f, name=f.__name__)
    for f in (run_python, run_nogil_hash, run_nogil_zlib, wait_lock, wait_sleep, wait_queue,
              wait_socket, wait_select, wait_pipe, wait_child)
]
for t in threads:
    t.start()
print("ready", flush=True)
for t in threads:
    t.join()
