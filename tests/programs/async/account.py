# SPDX-License-Identifier: Apache-2.0
"""What a program knows of its own tasks that wait: every frame of each, by cr_await, gi_yieldfrom and ag_await alone.

It makes no task and waits for nothing. A frame is written [name, file, line]; what is written in C has none.
"""
import asyncio
import gc
import re
import sys

ATTRIBUTES = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))
# Written in C, and no attribute says whom they pass each step on to; the garbage collector knows it.
WRAPPERS = {"coroutine_wrapper", "async_generator_asend", "async_generator_athrow", "anext_awaitable"}


def told(frame):
    code = frame.f_code
    return [getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno]


def has_frame(one):
    return any(hasattr(one, frame) for frame, _ in ATTRIBUTES)


def chain_of(one):
    """The frames of a coroutine and of what it awaits, down to what has no frame."""
    frames = []
    while True:
        while type(one).__name__ in WRAPPERS:
            one = next(inner for inner in gc.get_referents(one) if has_frame(inner) or type(inner).__name__ in WRAPPERS)
        if not has_frame(one):
            return frames
        frame, awaited = next(names for names in ATTRIBUTES if hasattr(one, names[0]))
        frames.append(told(getattr(one, frame)))
        one = getattr(one, awaited)


def coroutine_of(task):
    """What uvloop.run() wraps around the coroutine that it is given is a part of that loop."""
    coroutine = task.get_coro()
    is_wrapper = coroutine.__name__ == "wrapper" and coroutine.cr_code.co_filename.endswith("uvloop/__init__.py")
    return coroutine.cr_await if is_wrapper else coroutine


def title_of(task):
    is_given = not re.fullmatch(r"Task-\d+", task.get_name())
    return task.get_name() if is_given else coroutine_of(task).__name__


def stem():
    """The frames above the loop's turn, as a callback sees them. Of a loop that is written in C: all above the callback."""
    frame, frames = sys._getframe(), []
    while frame is not None:
        if frame.f_globals is not globals() and frame.f_code.co_name != "ready":
            frames.insert(0, told(frame))
        if frame.f_code.co_name == "_run_once":
            frames.clear()
        frame = frame.f_back
    return frames


def account():
    """For a callback of the loop: then each task is at its await."""
    kinds = (asyncio.Task, asyncio.tasks._PyTask)
    tasks = [one for one in gc.get_objects() if isinstance(one, kinds) and not one.done()]
    return {"stem": stem(),
            "tasks": [{"id": hex(id(task)), "title": title_of(task), "frames": chain_of(coroutine_of(task))} for task in tasks]}
