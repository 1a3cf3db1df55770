# SPDX-License-Identifier: Apache-2.0
"""The program in the pictures of docs/async.md: orders that wait, compute and read files.

Usage: orders.py SECONDS
"""
import asyncio
import sys
import time


def work(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def discount(price):
    work(0.004)
    return price


async def query(seconds):
    await asyncio.sleep(seconds)


async def fetch_price():
    await query(0.015)
    return discount(10)


async def fetch_stock():
    await query(0.03)


def read_template():
    work(0.03)


def render():
    work(0.003)


async def checkout():
    await asyncio.gather(fetch_price(), fetch_stock())
    await asyncio.get_running_loop().run_in_executor(None, read_template)
    render()


async def customer(end):
    while time.perf_counter() < end:
        await checkout()


async def clean_up():
    while True:
        await asyncio.sleep(0.2)
        work(0.002)


async def main(seconds):
    cleaner = asyncio.ensure_future(clean_up())
    end = time.perf_counter() + seconds
    await asyncio.gather(customer(end), customer(end), customer(end))
    cleaner.cancel()


print("begun", flush=True)
asyncio.run(main(float(sys.argv[1])))
