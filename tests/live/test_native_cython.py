# SPDX-License-Identifier: Apache-2.0
"""--native on what a real Cython has compiled: Python names, and lines of the .pyx with and without #line directives."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import harness
import packages
from harness import PROGRAMS, Program, dump

CYTHON = "Cython==3.2.4"


def compiled(python, directory, *options):
    """cython_scene.pyx as a module in the directory; its text."""
    command = [*python.command, "-c", "import sysconfig; print(sysconfig.get_paths()['include'])"]
    headers = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    if not os.path.exists(headers + "/Python.h"):
        pytest.skip("%s has no headers" % python.name)
    source = Path(shutil.copy(PROGRAMS / "native" / "cython_scene.pyx", directory))
    environment = dict(os.environ, PYTHONPATH=packages.directory_with(python, CYTHON))
    subprocess.run([*python.command, "-m", "cython", *options, source.name], check=True, cwd=directory, env=environment)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-g", "-I", headers, "-o", "cython_scene.so", "cython_scene.c"], check=True, cwd=directory)
    return source.read_text().splitlines()


@pytest.mark.parametrize("options", [(), ("--line-directives",)], ids=["comments", "directives"])
def test_native_cython(any_python, tmp_path, options):
    text = compiled(any_python, tmp_path, *options)
    expected = [
        (name, "cython_scene.pyx", 1 + next(number for number, line in enumerate(text) if line.endswith("# " + mark)))
        for name, mark in (("burn", "BURN"), ("many_sums", "YIELD"), ("Shop.work", "LOOP"))]
    looks = []

    def is_seen():
        frames = dump(program.pid, "--native")["threads"][0]["frames"]
        looks.append([(frame["name"], os.path.basename(frame["file"]), frame["line"]) for frame in frames if frame["kind"] == "native"])
        return looks[-1][: len(expected)] == expected

    with Program(any_python, "native/cython_scene.py", tmp_path) as program:
        program.ready()
        try:
            harness.wait_until(is_seen)
        finally:
            print(looks[-1:])
