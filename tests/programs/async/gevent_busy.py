# SPDX-License-Identifier: Apache-2.0
"""Greenlets of gevent that compute and wait in turn, each path spelled by the names of its functions. Needs gevent.

Prints the paths of what works, then "ready". With an argument, greenlets come and go all the while, too, and are killed.
"""
import json
import sys
import time

import gevent
from gevent import pool, queue

PATHS = ["<module> main joins a a_work", "<module> main joins takes b b_inner b_work", "<module> main joins c c_work"]
ITEMS = queue.Queue()


def work():
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end:
        pass


def a_work():
    work()


def a():
    while True:
        a_work()
        gevent.sleep(0.001)


def b_work():
    work()


def b_inner():
    while True:
        b_work()
        gevent.sleep(0.001)


def b():
    b_inner()


def takes():
    gevent.spawn(b).join()


def c_work():
    work()


def c(number):
    while True:
        c_work()
        gevent.sleep(0.001)


def short(number):
    gevent.sleep(0.0001 * (number % 3))


def churn():
    workers = pool.Pool(50)
    number = 0
    while True:
        number += 1
        workers.spawn(short, number)
        if number % 10 == 0:
            gevent.spawn(short, number).kill()


def joins(greenlets):
    gevent.joinall(greenlets)


def main():
    greenlets = [gevent.spawn(a), gevent.spawn(takes), gevent.spawn(c, 1)]
    if len(sys.argv) > 1:
        gevent.spawn(churn)
    print(json.dumps(PATHS), flush=True)
    gevent.spawn(print, "ready", flush=True)
    joins(greenlets)


main()
