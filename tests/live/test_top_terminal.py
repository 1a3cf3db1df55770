# SPDX-License-Identifier: Apache-2.0
"""pyprof top and the terminal: what it leaves behind however it ends, sizes, mice, colours, wide characters."""
import json
import os
import re
import signal

import pytest

import harness
from harness import Collapsed, Program, pyprof, wait_until
from tmux import columns_of, screen, top


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGSEGV])
def test_top_outlives_the_target(any_python, tmp_path, death):
    """Killed, or crashed: the last screen stays until q, and can still be looked at."""
    with Program(any_python, "split.py", 60) as program, screen(tmp_path) as terminal:
        terminal.run(top(program.ready().pid))
        terminal.sees(r"^ +\d+\.\d +\d+\.\d .*slow ")
        os.kill(program.pid, death)
        terminal.sees(r"\[ended\]")
        terminal.keys("v")
        terminal.sees("nothing is recorded any more")
        terminal.keys("e")
        terminal.sees("[▾▸] <module>")
        terminal.keys("w", "out.txt", "Enter")
        terminal.sees(r"out.txt: \d+ samples")
        terminal.keys("q")
        terminal.is_put_back(0)
        terminal.is_a_shell_again()


@pytest.mark.parametrize("kind", ["xterm-256color", "no-such-terminal"])
@pytest.mark.parametrize("death", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT])
def test_top_puts_the_terminal_back(any_python, tmp_path, death, kind):
    """Of SIGQUIT and SIGABRT it dies: no more than a handler can do is done then."""
    with Program(any_python, "split.py", 60) as program, screen(tmp_path) as terminal:
        terminal.run("TERM=%s %s" % (kind, top(program.ready().pid)))
        terminal.sees("slow")
        os.kill(terminal.pid_of_pyprof(program), death)
        terminal.is_put_back(0 if death in (signal.SIGTERM, signal.SIGHUP) else 128 + death)
        terminal.is_a_shell_again()
        assert program.process.poll() is None and program.status("TracerPid") == "0"


def test_top_ends_with_its_terminal(any_python, tmp_path):
    """The window is closed: nobody is left who could press q."""
    with Program(any_python, "split.py", 60) as program:
        with screen(tmp_path) as terminal:
            terminal.run(top(program.ready().pid))
            terminal.sees("slow")
            pid = terminal.pid_of_pyprof(program)

        def is_gone():
            return not os.path.exists("/proc/%d" % pid)

        wait_until(is_gone)
        assert program.process.poll() is None and program.status("TracerPid") == "0"


def test_top_stops_and_goes_on(any_python, tmp_path):
    """Ctrl-Z gives the terminal back, and the shell's fg the screen."""
    with Program(any_python, "split.py", 60) as program, screen(tmp_path) as terminal:
        terminal.run(top(program.ready().pid))
        for _ in range(2):
            terminal.sees("slow")
            terminal.keys("C-z")
            terminal.sees("Stopped")
            terminal.is_a_shell_again()
            assert program.status("State") in "RS"
            terminal.keys("clear; fg", "Enter")
        terminal.sees(r"^pyprof top ")
        terminal.keys("q")
        terminal.is_a_shell_again()


def test_top_goes_on_where_nobody_could_wake_it(any_python, tmp_path):
    """Ctrl-Z in a terminal that has no shell, as that of a container may be."""
    pexpect = pytest.importorskip("pexpect")
    with Program(any_python, "split.py", 60) as program:
        terminal = pexpect.spawn(str(harness.PYPROF), ["top", "--pid", str(program.ready().pid)], timeout=harness.PATIENCE, encoding="utf-8",
                                 env=dict(os.environ, TERM="xterm-256color"))
        try:
            terminal.expect("slow")
            terminal.send("\x1a")
            terminal.send("q")
            terminal.expect(pexpect.EOF)
            terminal.wait()
            assert terminal.exitstatus == 0
        finally:
            terminal.close(force=True)


