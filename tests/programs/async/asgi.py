# SPDX-License-Identifier: Apache-2.0
"""A server of uvicorn under load, with clients in other threads. Needs uvicorn and anyio; with "uvloop" that, too.

Each request queries twice at once, reads a file in a thread of anyio and computes in the handler.
"""
import asyncio
import sys
import threading
import time
import urllib.request

import anyio.to_thread
import uvicorn

if "uvloop" in sys.argv:
    import uvloop

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


async def wait_for_rows():
    await asyncio.sleep(0.02)


async def query(number):
    await wait_for_rows()
    return number


def render():
    end = time.perf_counter() + 0.004
    while time.perf_counter() < end:
        pass


def read_template():
    end = time.perf_counter() + 0.03
    while time.perf_counter() < end:
        pass


async def load_page():
    await asyncio.gather(query(1), query(2))
    await anyio.to_thread.run_sync(read_template)


async def handle_page(scope, receive, send):
    await load_page()
    render()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"page"})


def ask(port):
    while True:
        with urllib.request.urlopen("http://127.0.0.1:%d/" % port) as answer:
            assert answer.read() == b"page"


async def main():
    server = uvicorn.Server(uvicorn.Config(handle_page, port=0, loop="none", lifespan="off", log_level="warning"))
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    for _ in range(3):
        threading.Thread(target=ask, args=(port,), daemon=True).start()
    print("ready", flush=True)
    await serving


asyncio.run(main())
