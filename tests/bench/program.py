# SPDX-License-Identifier: Apache-2.0
"""Targets: programs of tests/bench/targets and tests/programs under one interpreter, on the target's core."""
import ctypes
import functools
import mmap
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine

BENCH = Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH.parent / "live"))
import harness  # noqa: E402

PATIENCE = 60.0
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)


def end_with_parent():
    """A busy target that outlives the bench would keep its core for ever."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@functools.lru_cache(maxsize=None)
def interpreters():
    """The release builds by name; where there are two of one version, the one outside of the chroot."""
    return {python.name: python for python in harness.interpreters() if python.kind == "release"}


class Place:
    """Where the programs and the shared files of an interpreter stand: outside for us, inside for it."""

    INSIDE = "/srv/pyprof/bench"

    def __init__(self, root):
        self.root = root
        if root == "/":
            self.programs = str(BENCH.parent / "programs")
            self.targets = str(BENCH / "targets")
            self.scratch = self.scratch_inside = tempfile.mkdtemp(prefix="pyprof-bench-")
        else:
            outside = root + self.INSIDE
            shutil.rmtree(outside, ignore_errors=True)
            shutil.copytree(BENCH.parent / "programs", outside + "/programs")
            shutil.copytree(BENCH / "targets", outside + "/targets")
            os.mkdir(outside + "/scratch")
            self.programs, self.targets = self.INSIDE + "/programs", self.INSIDE + "/targets"
            self.scratch, self.scratch_inside = outside + "/scratch", self.INSIDE + "/scratch"

    def remove(self):
        shutil.rmtree(self.scratch if self.root == "/" else self.root + self.INSIDE, ignore_errors=True)


places = {}


def place_of(python):
    if python.root not in places:
        places[python.root] = Place(python.root)
    return places[python.root]


def remove_places():
    for place in places.values():
        place.remove()


def path_of(python, name):
    place = place_of(python)
    return (place.targets if (BENCH / "targets" / name).exists() else place.programs) + "/" + name


@functools.lru_cache(maxsize=None)
def loop_steps(python, microseconds):
    """The steps of an adding loop that take that long under this interpreter."""
    command = [*machine.pinned(machine.TARGET_CORE), *python.command, path_of(python, "loop_work.py"), str(microseconds)]
    return int(subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd="/").stdout)


class Program:
    """A running target; its counters, when its first argument is COUNTS, are read with counts()."""

    COUNTS = "COUNTS"

    def __init__(self, python, name, *arguments, slots=1, threads=1):
        place = place_of(python)
        self.python = python
        self.slots = slots
        arguments = [place.scratch_inside + "/counts" if word == self.COUNTS else str(word) for word in arguments]
        with open(place.scratch + "/counts", "wb") as file:
            file.truncate(8 * slots)
        self.counts_file = open(place.scratch + "/counts", "rb")
        self.memory = mmap.mmap(self.counts_file.fileno(), 0, prot=mmap.PROT_READ)
        self.process = subprocess.Popen(
            [*machine.pinned(machine.TARGET_CORE, threads), *python.command, path_of(python, name), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd="/", preexec_fn=end_with_parent,
            env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"),
        )
        self.pid = self.process.pid
        self.ready_words = self._line().split()
        assert self.ready_words[0] == "ready", self.ready_words

    def _line(self):
        text, end = b"", time.monotonic() + PATIENCE
        while not text.endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError("the target printed nothing")
            chunk = os.read(self.process.stdout.fileno(), 1)
            if not chunk:
                raise RuntimeError("the target ended early, status %r" % self.process.wait())
            text += chunk
        return text.decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.memory.close()
        self.counts_file.close()

    def counts(self):
        return [int.from_bytes(self.memory[8 * n:8 * n + 8], sys.byteorder) for n in range(self.slots)]