@pytest.mark.parametrize("kind", ["xterm-256color", "no-such-terminal"])
def test_top_mouse(any_python, tmp_path, kind):
    """A click selects, a second one opens, the wheel moves: as reports of SGR mode, which both kinds ask for."""
    with Program(any_python, "split.py", 60) as program, screen(tmp_path) as terminal:
        terminal.run("TERM=%s %s" % (kind, top(program.ready().pid)))
        terminal.sees(r" <module> ")
        terminal.keys(" ")  # so that no row moves
        terminal.sees(r"\[paused\]")
        row = next(number for number, line in enumerate(terminal.lines(), 1) if " <module> " in line)
        click = "\x1b[<0;20;%dM\x1b[<0;20;%dm" % (row, row)
        terminal.keys("-l", click)
        terminal.keys("-l", click)
        terminal.sees(r"^<module> ")
        terminal.sees("^Callees")
        terminal.keys("x")
        terminal.sees(r"%own %total|%total")
        terminal.keys("-l", "\x1b[<64;20;8M" * 10)  # up to the first line
        terminal.keys("Enter")
        terminal.sees("^Callers")
        first = terminal.lines()[0].split()[0]
        terminal.keys("x")
        terminal.keys("-l", "\x1b[<65;20;8M" * 10)
        terminal.keys("Enter")

        def shows_another():
            return "Callers" in terminal.text() and terminal.lines()[0].split()[0] != first

        wait_until(shows_another)
        terminal.keys("q", "q")
        terminal.is_put_back(0)
        terminal.is_a_shell_again()


@pytest.mark.parametrize("kind", ["xterm-256color", "no-such-terminal"])
def test_top_colours(any_python, tmp_path, kind):
    """A hot function is red, and nothing has a colour where NO_COLOR is set."""
    coloured = re.compile("\x1b\\[[\\d;:]*\\b3[1-6]")
    with Program(any_python, "split.py", 60) as program, screen(tmp_path) as terminal:
        program.ready()
        for setting in ("", "NO_COLOR=1 "):
            terminal.run("clear; %sTERM=%s %s" % (setting, kind, top(program.pid)))
            terminal.sees(r"^ +[5-9]\d\.\d +\d+\.\d .*slow ")
            assert bool(coloured.search(terminal.tmux("capture-pane", "-e", "-p"))) == (setting == "")
            terminal.keys("q")
            terminal.is_put_back(0)
            terminal.is_a_shell_again()
            terminal.keys("rm after", "Enter")
            wait_until(lambda: not (tmp_path / "after").exists())


def test_top_wide_names(any_python, tmp_path):
    """Columns stay columns whatever functions are called."""
    script = tmp_path / "wide.py"
    script.write_text("def 計算する():\n    for _ in range(20000): pass\n\ndef q\u0303uux():\n    for _ in range(20000): pass\n\n"
                      "def plain():\n    for _ in range(20000): pass\n\nprint('ready', flush=True)\n"
                      "while True:\n    計算する(); q\u0303uux(); plain()\n", encoding="utf-8")
    with Program(any_python, script) as program, screen(tmp_path, columns=90) as terminal:
        terminal.run(top(program.ready().pid))
        for name in ("計算する", "q\u0303uux", "plain"):
            terminal.sees(r" %s +\S*wide.py:\d" % name)
        for columns in (90, 60, 40):
            terminal.resize(columns, 20)
            terminal.sees(r"^.{,%d}file:line" % columns)

            def is_aligned():
                lines = [line for line in terminal.lines() if re.search(r"[.…]\S*py:\d+$", line)]
                ends = {columns_of(line) - columns_of(line.split()[-1]) for line in lines}
                return len(lines) >= 3 and all(columns_of(line) <= columns for line in lines) and (columns < 90 or len(ends) == 1)

            wait_until(is_aligned)
        terminal.keys("q")
        terminal.is_put_back(0)


