# SPDX-License-Identifier: Apache-2.0
"""Bad input, and programs that pyprof launches itself."""
import os
import stat
import subprocess
import time

import pytest

import harness
from harness import Collapsed, Program, pyprof


def no_such_pid():
    """A number above what the kernel gives out."""
    with open("/proc/sys/kernel/pid_max") as file:
        return int(file.read()) + 1


@pytest.mark.parametrize("command", ["record", "dump"])
def test_no_such_process(any_python, command):
    gone = subprocess.Popen(["true"])
    gone.wait()
    for pid in (no_such_pid(), gone.pid):
        result = pyprof(command, "--pid", pid)
        assert result.code == harness.EXIT_NO_PROCESS
        assert str(pid) in result.err
        assert result.out == b""


@pytest.mark.parametrize("command", ["record", "dump"])
def test_not_python(any_python, command):
    with subprocess.Popen(["sleep", "60"]) as other:
        result = pyprof(command, "--pid", other.pid)
        other.kill()
    assert result.code == harness.EXIT_NOT_PYTHON
    assert str(other.pid) in result.err


def test_a_target_that_ends_while_it_is_opened(any_python):
    for delay in range(12):
        process = subprocess.Popen([*any_python.command, "-c", "pass"])
        time.sleep(delay * 0.002)
        result = pyprof("record", "--pid", process.pid, "-d", 5, "-f", "collapsed", "-o", "/dev/null")
        process.wait()
        assert result.code in (0, harness.EXIT_FAILURE, harness.EXIT_NO_PROCESS, harness.EXIT_NOT_PYTHON,
                               harness.EXIT_NO_SAMPLES)
        assert result.code == 0 or result.err.strip()


def test_zombie(any_python):
    process = subprocess.Popen([*any_python.command, "-c", "pass"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    result = pyprof("dump", "--pid", process.pid)
    process.wait()
    assert result.code in (harness.EXIT_NO_PROCESS, harness.EXIT_NOT_PYTHON, harness.EXIT_FAILURE)
    assert result.err.strip()


@pytest.mark.parametrize("options", [
    [],
    ["--pid", "SELF", "--", "true"],
    ["--pid", "abc"],
    ["--pid", "-1"],
    ["--pid", "0"],
    ["--pid", "SELF", "-r", "0"],
    ["--pid", "SELF", "-r", "-5"],
    ["--pid", "SELF", "-r", "fast"],
    ["--pid", "SELF", "-r", "1e12"],
    ["--pid", "SELF", "-r", "nan"],
    ["--pid", "SELF", "-r", "inf"],
    ["--pid", "SELF", "-d", "soon"],
    ["--pid", "SELF", "-d", "-1"],
    ["--pid", "SELF", "-d", "nan"],
    ["--pid", "SELF", "-f", "no-such-format"],
    ["--pid", "SELF", "--no-such-option"],
], ids=" ".join)
def test_usage_errors(any_python, options):
    with Program(any_python, "split.py", 60) as program:
        program.ready()
        arguments = [str(program.pid) if option == "SELF" else option for option in options]
        result = pyprof("record", *arguments, patience=30)
    assert result.code == harness.EXIT_USAGE
    assert result.err.strip()
    assert result.out == b""


def test_help_and_version(any_python):
    for arguments in (["--help"], ["record", "--help"], ["dump", "--help"], ["--version"]):
        result = pyprof(*arguments)
        assert result.code == 0
        assert result.out.strip() and result.err == ""
    assert pyprof().code == harness.EXIT_USAGE
    assert pyprof("no-such-command").code == harness.EXIT_USAGE


# --- launching ----------------------------------------------------------------------------------


def launch(python, out, *arguments, stdin=b"", options=()):
    return pyprof(
        "record", "-f", "collapsed", "-o", out, *options, "--", *python.command, *arguments,
        stdin=stdin, patience=harness.PATIENCE,
    )


def test_launched_program(python, tmp_path):
    """Its three streams are its own, its exit status becomes pyprof's, and it is profiled to its end."""
    out = tmp_path / "out.txt"
    result = launch(python, out, python.program("child.py"), 1, "exit", 7, stdin=b"some input\n")
    assert result.code == 7, result.err
    assert result.out == b"SOME INPUT\n"
    assert "copied\n" in result.err
    assert Collapsed(out.read_text()).total > 0


def test_launched_status(any_python, tmp_path):
    out, child = tmp_path / "out.txt", any_python.program("child.py")
    assert launch(any_python, out, child, 0.5, "exit", 0).code == 0
    assert launch(any_python, out, child, 0.5, "signal", 15).code == 128 + 15
    assert launch(any_python, out, child, 0.5, "signal", 9).code == 128 + 9
    assert launch(any_python, out, "-c", "raise SystemExit(3)").code == 3
    assert launch(any_python, out, "-c", "pass").code == 0
    # No samples, but the status of the child wins.
    assert launch(any_python, out, "-c", "import time; time.sleep(0.5)").code == 0


def test_launched_arguments_are_its_own(any_python, tmp_path):
    script = "import sys; print(sys.argv[1:])"
    result = launch(any_python, tmp_path / "out.txt", "-c", script, "--pid", "-o", "x", "--", "-r", "0")
    assert result.code == 0
    assert result.out.decode().strip() == repr(["--pid", "-o", "x", "--", "-r", "0"])


def test_launched_input_ends_when_ours_does(any_python, tmp_path):
    result = launch(any_python, tmp_path / "out.txt", "-c", "import sys; print(len(sys.stdin.read()))",
                    stdin=b"x" * 200000)
    assert result.code == 0
    assert result.out == b"200000\n"


def test_a_program_that_cannot_be_started(tmp_path, any_python):
    out = tmp_path / "out.svg"
    result = pyprof("record", "-o", out, "--", tmp_path / "no-such-program")
    assert result.code == harness.EXIT_NOT_FOUND
    assert "no-such-program" in result.err
    plain_file = tmp_path / "not-executable"
    plain_file.write_text("text")
    plain_file.chmod(stat.S_IRUSR)
    assert pyprof("record", "-o", out, "--", plain_file).code == harness.EXIT_NOT_EXECUTABLE


def test_unwritable_output_starts_nothing(any_python, tmp_path):
    mark = tmp_path / "started"
    result = launch(any_python, "/no/such/directory/out.svg", "-c", "open(%r, 'w')" % str(mark))
    assert result.code in (harness.EXIT_FAILURE, harness.EXIT_OWN_FAILURE)
    assert not mark.exists()


def test_end_of_the_duration_leaves_the_child_alone(any_python, tmp_path):
    """-d ends the recording, not the program: its output is whole and its status is kept."""
    result = launch(any_python, tmp_path / "out.txt", any_python.program("child.py"), 1.5, "exit", 5,
                    stdin=b"all of it\n", options=["-d", "0.5"])
    assert result.code == 5
    assert result.out == b"ALL OF IT\n"
