# SPDX-License-Identifier: Apache-2.0
"""The profilers: how each is called, and what its output says. pyprof's own figures come from --stats.

py-spy and Austin are fetched from PyPI into the project's cache on first use; Tachyon is the profiling.sampling of
Python 3.15. Austin 4 needs a newer C library than Debian 12 has and can't see out of a chroot: it measures the
interpreters inside of the chroot, Austin 3.7 the others.
"""
import collections
import dataclasses
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mojo
from program import BENCH, harness, interpreters, place_of

CACHE = Path(os.environ.get("PYPROF_CACHE", Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pyprof"))
PEERS = CACHE / "peers"
PACKAGES = {"py-spy": "py-spy", "austin-3.7": "austin-dist==3.7.0", "austin-4": "austin-dist==4.0.0"}
BUILD = Path(os.environ.get("PYPROF_BUILD", BENCH.parents[1] / "build" / "release"))
PYPROF = BUILD / "pyprof"


@dataclasses.dataclass
class Request:
    """A recording. A rate of None is as fast as can be; threads is how many a sweep covers with all_threads."""

    seconds: float
    rate: float = None
    all_threads: bool = False
    threads: int = 1
    wants_stacks: bool = False


@dataclasses.dataclass
class Counts:
    """What a profiler says that it did. Every sweep looks at each thread once."""

    seconds: float
    sweeps: float
    accepted: float  # stacks that claim to be whole
    refused: float = 0  # looked at and dropped
    unproved: float = 0  # kept, without a path
    stats: dict = dataclasses.field(default_factory=dict)


def collapsed_names(text, name_of):
    stacks = collections.Counter()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        if stack and not line.startswith("#"):
            stacks[tuple(name_of(label) for label in stack.split(";"))] += int(float(count))
    return stacks


class Pyprof:
    interrupted = False
    stops_target = False

    def __init__(self, nonblocking=False):
        self.nonblocking = nonblocking
        self.name = "pyprof" + (" --nonblocking" if nonblocking else "")

    def supports(self, python):
        return True

    def version(self):
        return subprocess.run([PYPROF, "--version"], stdout=subprocess.PIPE, text=True).stdout.split()[-1]

    def command(self, python, pid, request, out):
        command = [str(PYPROF), "record", "--pid", str(pid), "-d", "%gs" % request.seconds,
                   "-r", "max" if request.rate is None else "%g" % request.rate, "-f", "collapsed", "-o", out,
                   "--stats", out + ".json"]
        command += ["--nonblocking"] * self.nonblocking + ["--idle"] * request.all_threads
        return command + ["-F"] * request.wants_stacks

    def counts(self, request, out, messages):
        stats = json.loads(Path(out + ".json").read_text())
        return Counts(stats["elapsed_s"], stats["ticks"], stats["samples"] - stats["truncated"], stats["refused"],
                      stats["truncated"], stats)

    def stacks(self, out):
        return collapsed_names(Path(out).read_text(), lambda label: harness.plain(harness.parse_label(label).name))


class Tachyon:
    interrupted = False
    stops_target = False
    nonblocking = True
    name = "Tachyon"

    def supports(self, python):
        return python.name == "3.15"

    def version(self):
        python = interpreters().get("3.15")
        return python.text if python else None

    def command(self, python, pid, request, out):
        place = place_of(python)
        form = "--collapsed" if request.wants_stacks else "--binary"
        return [*python.command, "-m", "profiling.sampling", "attach", str(pid), "-d", "%d" % math.ceil(request.seconds),
                "-r", "%d" % (request.rate or 1_000_000), *["-a"] * request.all_threads, form,
                "-o", out.replace(place.scratch, place.scratch_inside)]

    def counts(self, request, out, messages):
        taken, seconds = re.search(r"Captured ([\d,]+) samples in ([\d.]+) s", messages).groups()
        taken = float(taken.replace(",", ""))
        wrong = re.search(r"Error rate: ([\d.]+)", messages)
        refused = taken * float(wrong[1]) / 100 if wrong else 0
        return Counts(float(seconds), taken, (taken - refused) * request.threads, refused * request.threads)

    def stacks(self, out):
        return collapsed_names(Path(out).read_text(), self._name)

    @staticmethod
    def _name(label):
        name = label.rsplit(":", 2)[-2] if ":" in label else label
        return "[gc]" if name == "<GC>" else name


def fetched(name):
    """The directory of a package from PyPI, None when it can't be had."""
    directory = PEERS / name
    if not directory.exists():
        tools = PEERS / "tools"
        shutil.rmtree(PEERS / "incomplete", ignore_errors=True)
        steps = ([] if (tools / "bin" / "pip").exists() else [[sys.executable, "-m", "venv", tools]]) + [
            [tools / "bin" / "pip", "-q", "install", "--no-deps", "--target", PEERS / "incomplete", PACKAGES[name]]]
        for step in steps:
            if subprocess.run(step, stdout=sys.stderr).returncode != 0:
                return None
        (PEERS / "incomplete").rename(directory)
    return directory


class PySpy:
    interrupted = True  # its -d counts samples: at a rate that it can't reach it would take longer
    begins_with = "Sampling process"

    def __init__(self, nonblocking=False):
        self.nonblocking = nonblocking
        self.stops_target = not nonblocking
        self.name = "py-spy" + (" --nonblocking" if nonblocking else "")

    def supports(self, python):
        return fetched("py-spy") is not None

    def version(self):
        done = subprocess.run([fetched("py-spy") / "bin" / "py-spy", "--version"], stdout=subprocess.PIPE, text=True)
        return done.stdout.split()[-1]

    def command(self, python, pid, request, out):
        return [str(fetched("py-spy") / "bin" / "py-spy"), "record", "-p", str(pid), "-r", "%d" % (request.rate or 100_000),
                "-f", "raw", "-o", out, *["--idle"] * request.all_threads, *["--nonblocking"] * self.nonblocking]

    def counts(self, request, out, messages):
        taken, errors = map(int, re.search(r"Samples: (\d+) Errors: (\d+)", messages).groups())
        return Counts(request.seconds, (taken + errors) / request.threads, taken, errors)

    def stacks(self, out):
        return collapsed_names(Path(out).read_text(), lambda label: label.rsplit(" (", 1)[0])


class Austin:
    interrupted = False
    stops_target = False
    nonblocking = True
    name = "Austin"

    def supports(self, python):
        if python.version >= (3, 15) or (python.root == "/" and python.version >= (3, 14)):
            return False
        return fetched(self._package(python)) is not None

    def version(self):
        return "3.7.0 and 4.0.0"

    def _package(self, python):
        return "austin-3.7" if python.root == "/" else "austin-4"

    def command(self, python, pid, request, out):
        place = place_of(python)
        program = str(fetched(self._package(python)) / "bin" / "austin")
        prefix = []
        if python.root != "/":
            shutil.copy(program, place.scratch + "/austin")
            prefix, program = ["chroot", python.root], place.scratch_inside + "/austin"
        interval = 1 if request.rate is None else max(1, round(1e6 / request.rate))
        return [*prefix, program, "-p", str(pid), "-i", str(interval), "-x", "%d" % max(1, round(request.seconds)),
                "-o", out.replace(place.scratch, place.scratch_inside)]

    def counts(self, request, out, messages):
        words = re.sub(r"\x1b\[[\d;]*m", "", messages)
        seconds = float(re.search(r"(?:Total|Sampling) duration[ .:]*([\d.]+) ?s", words)[1])
        wrong, taken = map(int, re.search(r"Error rate[ .:]*(\d+)/(\d+)", words).groups())
        return Counts(seconds, taken / request.threads, taken - wrong, wrong)

    def stacks(self, out):
        data = Path(out).read_bytes()
        if data.startswith(b"MOJ"):
            return mojo.collapsed(data)
        text = "\n".join(re.sub(r" \d+$", " 1", line) for line in data.decode(errors="replace").splitlines())
        return collapsed_names(text, self._name)

    @staticmethod
    def _name(label):
        if label.startswith(":"):  # :INVALID: and the like
            return "[%s]" % label.strip(":")
        return label.rsplit(":", 2)[-2] if label.count(":") > 1 else label


PYPROFS = [Pyprof(), Pyprof(nonblocking=True)]
OTHERS = [Tachyon(), PySpy(), PySpy(nonblocking=True), Austin()]


def available(python, profilers=None):
    wanted = [*PYPROFS, *OTHERS] if profilers is None else profilers
    return [profiler for profiler in wanted if profiler.supports(python)]