def test_top_sizes(any_python, tmp_path):
    """From 40x10 to 200x60 and back: the head, the base of the percentages, titles and lines, keys in the last row."""
    with Program(any_python, "split.py", 60) as program, screen(tmp_path, columns=40, rows=10) as terminal:
        terminal.run(top(program.ready().pid))
        for columns, rows in ((40, 10), (200, 60), (80, 24), (41, 13), (132, 43), (40, 10)):
            terminal.resize(columns, rows)

            def is_drawn():
                lines = terminal.lines()
                return (len(lines) == rows and lines[0].startswith("pyprof top ") and lines[-1].startswith("q leave  ?")
                        and all(columns_of(line) <= columns for line in lines)
                        and any("% of " in line for line in lines) and any("%own" in line and "function" in line for line in lines)
                        and any(re.search(r"\d+\.\d +\d+\.\d .*\bslow\b", line) for line in lines))

            wait_until(is_drawn)
        terminal.keys("q")
        terminal.is_put_back(0)


def test_top_native_and_tasks(python, tmp_path):
    """v and a change what is recorded while it runs; what was counted before stays."""
    if python.name not in ("3.12", "3.15"):
        pytest.skip("the keys do not depend on the version: two are enough")
    with Program(python, "callbacks.py") as program, screen(tmp_path, columns=150) as terminal:
        terminal.run(top(program.ready().pid))
        terminal.sees(r"callbacks.py:\d+")
        terminal.keys("v")
        terminal.sees(r"\[native\]")
        terminal.sees(r"native frames from now on, .*the \d+\.\d s before stay")
        terminal.sees(r"^ +\d+\.\d +[1-9]\d*\.\d .*\b\w+ +(\S*python\S*|\S+\.[ch]:\d+|\S+\.so\S*)$")
        terminal.keys("w", "native.txt", "Enter")
        terminal.sees(r"native.txt: \d+ samples")
        terminal.keys("v")
        terminal.sees("Python frames alone from now on")
        terminal.keys("w", "python.txt", "Enter")
        terminal.sees(r"python.txt: \d+ samples")
        terminal.keys("a")
        terminal.sees(r"\[tasks\]")
        terminal.keys("a")
        terminal.sees(r"\[all tasks\]")
        terminal.sees("samples of all threads and waiting tasks")
        terminal.keys("a")
        terminal.sees("samples of running threads in")
        terminal.keys("q")
        terminal.is_put_back(0)
        assert program.process.poll() is None and program.status("TracerPid") == "0"
    # Without native frames the time of C functions is their callers', of all that was counted.
    native, plain = (Collapsed((tmp_path / name).read_text()) for name in ("native.txt", "python.txt"))
    assert native.where(lambda stack: any(not frame.is_marker and not frame.file.endswith(".py") for frame in stack)) > 0
    assert plain.total >= native.total
    assert all(frame.is_marker or frame.file.endswith(".py") for stack, _ in plain.stacks for frame in stack)


def test_top_json_of_native_and_tasks(python):
    """--native has rows that are no Python, --async=all rows of tasks; nothing exceeds its base."""
    if python.name not in ("3.8", "3.12", "3.15"):
        pytest.skip("three are enough: record's own tests take all")
    for name, option in (("callbacks.py", "--native"), ("async/waiting.py", "--async=all")):
        with Program(python, name) as program:
            if name.startswith("async"):
                program.report()
            program.ready()

            def rows_of_interest():
                result = pyprof("top", "--pid", program.pid, "--json", "--errors", option, "-n", 2, "--interval", "500ms", "-r", 200)
                assert result.code == 0, result.err
                line = json.loads(result.out.decode().splitlines()[-1])
                assert line["native"] == (option == "--native") and line["async"] == ("off" if line["native"] else "all")
                for row in line["rows"]:
                    assert row["own_samples"] <= row["total_samples"] <= line["interval_samples"]
                    assert row["total_time_s"] <= line["total_time_s"] * 1.000001
                    assert row["total_time_error_s"] > 0 and row["total_percent_error"] > 0
                assert sum(row["own_samples"] for row in line["rows"]) == line["interval_samples"]
                if line["native"]:
                    return [row for row in line["rows"] if ".py" not in row["where"] and row["where"]]
                return [row for row in line["rows"] if row["function"].startswith("[task ")]

            wait_until(rows_of_interest)


def test_top_refuses_what_does_not_go_together(any_python):
    for options in (["--native", "--async=running"], ["--gil", "--async=all"], ["--async=some"]):
        result = pyprof("top", "--pid", os.getpid(), *options)
        assert result.code == harness.EXIT_USAGE and "hint:" in result.err
