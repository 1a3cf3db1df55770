# SPDX-License-Identifier: Apache-2.0
"""A server of aiohttp or uvicorn under load, with clients in other threads. Usage: web.py SERVER LOOP

Each request queries twice at once, reads a file in a thread and computes in the handler. Needs aiohttp, or uvicorn and
anyio; and uvloop where that is the loop.
"""
import asyncio
import sys
import threading
import time
import urllib.request

SERVER, LOOP = sys.argv[1:]


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


async def load_page(run_in_thread):
    await asyncio.gather(query(1), query(2))
    await run_in_thread(read_template)


async def serve_by_aiohttp():
    from aiohttp import web

    def in_executor(work):
        return asyncio.get_running_loop().run_in_executor(None, work)

    async def handle_page(request):
        await load_page(in_executor)
        render()
        return web.Response(text="page")

    app = web.Application()
    app.router.add_get("/", handle_page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner.addresses[0][1], asyncio.Event().wait()


async def serve_by_uvicorn():
    import anyio.to_thread
    import uvicorn

    async def handle_page(scope, receive, send):
        await load_page(anyio.to_thread.run_sync)
        render()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"page"})

    server = uvicorn.Server(uvicorn.Config(handle_page, port=0, loop="none", lifespan="off", log_level="warning"))
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    return server.servers[0].sockets[0].getsockname()[1], serving


def ask(port):
    while True:
        with urllib.request.urlopen("http://127.0.0.1:%d/" % port) as answer:
            assert answer.read() == b"page"


async def main():
    port, serving = await {"aiohttp": serve_by_aiohttp, "uvicorn": serve_by_uvicorn}[SERVER]()
    for _ in range(3):
        threading.Thread(target=ask, args=(port,), daemon=True).start()
    print("ready", flush=True)
    await serving


if LOOP == "uvloop":
    import uvloop

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
asyncio.run(main())
