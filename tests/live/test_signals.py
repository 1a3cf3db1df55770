# SPDX-License-Identifier: Apache-2.0
"""Signals to pyprof, readers that leave, and a pyprof that is killed at any instant."""
import json
import os
import re
import pty
import random
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

import harness
from harness import Collapsed, Program, start_recording, wait_for_samples, written


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_signals_end_and_write(any_python, tmp_path, number):
    with Program(any_python, "split.py", 60) as program:
        process = start_recording(tmp_path, "--pid", program.ready().pid)
        wait_for_samples(process, tmp_path)
        process.send_signal(number)
        out, err = process.communicate(timeout=harness.PATIENCE)
        assert process.returncode == 0 and out == ""
        assert "samples" in err
        assert written(tmp_path / "out.txt")
        assert json.loads((tmp_path / "stats.json").read_text())["samples"] > 0
        assert program.process.poll() is None and program.status("State") in "RS"


def test_sigusr1_writes_and_goes_on(any_python, tmp_path):
    out = tmp_path / "out.txt"
    with Program(any_python, "split.py", 60) as program:
        process = start_recording(tmp_path, "--pid", program.ready().pid)
        wait_for_samples(process, tmp_path)
        first = Collapsed(out.read_text()).total
        wait_for_samples(process, tmp_path, lambda: Collapsed(out.read_text()).total > first)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=harness.PATIENCE)
    assert process.returncode == 0
    assert "(so far)" in err
    assert Collapsed(out.read_text()).total > first


def is_stopped(task):
    return (task / "stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def test_no_sample_stands_for_the_time_in_which_pyprof_is_stopped(any_python, tmp_path):
    period = 1 / 200
    with Program(any_python, "split.py", 60) as program:
        process = start_recording(tmp_path, "--pid", program.ready().pid)
        wait_for_samples(process, tmp_path)
        process.send_signal(signal.SIGSTOP)
        harness.wait_until(lambda: all(is_stopped(task) for task in Path("/proc/%d/task" % process.pid).iterdir()))
        since = time.monotonic()
        harness.wait_until(lambda: time.monotonic() > since + 1.2)
        stopped = time.monotonic() - since
        process.send_signal(signal.SIGCONT)
        wait_for_samples(process, tmp_path)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=harness.PATIENCE)
        assert process.returncode == 0, err
    stats = json.loads((tmp_path / "stats.json").read_text())
    # Three periods have samples: the one in which it was stopped, the next, whose moment is drawn already, and the one it wakes in.
    assert stopped - 3 * period <= stats["paused_s"] <= stats["elapsed_s"]
    assert "in which pyprof stood still" in err


def test_ctrl_c_reaches_the_program_and_is_waited_for(any_python, tmp_path):
    """As a terminal does it: the signal goes to both. The program's own end and status count."""
    script = ("import sys, time\nprint('ready', flush=True)\ne = time.time() + 60\ntry:\n"
              "    while time.time() < e: sum(range(100))\nexcept KeyboardInterrupt:\n"
              "    print('cleaning up', flush=True)\n    sys.exit(21)\n")
    main, terminal = pty.openpty()
    process = start_recording(
        tmp_path, "--", *any_python.command, "-c", script, stdin=terminal, start_new_session=True,
        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0))
    os.close(terminal)
    assert process.stdout.readline() == "ready\n"
    wait_for_samples(process, tmp_path)
    os.write(main, b"\x03")
    out, err = process.communicate(timeout=harness.PATIENCE)
    os.close(main)
    assert process.returncode == 21, err
    assert out == "cleaning up\n"
    assert written(tmp_path / "out.txt")


def test_second_interrupt_aborts(any_python, tmp_path):
    """A program that ignores Ctrl-C is waited for, but not against the will of who presses it again."""
    script = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    process = start_recording(tmp_path, "--idle", "--", *any_python.command, "-c", script, start_new_session=True)
    try:
        assert process.stdout.readline() == "ready\n"
        wait_for_samples(process, tmp_path)
        process.send_signal(signal.SIGINT)
        while "(so far)" in process.stderr.readline():
            pass
        assert written(tmp_path / "out.txt") and process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=harness.PATIENCE) == 128 + signal.SIGINT
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the program, which is left running
        _, err = process.communicate()
    assert "interrupted again" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_reader_that_never_reads(any_python, tmp_path, number):
    """What waits for ever to write, or for a FIFO to be opened, is ended by a signal."""
    os.mkfifo(tmp_path / "fifo")
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    while True:
        try:
            os.write(writing, b" ")  # the pipe is full
        except BlockingIOError:
            break
    os.set_blocking(writing, True)
    with Program(any_python, "split.py", 60) as program:
        program.ready()
        record = ["record", "-d", "0.3", "-f", "collapsed"]
        fifo, regular = tmp_path / "fifo", tmp_path / "out.txt"
        for command, call in ((record + ["-o", "-"], "poll"), (record + ["-o", "-", "--stats", regular], "poll"),
                              (record + ["-o", fifo], "openat"), (record + ["-o", regular, "--stats", fifo], "openat"),
                              (["top", "--json", "--interval", "100ms"], "poll"), (["top", "--batch", "--interval", "100ms"], "poll")):
            process = subprocess.Popen([harness.PYPROF, *command, "--pid", str(program.pid)], stdout=writing, stderr=subprocess.DEVNULL)
            harness.wait_until(lambda: waits_in(process.pid, call, number))
            process.send_signal(number)
            assert process.wait(timeout=harness.PATIENCE) == -number
            assert {path.name for path in tmp_path.iterdir()} <= {"fifo", "out.txt"}  # no temporary file
        assert program.process.poll() is None and program.status("TracerPid") == "0"
    os.close(reading)
    os.close(writing)


