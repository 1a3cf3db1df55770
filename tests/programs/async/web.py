# SPDX-License-Identifier: Apache-2.0
"""A server of aiohttp under load, with a client in another thread. Needs aiohttp; with "uvloop" that, too.

Each request queries twice at once, computes in the handler and reads a file in a thread.
"""
import asyncio
import sys
import threading
import time
import urllib.request

from aiohttp import web

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
    await asyncio.get_running_loop().run_in_executor(None, read_template)


async def handle_page(request):
    await load_page()
    render()
    return web.Response(text="page")


def ask(port):
    while True:
        with urllib.request.urlopen("http://127.0.0.1:%d/" % port) as answer:
            assert answer.read() == b"page"


async def main():
    app = web.Application()
    app.router.add_get("/", handle_page)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    for _ in range(3):
        threading.Thread(target=ask, args=(port,), daemon=True).start()
    print("ready", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
