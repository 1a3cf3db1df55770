# SPDX-License-Identifier: Apache-2.0
"""How fast: samples a second against the bare system call, sweeps over many threads, reads a sample."""
import collections
import re
import subprocess
from pathlib import Path

import machine
import measure
from peers import BUILD, PYPROFS, Pyprof, Request, available
from program import Program, place_of
from table import Figure

IOVEC = re.compile(r"iov_base=(0x[0-9a-f]+), iov_len=(\d+)")
CALL = re.compile(r"process_vm_readv\(\d+, \[[^\]]*\], \d+, \[([^\]]*)\], \d+, 0\)\s+= [1-9]")


def planned_ranges(program):
    """The ranges of the call that pyprof makes most often, as strace sees them."""
    trace = place_of(program.python).scratch + "/trace"
    prefix = ["strace", "-f", "-qq", "-s", "0", "-e", "abbrev=none", "-e", "trace=process_vm_readv", "-o", trace]
    measure.record_once(Pyprof(), program, Request(1), prefix)
    remote = collections.Counter(match[1] for match in CALL.finditer(Path(trace).read_text()))
    return IOVEC.findall(remote.most_common(1)[0][0])


def bare_loop_command(program, ranges, seconds, rate):
    return [*machine.pinned(machine.PROFILER_CORE), BUILD / "tests/bench/bare_loop", str(program.pid), "%g" % seconds, "%g" % rate,
            *("%s:%s" % item for item in ranges)]


def bare_loop(program, ranges, seconds, rate=0):
    """Calls a second, or per cent of a core at a rate."""
    done = subprocess.run(bare_loop_command(program, ranges, seconds, rate), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/")
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return float(done.stdout)


def rates(row, python, settings, program, threads=None, aims=None):
    """Accepted samples a second of one thread, or sweeps a second over several; aims by figure."""
    request = Request(settings.seconds, all_threads=threads is not None, threads=threads or 1)
    profilers = available(python)
    tasks = {profiler.name: lambda profiler=profiler: measure.record(profiler, program, request) for profiler in profilers}
    if threads is None:
        ranges = planned_ranges(program)
        note = "%d ranges, %s bytes" % (len(ranges), "+".join(size for _, size in ranges))
        tasks["bare loop"] = lambda: bare_loop(program, ranges, settings.seconds)
    results = measure.interleaved(tasks, settings.repeats)

    unit = "accepted samples/s" if threads is None else "sweeps/s"
    figures, middles = [], {}
    for profiler in profilers:
        runs = results.get(profiler.name, [])
        if not runs:
            continue
        values = [(run.counts.accepted if threads is None else run.counts.sweeps) / run.counts.seconds for run in runs]
        middles[profiler.name] = measure.median(values)
        figures.append(Figure(row, unit, python.name, profiler.name, middles[profiler.name],
                              error=measure.half_range(values), runs=len(runs), noisy=measure.noisy(runs)))
    if "bare loop" in results:
        bare = measure.median(results["bare loop"])
        figures.append(Figure(row, "calls/s", python.name, "bare loop", bare, runs=len(results["bare loop"]), note=note))
    for profiler in PYPROFS:
        if profiler.name not in middles:
            continue
        if "bare loop" in results:
            figures.append(Figure(row, "share of the bare loop", python.name, profiler.name, middles[profiler.name] / bare,
                                  (aims or {}).get("bare", ""), note=note))
        if "Tachyon" in middles:
            figures.append(Figure(row, "times Tachyon", python.name, profiler.name,
                                  middles[profiler.name] / middles["Tachyon"], (aims or {}).get("Tachyon", "")))
    return figures


def still(python, settings):
    with Program(python, "still.py", "-", 30) as program:
        return rates("still", python, settings, program, aims={"bare": ">= 0.45", "Tachyon": ">= 3"})


def moving(python, settings):
    with Program(python, "moving.py", "-", 32, 14) as program:
        return rates("moving", python, settings, program, aims={"Tachyon": ">= 3"})


def threads(python, settings):
    with Program(python, "moving.py", "-", 32, 14, 8, threads=8) as program:
        figures = rates("threads8", python, settings, program, 8, {"Tachyon": ">= 3"})
    with Program(python, "moving.py", "-", 32, 14, 1, 100, threads=101) as program:
        return figures + rates("threads101", python, settings, program, 101, {"Tachyon": ">= 10"})


# --- reads a sample -----------------------------------------------------------------------------


def counted_by_strace(program, request):
    """Samples, and calls as pyprof and as strace count them."""
    trace = place_of(program.python).scratch + "/trace"
    prefix = ["strace", "-f", "-c", "-e", "trace=process_vm_readv", "-o", trace]
    stats = measure.record_once(Pyprof(), program, request, prefix).counts.stats
    line = re.search(r"^\s*\S+\s+\S+\s+\S+\s+(\d+).*process_vm_readv$", Path(trace).read_text(), re.M)
    return stats["samples"], stats["remote_reads"], int(line[1])


def reads(python, settings):
    """A long recording less a short one: what attaching reads is in both."""
    cases = {
        "still, 30 frames": (("still.py", "-", 30), "<= 1.05"),
        "changes every 14 us, 32 frames": (("moving.py", "-", 32, 14), "<= 1.2"),
        "still, 1,000 frames": (("still.py", "-", 1000), "<= 1.05"),
        "changes every 300 us, 1,000 frames": (("moving.py", "-", 1000, 300), "<= 1.2"),
        "distinct functions, 1,000 frames": (("deep_chains.py", "-", 1000, 300), "<= 1.2"),
    }
    figures = []
    for name, (command, aim) in cases.items():
        with Program(python, *command) as program:
            short = counted_by_strace(program, Request(1, 1000))
            long = counted_by_strace(program, Request(1 + 2 * settings.seconds, 1000))
        samples, own, seen = (after - before for after, before in zip(long, short))
        figures.append(Figure("reads", name + ", by strace", python.name, "pyprof", seen / samples, aim))
        figures.append(Figure("reads", name + ", by --stats", python.name, "pyprof", own / samples, aim))
    return figures
