# SPDX-License-Identifier: Apache-2.0
"""Greenlets of gevent without asyncio: spawn, join, a pool and a server under load. Needs gevent.

Each stack is that of one greenlet below the one that waits for it or has spawned it.
"""
import json
import time

import gevent
from gevent import socket
from gevent.pool import Pool
from gevent.pywsgi import WSGIServer

STACKS = ["g1 g1_child g1_leaf g1_work", "g2 g2_item g2_work", "g3_app g3_work", "main g4 g4_work"]


def work():
    end = time.perf_counter() + 0.003
    while time.perf_counter() < end:
        pass


def g1_work():
    work()


def g1_leaf():
    while True:
        g1_work()
        gevent.sleep(0.001)


def g1_child():
    g1_leaf()


def g1():
    gevent.spawn(g1_child).join()


def g2_work():
    work()


def g2_item(number):
    g2_work()
    gevent.sleep(0.01)
    return number


def g2():
    pool = Pool(3)
    while True:
        for _ in pool.imap_unordered(g2_item, range(20)):
            pass


def g3_work():
    work()


def g3_app(environ, start_response):
    g3_work()
    gevent.sleep(0.005)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"page"]


def ask(port):
    while True:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            while connection.recv(1000):
                pass


def g4_work():
    work()


def g4():
    while True:
        g4_work()
        gevent.sleep(0.001)


def main():
    server = WSGIServer(("127.0.0.1", 0), g3_app, log=None)
    server.start()
    for function, arguments in ((g1, ()), (g2, ()), (ask, (server.server_port,))):
        gevent.spawn(function, *arguments)
    print(json.dumps(STACKS), flush=True)
    gevent.spawn_later(0.2, print, "ready", flush=True)
    g4()


main()