def waits_in(pid, call, number):
    """Whether a process waits in a system call with a signal let in."""
    words = (Path("/proc") / str(pid) / "syscall").read_text().split()
    blocked = re.search(r"^SigBlk:\s*(\w+)", (Path("/proc") / str(pid) / "status").read_text(), re.M)[1]
    return {"7": "poll", "257": "openat"}.get(words[0]) == call and not int(blocked, 16) >> (number - 1) & 1


def test_sigterm_is_passed_on(any_python, tmp_path):
    process = start_recording(tmp_path, "--", *any_python.command, any_python.program("split.py"), 60)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    process.communicate(timeout=harness.PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM


def test_a_reader_that_leaves_is_no_failure(any_python):
    with Program(any_python, "split.py", 60) as program:
        program.ready()
        for arguments in (["dump"], ["dump", "--json"], ["doctor"], ["record", "-d", "0.3", "-f", "collapsed", "-o", "-"]):
            reading, writing = os.pipe()
            os.close(reading)
            done = subprocess.run([harness.PYPROF, *arguments, "--pid", str(program.pid)], stdout=writing,
                                  stderr=subprocess.PIPE, text=True, timeout=harness.PATIENCE)
            os.close(writing)
            assert done.returncode == 0, done
            assert done.stderr == "" or arguments[0] == "record"
        with open("/dev/full", "w") as full:
            done = subprocess.run([harness.PYPROF, "dump", "--pid", str(program.pid)], stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == harness.EXIT_FAILURE and b"stdout" in done.stderr


def cpu_ticks(pid):
    fields = (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def state_of(pid):
    return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0]


@pytest.mark.parametrize("options", [[], ["--native"]], ids=["", "native"])
def test_stopped_itself_it_holds_no_thread(any_python, tmp_path, options):
    """Ctrl-Z, again and again, the last with many short stops under way: the target goes on, and so do we later."""
    chance = random.Random(40)
    out = tmp_path / "out.txt"
    with Program(any_python, "genpath.py", 120) as program:
        # In a process group of its own whose parent is outside of it: one that is orphaned can't be stopped so.
        process = start_recording(tmp_path, "--pid", program.pid, *options, rate=2000, preexec_fn=lambda: os.setpgid(0, 0))
        try:
            wait_for_samples(process, tmp_path)
            first = Collapsed(out.read_text()).total
            for _ in range(25):
                process.send_signal(signal.SIGTSTP)
                harness.wait_until(lambda: state_of(process.pid) == "T")
                assert not set(program.thread_states().values()) & set("tT") and program.status("TracerPid") == "0"
                before = cpu_ticks(program.pid)
                harness.wait_until(lambda: cpu_ticks(program.pid) > before)
                process.send_signal(signal.SIGCONT)
                time.sleep(chance.uniform(0, 0.01))
            wait_for_samples(process, tmp_path, lambda: Collapsed(out.read_text()).total > first)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=harness.PATIENCE)
            assert process.returncode == 0
        finally:
            process.kill()
            process.communicate()


def test_ctrl_z_under_a_shell(any_python, tmp_path):
    """With job control both are stopped and both go on."""
    pexpect = pytest.importorskip("pexpect")
    out = tmp_path / "out.txt"
    shell = pexpect.spawn("bash", ["--norc", "--noprofile", "-i"], timeout=harness.PATIENCE, encoding="utf-8", cwd="/",
                          env=dict(os.environ, PS1="$ ", TERM="dumb"), dimensions=(24, 500))
    try:
        shell.sendline(shlex.join(map(str, [harness.PYPROF, "record", "-f", "collapsed", "-o", out, "--", *any_python.command,
                                            any_python.program("split.py"), 120])))
        shell.expect("\nready")
        shell.sendcontrol("z")
        shell.expect("Stopped")
        shell.sendline("jobs -p")
        shell.expect(r"\n(\d+)\r")
        pyprof = int(shell.match[1])
        child = int((Path("/proc/%d/task/%d/children" % (pyprof, pyprof))).read_text().split()[0])
        harness.wait_until(lambda: state_of(pyprof) == state_of(child) == "T")
        shell.sendline("fg")
        harness.wait_until(lambda: state_of(pyprof) != "T" and state_of(child) != "T")
        os.kill(pyprof, signal.SIGUSR1)
        harness.wait_until(lambda: written(out))
        shell.sendcontrol("c")
        shell.expect("samples")
        shell.sendline("echo status $?")
        shell.expect("status %d" % (128 + signal.SIGINT))
    finally:
        shell.close(force=True)


@pytest.mark.parametrize("command", ["record", "dump"])
def test_killed_at_any_instant(any_python, tmp_path, command):
    """200 times: the target runs on, is traced by nobody, and nothing of pyprof stays behind."""
    options = ["-r", "max", "-f", "collapsed", "-o", "/dev/null"] if command == "record" else []
    chance = random.Random(20)
    with Program(any_python, "genpath.py", 120) as program:
        harness.wait_until(lambda: program.status("State") == "R")
        for number in range(200):
            # With native frames some thread is stopped most of the time.
            native = ["--native"] if command == "record" and number % 2 else []
            process = subprocess.Popen([harness.PYPROF, command, "--pid", str(program.pid), *options, *native],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0, 0.03 if command == "record" else 0.012))
            process.kill()
            process.wait()
            # The kernel lets a tracee go when its tracer has died, which wait() has just seen.
            harness.wait_until(lambda: not set(program.thread_states().values()) & set("tT"))
            assert program.status("TracerPid") == "0"
        assert program.process.poll() is None
        harness.wait_until(lambda: "R" in program.thread_states().values())
