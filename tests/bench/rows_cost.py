# SPDX-License-Identifier: Apache-2.0
"""What it costs: the target's speed, the profiler's processor time and memory, and the time to attach."""
import math
import os
import random
import shutil
import signal
import statistics
import time
from pathlib import Path

import machine
import measure
from peers import OTHERS, PYPROFS, Pyprof, PySpy, Request, Tachyon, available
from program import Program, place_of
from rows_rate import bare_loop, bare_loop_command, planned_ranges
from table import Figure

# --- the target's speed -------------------------------------------------------------------------

SLICE_S = 0.5  # two make a pair: pairs of slices twice as long scatter as much, and there are half as many
SETTLE_S = 0.2  # Tachyon catches up first on what it missed while it was stopped
START_S = 1.5
WANTED_ERROR = 0.1  # points
WANTED_ERROR_OF_PEERS = 0.3


def set_running(process, target_pid, wanted):
    """Lets the profiler run, or stops it; never while it holds a thread of the target in a stop of its own."""
    while True:
        process.send_signal(signal.SIGCONT if wanted else signal.SIGSTOP)
        if wanted:
            return
        time.sleep(0.001)
        states = [(task / "stat").read_text().rsplit(")", 1)[1].split()[0] for task in Path("/proc/%d/task" % target_pid).iterdir()]
        if "t" not in states:
            return
        process.send_signal(signal.SIGCONT)
        time.sleep(0.001)


def speed(program):
    """Iterations a second over a slice."""
    began, before = time.perf_counter(), sum(program.counts())
    time.sleep(SLICE_S)
    ended, after = time.perf_counter(), sum(program.counts())
    return (after - before) / (ended - began)


def paired_slowdowns(profiler, program, request, limit_s, wanted_error):
    """Per cent that each slice with sampling was slower than its neighbour without."""
    out = place_of(program.python).scratch + "/profile"
    rng = random.Random(1)
    slowdowns = []
    with open(place_of(program.python).scratch + "/messages", "wb") as messages:
        process = measure.spawn(profiler.command(program.python, program.pid, request, out), messages)
        try:
            time.sleep(START_S)
            began = time.monotonic()
            while time.monotonic() - began < limit_s:
                if process.poll() is not None:
                    raise RuntimeError("%s ended early" % profiler.name)
                speeds = {}
                for sampling in rng.sample([True, False], 2):
                    set_running(process, program.pid, sampling)
                    time.sleep(SETTLE_S)
                    speeds[sampling] = speed(program)
                slowdowns.append(100 * (1 - speeds[True] / speeds[False]))
                if len(slowdowns) >= 30 and standard_error(slowdowns) < wanted_error:
                    break
        finally:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except Exception:
                process.kill()
                process.wait()
    return slowdowns


def trimmed(values):
    """Without the tenth at either end: a pair in which the machine was away says nothing."""
    cut = len(values) // 10
    return sorted(values)[cut:len(values) - cut]


def standard_error(values):
    kept = trimmed(values)
    return statistics.stdev(kept) / math.sqrt(len(kept)) * 1.15 if len(kept) > 1 else float("inf")


class BareLoop:
    """In a profiler's place: one call of process_vm_readv at each tick, of what a sample needs."""

    name = "bare loop"

    def __init__(self, program):
        self.program = program
        self.ranges = planned_ranges(program)

    def command(self, _python, _pid, request, _out):
        return bare_loop_command(self.program, self.ranges, request.seconds, request.rate)


def slowdown(python, settings):
    moving = ("moving.py", Program.COUNTS, 32, 14)
    cases = [
        ("32 frames, 14 us, 1 kHz, %", moving, 1, Request(1e5, 1000), "<= 0.3", [*PYPROFS, *available(python, OTHERS)]),
        ("32 frames, 14 us, 10 kHz, %", moving, 1, Request(1e5, 10_000), "<= 2", [*PYPROFS, *available(python, [Tachyon()])]),
        ("160 threads, 1 of them busy, 100 Hz, %", (*moving, 1, 159), 1, Request(1e5, 100, True, 160), "<= 1",
         [*PYPROFS, *available(python, [Tachyon(), PySpy()])]),
        ("160 busy threads, 100 Hz, %", (*moving, 160, 0), 160, Request(1e5, 100, True, 160), "<= 1",
         [*PYPROFS, *available(python, [Tachyon(), PySpy()])]),
    ]
    figures = []
    for name, command, slots, request, aim, profilers in cases:
        with Program(python, *command, slots=slots, threads=request.threads) as program:
            bare = [] if request.all_threads else [BareLoop(program)]
            for profiler in [*profilers, *bare]:
                is_own = profiler in PYPROFS
                try:
                    found = paired_slowdowns(profiler, program, request, settings.slowdown_limit if is_own else settings.slowdown_limit / 3,
                                             WANTED_ERROR if is_own else WANTED_ERROR_OF_PEERS)
                except RuntimeError as error:
                    measure.say(str(error))
                    continue
                figures.append(Figure("slowdown", name, python.name, profiler.name, statistics.mean(trimmed(found)),
                                      aim if is_own else "", error=standard_error(found), runs=len(found)))
    return figures


