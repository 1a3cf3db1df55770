# SPDX-License-Identifier: Apache-2.0
"""Packages of the Python Package Index for the programs of tests that need them, kept in the cache of scripts/pythons.

They are unpacked for each interpreter into a directory of its own, by the pip of another one where it has none. What
can't be had is a skip with its reason.
"""
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import harness

CACHE = Path(os.environ.get("PYPROF_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyprof")


OFFLINE = []  # what could not be asked for: nothing else is asked for then


@functools.lru_cache(maxsize=None)
def pip():
    """The command of a pip: that of the newest interpreter which has one."""
    for python in reversed(harness.interpreters_of_all()):
        if python.root == "/" and subprocess.run([*python.command, "-m", "pip", "--version"], capture_output=True).returncode == 0:
            return [*python.command, "-m", "pip"]
    pytest.skip("no interpreter has pip")


@functools.lru_cache(maxsize=None)
def directory_with(python, *requirements):
    """A directory for PYTHONPATH, as the interpreter sees it."""
    name = "-".join([python.name, *requirements]).replace("=", "").replace("/", "")
    place = CACHE / "packages" / name
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".incomplete-") as fresh:
            version = "%d.%d" % python.version[:2]
            abi = "cp%d%d%s" % (*python.version[:2], "t" if not python.has_gil else "")
            if OFFLINE:
                pytest.skip("the package index can't be reached")
            done = subprocess.run(
                ["timeout", "120", *pip(), "install", "--quiet", "--disable-pip-version-check", "--no-input", "--retries", "1",
                 "--timeout", "15", "--target", fresh + "/it",
                 "--only-binary=:all:", "--python-version", version, "--implementation", "cp", "--abi", abi, "--abi", "abi3",
                 "--abi", "none", *requirements],
                capture_output=True, text=True)
            if done.returncode == 124 or "onnection" in done.stderr:
                OFFLINE.append(name)
            if done.returncode != 0:
                pytest.skip("%s for %s can't be had: %s" % (" ".join(requirements), python.name, done.stderr.strip().splitlines()[-1:]))
            try:
                os.rename(fresh + "/it", place)
            except OSError:
                assert place.exists()  # another run was faster
    if python.root == "/":
        return str(place)
    inside = "/srv/pyprof/packages/" + name
    if not Path(python.root + inside).exists():
        shutil.copytree(place, python.root + inside, dirs_exist_ok=True)
    return inside
