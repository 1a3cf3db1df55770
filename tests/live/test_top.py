# SPDX-License-Identifier: Apache-2.0
"""pyprof top: the plain forms everywhere, and the screen in a real terminal (tmux)."""
import json
import os
import signal

import pytest

import harness
from harness import Program, pyprof
from tmux import screen, top


def test_top_without_a_terminal(python):
    """One object a line; shares agree with what the program says of itself, and none exceeds its base."""
    with Program(python, "split.py", 3) as program:
        result = pyprof("top", "--pid", program.ready().pid, "--json", "-r", 200, "--interval", "500ms")
        truth = program.report()
    assert result.code == 0, result.err
    lines = [json.loads(line) for line in result.out.decode().splitlines()]
    assert len(lines) >= 2
    for line in lines:
        assert all(row["total_samples"] <= line["interval_samples"] for row in line["rows"])
        assert sum(row["own_samples"] for row in line["rows"]) == line["interval_samples"]
        assert 0 <= line.get("gil_percent", 0) <= 100
        assert "gil_percent" in line or not python.has_gil
    times = {row["function"]: row["own_time_s"] for row in lines[-1]["rows"]}
    share = truth["slow"] / (truth["slow"] + truth["quick"])
    found = times["slow"] / (times["slow"] + times["quick"])
    # A loaded machine leaves few samples: at least as many as the last line counts.
    assert harness.share_is_near(found * lines[-1]["total_samples"], lines[-1]["total_samples"], share)


def test_top_batch(any_python):
    with Program(any_python, "split.py", 60) as program:
        result = pyprof("top", "--pid", program.ready().pid, "-n", 2, "--interval", "200ms")
        assert result.code == 0, result.err
        assert result.out.decode().count("samples of running threads") == 2
        assert program.status("State") in "RS"
    assert pyprof("top", "--pid", program.pid, "-n", 1).code == harness.EXIT_NO_PROCESS


def test_top_passes_the_status_on(any_python):
    result = pyprof("top", "--batch", "--interval", "100ms", "--", *any_python.command, "-c",
                    "import time, sys\ne = time.time() + 1\nwhile time.time() < e: pass\nprint('done'); sys.exit(7)")
    assert result.code == 7
    assert "done" in result.out.decode()


def test_top_on_a_screen(python, tmp_path):
    if python.name not in ("3.12", "3.15", "3.13t"):
        pytest.skip("the screen does not depend on the version: three are enough")
    with Program(python, "split.py", 60) as program, screen(tmp_path) as terminal:
        terminal.run(top(program.ready().pid))
        terminal.sees(r"^ +\d+\.\d +\d+\.\d .*slow ")
        terminal.keys("e")
        terminal.sees("[▾▸] <module>")  # closed where there is an [unproved] beside it
        terminal.keys("e", "%")
        terminal.sees(r"\d±\d")
        terminal.keys("i")
        terminal.sees("samples of all threads")
        terminal.keys("/", "qui", "Enter")
        terminal.keys("Enter")
        terminal.sees(r"^Callers")
        terminal.keys("x", "?")
        terminal.sees("pyprof top: keys")
        terminal.keys("x", "w", "out.txt", "Enter")
        terminal.sees(r"out.txt: \d+ samples as collapsed")
        assert harness.Collapsed((tmp_path / "out.txt").read_text()).containing("slow") > 0
        terminal.resize(40, 10)
        terminal.sees(r"^pyprof top \d+ +[\d.]+ s\b.{0,20}$")
        terminal.keys("q")
        terminal.is_put_back(0)
        assert program.process.poll() is None


def test_top_is_put_back_by_signals(any_python, tmp_path):
    with Program(any_python, "split.py", 60) as program, screen(tmp_path) as terminal:
        terminal.run(top(program.ready().pid))
        terminal.sees("slow")
        os.kill(terminal.pid_of_pyprof(program), signal.SIGTSTP)
        terminal.sees("Stopped")
        assert program.status("State") in "RS"  # nobody holds it meanwhile
        terminal.keys("fg", "Enter")
        terminal.sees(r"^pyprof top ")
        os.kill(terminal.pid_of_pyprof(program), signal.SIGTERM)
        terminal.sees(r"\n\$\s*\Z")
        terminal.keys("stty -g > again; echo same=$(cmp before again && echo yes)", "Enter")
        terminal.sees("same=yes")


@pytest.mark.parametrize("kind", ["dumb", "unknown"])
def test_top_on_other_terminals(any_python, tmp_path, kind):
    """A dumb one gets the plain table; one that the data base does not know gets plain ANSI."""
    with Program(any_python, "split.py", 60) as program, screen(tmp_path) as terminal:
        command = top(program.ready().pid)
        if kind == "dumb":
            terminal.run("TERM=dumb " + command + " -n 2")
            terminal.sees("samples of running threads")
        else:
            terminal.run("NO_COLOR=1 TERM=no-such-terminal " + command)
            terminal.sees(r"%own %total")
            terminal.keys("e")
            terminal.sees("[▾▸] <module>")
            terminal.keys("q")
        terminal.is_put_back(0)


def test_top_keeps_the_last_screen(any_python, tmp_path):
    """Of a program that was started by top: its output comes afterwards, its status is ours."""
    script = tmp_path / "script.py"
    script.write_text("import time, sys\nprint('from the program', flush=True)\ne = time.time() + 2\n"
                      "def spin():\n    while time.time() < e: pass\nspin()\nsys.exit(7)\n")
    with screen(tmp_path) as terminal:
        terminal.run("%s top --interval 200ms -- %s %s" % (harness.PYPROF, " ".join(any_python.command), script))
        terminal.sees(r"\[ended\]")
        assert "spin" in terminal.text() and "from the program" not in terminal.text()
        terminal.keys("q")
        terminal.sees("from the program")
        terminal.is_put_back(7)