# --- the profiler's processor time --------------------------------------------------------------


def cpu(python, settings):
    figures = []
    with Program(python, "moving.py", "-", 32, 14) as program:
        ranges = planned_ranges(program)
        for rate, aim in ((100, "<= 0.3"), (1000, "<= 2.5"), (10_000, "<= 20"), (20_000, "<= 95")):
            profilers = [*PYPROFS, *(available(python, OTHERS) if rate <= 10_000 else [])]
            request = Request(settings.seconds + measure.WARM_UP_S, rate)
            tasks = {p.name: lambda p=p: measure.record(p, program, request) for p in profilers}
            tasks["bare loop"] = lambda rate=rate: bare_loop(program, ranges, settings.seconds, rate)
            results = measure.interleaved(tasks, settings.repeats)
            bare = results.pop("bare loop")
            middles = {}
            figures.append(Figure("cpu", "%d Hz, %% of a core" % rate, python.name, "bare loop", measure.median(bare),
                                  error=measure.half_range(bare), runs=len(bare)))
            for profiler in profilers:
                if profiler.name not in results:
                    continue
                runs = results[profiler.name]
                values = [100 * run.cpu for run in runs]
                middles[profiler.name] = measure.median(values)
                figures.append(Figure("cpu", "%d Hz, %% of a core" % rate, python.name, profiler.name, middles[profiler.name],
                                      aim if profiler in PYPROFS else "", error=measure.half_range(values),
                                      runs=len(runs), noisy=measure.noisy(runs)))
            for profiler in PYPROFS:
                if "Tachyon" in middles and rate == 10_000:
                    figures.append(Figure("cpu", "10 kHz, share of Tachyon's", python.name, profiler.name,
                                          middles[profiler.name] / middles["Tachyon"], "<= 0.25"))
    return figures


# --- memory -------------------------------------------------------------------------------------


def slope(points):
    """KiB a second, by least squares."""
    mean_t = statistics.mean(t for t, _ in points)
    mean_y = statistics.mean(y for _, y in points)
    spread = sum((t - mean_t) ** 2 for t, _ in points)
    return sum((t - mean_t) * (y - mean_y) for t, y in points) / spread if spread else 0.0


def memory(python, settings):
    """The highest resident set, and what its slope over the second half would make of an hour."""
    figures = []
    with Program(python, "many_stacks.py", "-", 5000) as program:
        run = measure.record_once(Pyprof(), program, Request(settings.memory_seconds, 1000))
    late = [point for point in run.rss_kib if point[0] > run.rss_kib[-1][0] / 2]
    grows = slope(late)
    after_hour = run.peak_kib + max(0.0, grows) * max(0, 3600 - settings.memory_seconds)
    note = "%d distinct stacks" % run.counts.stats["distinct_stacks"]
    name = "%g min at 1 kHz, " % round(settings.memory_seconds / 60, 1)
    figures.append(Figure("memory", name + "peak, MiB", python.name, "pyprof", run.peak_kib / 1024, "<= 25", note=note))
    figures.append(Figure("memory", name + "growth in the second half, KiB/min", python.name, "pyprof", 60 * grows))
    figures.append(Figure("memory", "an hour, extrapolated, MiB", python.name, "pyprof", after_hour / 1024, "<= 25", note=note))
    return figures


# --- attach -------------------------------------------------------------------------------------

LIBRARIES = 200


def library():
    """A small real library that is on every system."""
    for directory in ("/lib", "/usr/lib", "/lib64", "/usr/lib64"):
        found = sorted(Path(directory).glob("*/libz.so.1")) or sorted(Path(directory).glob("libz.so.1"))
        if found:
            return found[0]
    raise RuntimeError("no libz to map 200 times")


def attach(python, settings):
    """From exec to exit of a recording of one millisecond: attach, first sample, and the writing of it."""
    place = place_of(python)
    directory = Path(place.scratch) / "libraries"
    directory.mkdir(exist_ok=True)
    for number in range(LIBRARIES):
        shutil.copy(library(), directory / ("lib%03d.so" % number))
    request = Request(0.001, 10_000)
    figures = []
    with Program(python, "libraries.py", place.scratch_inside + "/libraries") as program:
        for profiler in PYPROFS:
            values = []
            for _ in range(max(5, settings.repeats)):
                with open(os.devnull, "wb") as nowhere:
                    began = time.perf_counter()
                    process = measure.spawn(profiler.command(python, program.pid, request, place.scratch + "/profile"), nowhere)
                    process.wait()
                    values.append(1000 * (time.perf_counter() - began))
                time.sleep(0.05)
            figures.append(Figure("attach", "%d libraries, exec to exit with one sample written, ms" % LIBRARIES, python.name,
                                  profiler.name, measure.median(values), "<= 50", error=measure.half_range(values),
                                  runs=len(values)))
    shutil.rmtree(directory)
    return figures
