# SPDX-License-Identifier: Apache-2.0
"""Two threads, each with a hub of gevent: greenlets that wait in one, one that computes in the other. Needs gevent.

Prints the paths below each thread's own frames, then "ready".
"""
import json
import threading
import time

import gevent


def x_leaf():
    gevent.sleep(0.005)


def x_child():
    while True:
        x_leaf()


def x_joins():
    gevent.joinall([gevent.spawn(x_child) for _ in range(2)])


def y_work():
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end:
        pass


def y_child():
    while True:
        y_work()
        gevent.sleep(0.002)


def y_joins():
    gevent.spawn(y_child).join()


threading.Thread(target=y_joins, name="Y", daemon=True).start()
print(json.dumps({"MainThread": "x_joins [task x_child] x_child x_leaf", "Y": "y_joins [task y_child] y_child"}), flush=True)
gevent.spawn(print, "ready", flush=True)
x_joins()
