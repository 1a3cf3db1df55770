# SPDX-License-Identifier: Apache-2.0
"""What a program says of its own stack: the oracle of `pyprof dump`.

A frame is [name, qualified name or None, file, line]; stacks are leaf first, as dump prints them.
"""
import json
import sys
import threading
import time


def stack_of(frame):
    """The stack that ends in `frame`, leaf first."""
    frames = []
    while frame is not None:
        code = frame.f_code
        frames.append([code.co_name, getattr(code, "co_qualname", None), code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return frames


class Report:
    """Collects the threads' own stacks. Every thread calls here() on the line on which it then blocks."""

    def __init__(self):
        self.lock = threading.Lock()
        self.threads = {}

    def here(self, **facts):
        thread = threading.current_thread()
        frame = sys._getframe(1)
        facts.update(native_id=threading.get_native_id(), name=thread.name, frames=stack_of(frame))
        with self.lock:
            self.threads[threading.get_ident()] = (frame.f_code, facts)

    def wait_for(self, count):
        """Returns when that many threads have reported and gone on to the call that blocks them."""
        while True:
            with self.lock:
                reported = dict(self.threads)
            current = sys._current_frames()
            if len(reported) == count and all(
                current[ident].f_code is code for ident, (code, _) in reported.items()
            ):
                return
            time.sleep(0.01)

    def publish(self, **facts):
        """The report as one line of JSON, which also says that the program is ready."""
        facts["threads"] = [facts for _, facts in self.threads.values()]
        print(json.dumps(facts), flush=True)
