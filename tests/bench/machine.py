# SPDX-License-Identifier: Apache-2.0
"""The machine: which core for whom, how undisturbed a process ran, and a description without names or paths."""
import os
import platform
import re
from pathlib import Path

IS_ROOT = os.geteuid() == 0
CORES = sorted(os.sched_getaffinity(0))
TARGET_CORE, PROFILER_CORE = CORES[0], CORES[-1]
# Above ordinary work, so that nothing but the kernel takes the two cores from target and profiler. Round robin:
# under SCHED_FIFO a profiler's sampling thread that never sleeps would lock out its other threads.
PRIORITY = 10


def pinned(core, threads=1):
    """What to put before a command so that it runs on that core, and first when we are root.

    Threads that compete for one core, or that must run to be stopped, would wait for each other's whole real-time
    slices: a target of several threads gets the highest ordinary priority instead.
    """
    first = ["chrt", "-r", str(PRIORITY)] if threads == 1 else ["nice", "-n", "-20"]
    return [*(first if IS_ROOT else []), "taskset", "-c", str(core)]


def step_aside():
    """The bench itself: on the profiler's core, and when root above what it measures, for the moments that it needs."""
    os.sched_setaffinity(0, {PROFILER_CORE})
    if IS_ROOT:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY + 5))


def task_times(pid):
    """Seconds that each thread of a process ran, and that it was ready and had to wait, by native id."""
    times = {}
    for task in Path("/proc/%d/task" % pid).iterdir():
        try:
            ran, waited, _ = (task / "schedstat").read_text().split()
            times[task.name] = (int(ran) / 1e9, int(waited) / 1e9)
        except OSError:
            pass  # it has just ended
    return times


def kib_of(pid, field):
    """A field of /proc/PID/status in KiB, 0 when there is none."""
    found = re.search(r"^%s:\s*(\d+) kB" % field, Path("/proc/%d/status" % pid).read_text(), re.M)
    return int(found[1]) if found else 0


def description():
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^(?:model name|Processor|uarch)\s*:\s*(.*)$", info, re.M)
    memory = int(re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())[1])
    return {
        "processor": model[1].strip() if model else platform.machine(),
        "cores": os.cpu_count(),
        "virtual": " hypervisor" in info,
        "memory_gib": round(memory / 2**20),
        "kernel": re.match(r"[\d.]*\d", platform.release())[0],
        "real_time": IS_ROOT,
        "own_cores": TARGET_CORE != PROFILER_CORE,
    }
