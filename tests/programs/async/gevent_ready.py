# SPDX-License-Identifier: Apache-2.0
"""Greenlets of which some are scheduled, and a hub that does not come to them. Needs gevent.

Prints which are scheduled by the queue of gevent's own loop, then "ready". Then the main greenlet waits for a line without
letting the hub run; with an argument it computes, and lets the others have their turn now and then.
"""
import json
import sys
import time

import gevent
from greenlet import greenlet


def yields():
    while True:
        gevent.sleep(0)


def sleeps():
    gevent.sleep(3600)


def joins(other):
    other.join()


def wakes():
    gevent.get_hub().switch()


def compute():
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end:
        pass


def scheduled():
    found = []
    for callback in gevent.get_hub().loop._callbacks:
        owner = getattr(callback.callback, "__self__", None)
        one = owner if isinstance(owner, greenlet) else getattr(owner, "greenlet", None)
        if one is not None:
            found.append(id(one))
    return found


def main():
    greenlets = [gevent.spawn(function) for function in (yields, yields, sleeps, wakes)]
    greenlets += [gevent.spawn(joins, greenlets[0]), gevent.spawn(joins, greenlets[2])]
    for _ in range(3):
        gevent.sleep(0)
    woken = greenlets[3]
    gevent.get_hub().loop.run_callback(woken.switch)
    gevent.spawn(sleeps)  # has not had its turn
    print(json.dumps({"main": id(gevent.getcurrent()), "scheduled": scheduled(), "loop": type(gevent.get_hub().loop).__module__}), flush=True)
    print("ready", flush=True)
    if len(sys.argv) == 1:
        sys.stdin.readline()
    while True:
        compute()
        gevent.sleep(0)


main()
