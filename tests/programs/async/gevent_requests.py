# SPDX-License-Identifier: Apache-2.0
"""Requests that come and go, each a greenlet of its own that waits most of its time. Needs gevent.

Prints the path of a request, then "ready".
"""
import json

import gevent


def query(number):
    gevent.sleep(0.1)


def handle(number):
    query(number)


def accept():
    number = 0
    while True:
        number += 1
        gevent.spawn(handle, number)
        gevent.sleep(0.01)


print(json.dumps(["<module> [spawned] [task handle] handle query"]), flush=True)
gevent.spawn(print, "ready", flush=True)
accept()
