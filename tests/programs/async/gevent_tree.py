# SPDX-License-Identifier: Apache-2.0
"""A tree of greenlets that all wait, of gevent without asyncio; one of them was spawned by one that has ended. Needs gevent.

Prints what they say themselves: for each its name, its own frames of this file (gr_frame) with their lines, leaf first,
the greenlets that wait for its end, who spawned it and where. The main greenlet then waits for a line.
"""
import functools
import gc
import json
import socket as plain_socket
import sys

import gevent
from gevent import event, lock, monkey, pool, queue

monkey.patch_socket()

GATE = event.Event()
ITEMS = queue.Queue()
LOCK = lock.Semaphore(1)
HERE, THERE = plain_socket.socketpair()
JOINERS = {}


def sleeper():
    gevent.sleep(3600)


def waits_for_event():
    GATE.wait()


def takes_items():
    ITEMS.get()


def takes_lock():
    LOCK.acquire()


def receives():
    THERE.recv(10)


def sorts():
    return sorted([2, 1], key=key_that_sleeps)


def key_that_sleeps(item):
    gevent.sleep(3600)
    return item


def worker(number):
    gevent.sleep(3600)


def runs_pool():
    workers = pool.Pool(2)
    for number in range(2):
        workers.spawn(worker, number)
    workers.join()


def about_to_join(*greenlets):
    for one in greenlets:
        JOINERS.setdefault(id(one), []).append(id(gevent.getcurrent()))
    return greenlets


def joined():
    sleeper()


def joins():
    child = gevent.spawn(joined)
    about_to_join(child)
    child.join()


def one_of_many(number):
    gevent.sleep(3600 + number)


def joins_all():
    gevent.joinall(about_to_join(*[gevent.spawn(one_of_many, number) for number in range(3)]))


def grandchild():
    gevent.sleep(3600)


def parent_that_ends():
    gevent.spawn(grandchild)


def outlived():
    gevent.spawn(parent_that_ends).join()
    gevent.sleep(3600)


def maps():
    for _ in pool.Pool(1).imap_unordered(mapped, [1, 2]):
        pass


def mapped(item):
    gevent.sleep(3600)


def named():
    gevent.sleep(3600)


class Method:
    def run_it(self, number):
        gevent.sleep(3600)


class Subclass(gevent.Greenlet):
    def _run(self):
        gevent.sleep(3600)


def wait_two(first, second):
    gevent.wait(about_to_join(first, second), count=1)


def main():
    LOCK.acquire()
    for function in (sleeper, waits_for_event, takes_items, takes_lock, receives, sorts, runs_pool, joins, joins_all, maps, outlived):
        gevent.spawn(function)
    gevent.spawn(named).name = "given name"
    both = gevent.spawn(Method().run_it, 1), gevent.spawn(functools.partial(one_of_many, 9))
    gevent.spawn(wait_two, *both)
    Subclass().start()
    gevent.spawn_later(3600, sleeper)
    for _ in range(10):
        gevent.sleep(0)  # each one that is ready has its turn
    gc.collect()
    print(json.dumps(account()), flush=True)
    print("ready", flush=True)
    sys.stdin.readline()


def frames_of(one):
    frames, frame = [], one.gr_frame
    while frame is not None:
        if frame.f_code.co_filename == __file__:
            frames.append([frame.f_code.co_name, frame.f_lineno])
        frame = frame.f_back
    return frames


def account():
    greenlets = [one for one in gc.get_objects() if isinstance(one, gevent.Greenlet) and not one.ready() and (one.gr_frame is not None or one.started)]
    told = []
    for one in greenlets:
        spawner = one.spawning_greenlet() if one.spawning_greenlet else None
        run = getattr(one._run, "func", one._run)
        creation, step = [], one.spawning_stack
        while step is not None:
            creation.append([step.f_code.co_name, step.f_lineno])
            step = step.f_back
        told.append({"id": id(one), "name": None if one.name.startswith("Greenlet-") else one.name, "run": run.__qualname__ if type(one) is gevent.Greenlet else type(one).__name__,
                     "begun": one.gr_frame is not None,
                     "creation": creation, "frames": frames_of(one), "joiners": JOINERS.get(id(one), []),
                     "spawner": id(spawner) if spawner is not None else None,
                     "spawner_lives": spawner is not None and not spawner.dead})
    return {"main": id(gevent.getcurrent()), "greenlets": told}


main()
