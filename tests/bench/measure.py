# SPDX-License-Identifier: Apache-2.0
"""One recording under watch, and many of them interleaved: medians, and which runs other work disturbed."""
import collections
import dataclasses
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import machine
from peers import Counts, Request
from program import end_with_parent, place_of

# A run in which target or profiler was ready and had to wait for longer than this share of the time is
# repeated, and taken with a note when it never came out better.
DELAY_LIMIT = 0.06
TRIES = 3
WARM_UP_S = 0.5
POLL_S = 0.05


@dataclasses.dataclass
class Run:
    counts: Counts
    wall_s: float
    cpu: float  # processor seconds a second, after a warm-up
    peak_kib: int
    delay: float
    stacks: collections.Counter = None
    rss_kib: list = dataclasses.field(default_factory=list)  # (seconds, KiB)


class Watch:
    """Polls a process: the times of its threads and its memory."""

    def __init__(self, pid):
        self.pid = pid
        self.began = time.monotonic()
        self.warm = None
        self.last = (self.began, {})
        self.peak_kib = 0
        self.rss_kib = []

    def look(self):
        now = time.monotonic()
        try:
            times = machine.task_times(self.pid)
            peak, rss = machine.kib_of(self.pid, "VmHWM"), machine.kib_of(self.pid, "VmRSS")
        except OSError:
            return
        if not times or rss == 0:
            return
        self.last = (now, {**self.last[1], **times})
        self.peak_kib = max(self.peak_kib, peak)
        if not self.rss_kib or now - self.began - self.rss_kib[-1][0] >= 1:
            self.rss_kib.append((now - self.began, rss))
        if self.warm is None and now - self.began >= WARM_UP_S:
            self.warm = self.last

    def cpu(self):
        if self.warm is None or self.last[0] <= self.warm[0]:
            return float("nan")
        ran = sum(ran for ran, _ in self.last[1].values()) - sum(ran for ran, _ in self.warm[1].values())
        return ran / (self.last[0] - self.warm[0])

    def delay(self):
        """Of the busiest thread: the others of a process may wait for that one."""
        if not self.last[1]:
            return 0.0
        return max(self.last[1].values())[1] / max(self.last[0] - self.began, POLL_S)


def spawn(command, messages):
    return subprocess.Popen(
        [*machine.pinned(machine.PROFILER_CORE), *command], stdin=subprocess.DEVNULL, stdout=messages, stderr=messages,
        cwd="/", preexec_fn=end_with_parent)


def record_once(profiler, program, request, prefix=()):
    """Runs a profiler on a program and waits for its end."""
    scratch = place_of(program.python).scratch
    out = scratch + "/profile"
    for name in (out, out + ".json"):
        Path(name).unlink(missing_ok=True)
    target_before = machine.task_times(program.pid)
    began = time.monotonic()
    with open(scratch + "/messages", "wb") as messages:
        process = spawn([*prefix, *profiler.command(program.python, program.pid, request, out)], messages)
        watch = Watch(process.pid)
        ends_at = None
        deadline = began + 3 * request.seconds + 60
        while process.poll() is None:
            watch.look()
            if profiler.interrupted and ends_at is None and profiler.begins_with in Path(scratch + "/messages").read_text(errors="replace"):
                ends_at = time.monotonic() + request.seconds
            if ends_at is not None and time.monotonic() >= ends_at:
                process.send_signal(signal.SIGINT)
                ends_at = float("inf")
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(min(POLL_S, request.seconds / 10))
    wall = time.monotonic() - began
    text = Path(scratch + "/messages").read_text(errors="replace")
    try:
        counts = profiler.counts(request, out, text)
    except (AttributeError, OSError, ValueError) as error:
        raise RuntimeError("%s said: %s" % (profiler.name, text.strip()[-300:] or error)) from error
    target_after = machine.task_times(program.pid)
    delay = watch.delay()
    # Several threads wait for each other, and one that is stopped all the time waits for its core after each stop.
    if len(target_after) == 1 and not profiler.stops_target:
        delay = max(delay, sum(after[1] - target_before.get(task, after)[1] for task, after in target_after.items()) / wall)
    return Run(counts, wall, watch.cpu(), watch.peak_kib, delay,
               profiler.stacks(out) if request.wants_stacks else None, watch.rss_kib)


def record(profiler, program, request, prefix=()):
    """As undisturbed as can be had in a few tries."""
    best = None
    for _ in range(TRIES):
        run = record_once(profiler, program, request, prefix)
        if best is None or run.delay < best.delay:
            best = run
        if best.delay <= DELAY_LIMIT:
            break
    return best


def say(text):
    print(time.strftime("%H:%M:%S ") + text, file=sys.stderr, flush=True)


def interleaved(tasks, repeats):
    """Calls each of the functions `repeats` times, in turns; {name: [results]}. One that fails is left out, aloud."""
    results = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            try:
                results[name].append(task())
            except RuntimeError as error:
                say("%s: %s" % (name, error))
    return {name: found for name, found in results.items() if found}


def median(values):
    return statistics.median(values)


def half_range(values):
    """How far apart several runs came out; nothing can be said of one."""
    return (max(values) - min(values)) / 2 if len(values) > 1 else None


def noisy(runs):
    return sum(run.delay > DELAY_LIMIT for run in runs)
