# SPDX-License-Identifier: Apache-2.0
"""A shop as many are built: FastAPI on uvicorn, its data in SQLite by way of SQLAlchemy's asyncio and aiosqlite, and
clients in other threads. Each endpoint calls functions of its own alone. Usage: shop.py [--uvloop.run]

list_orders and show_invoice wait for queries that take long; count_stock has the ORM make many objects, which it does
in a greenlet.
"""
import asyncio
import threading
import time
import urllib.request

import uvicorn
from fastapi import FastAPI
from sqlalchemy import event, func, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.pool import AsyncAdaptedQueuePool

from expect import run

PAUSE = 0.03  # seconds that a slow query takes
ITEMS = 2000
FILL = """
CREATE TABLE orders (number INTEGER PRIMARY KEY, customer TEXT);
CREATE TABLE invoices (number INTEGER PRIMARY KEY, total INTEGER);
CREATE TABLE items (number INTEGER PRIMARY KEY, name TEXT, price INTEGER);
INSERT INTO orders VALUES (1, 'somebody');
INSERT INTO invoices VALUES (1, 100);
WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO items SELECT i, 'item', i FROM n;
""" % ITEMS


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    number: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]


class Invoice(Base):
    __tablename__ = "invoices"
    number: Mapped[int] = mapped_column(primary_key=True)
    total: Mapped[int]


class Item(Base):
    __tablename__ = "items"
    number: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    price: Mapped[int]


# Each connection is a database of its own.
engine = create_async_engine("sqlite+aiosqlite://", poolclass=AsyncAdaptedQueuePool, pool_size=4)
Session = async_sessionmaker(engine, class_=AsyncSession)
app = FastAPI()


def dawdle(seconds):
    time.sleep(seconds)
    return 1


@event.listens_for(engine.sync_engine, "connect")
def fill(connection, record):
    async def set_up(own):
        await own.create_function("dawdle", 1, dawdle)
        await own.executescript(FILL)

    connection.run_async(set_up)


async def load_orders():
    async with Session() as session:
        found = await session.execute(select(Order).where(func.dawdle(PAUSE) == 1))
        return [order.customer for order in found.scalars()]


@app.get("/orders")
async def list_orders():
    return await load_orders()


async def find_invoice():
    async with Session() as session:
        return await session.scalar(select(Invoice).where(func.dawdle(PAUSE) == 1))


@app.get("/invoice")
async def show_invoice():
    invoice = await find_invoice()
    return {"total": invoice.total}


async def build_items():
    async with Session() as session:
        return (await session.scalars(select(Item))).all()


@app.get("/stock")
async def count_stock():
    return {"items": len(await build_items())}


def ask(address):
    while True:
        with urllib.request.urlopen(address) as answer:
            assert answer.status == 200


async def main():
    server = uvicorn.Server(uvicorn.Config(app, port=0, loop="none", lifespan="off", log_level="warning"))
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    for page in ("orders", "invoice", "stock"):
        threading.Thread(target=ask, args=("http://127.0.0.1:%d/%s" % (port, page),), daemon=True).start()
    print("ready", flush=True)
    await serving


run(main())
