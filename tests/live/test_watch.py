# SPDX-License-Identifier: Apache-2.0
"""`pyprof watch`: scripts, sessions at a prompt, and a server under load."""
import json
import math
import os
import signal
import subprocess
import threading
import urllib.request

import pexpect
import pytest

import harness
from harness import Collapsed, Program, pyprof

PROMPT = r"\(pyprof\) "


def script(*lines):
    return "".join(line + "\n" for line in lines).encode()


def objects(result):
    return [json.loads(line) for line in result.out.decode().splitlines()]


def name_of(results, name):
    return next(entry for entry in results["names"] if entry["name"] == name)


def test_script(python, tmp_path):
    """Every command from a pipe; a name added late has its results from the beginning."""
    out = tmp_path / "out.collapsed"
    with Program(python, "split.py", 60) as program:
        program.ready()
        result = pyprof("watch", "--pid", program.pid, "-f", "slow", "--json", "-r", "200", stdin=script(
            "# a comment", "wait 1s", "results", "add quick 'sl*' slwo", "results", "list", "status", "save '%s'" % out, "stop",
            "start", "wait 0.5s", "remove slwo", "results", "reset", "results", "exit", "no such command"))
        assert result.code == 0, result.err
        program.status("State")
    events = objects(result)
    assert [event["event"] for event in events] == ["results", "results", "list", "status", "results", "results"]
    first, second, names, status, third, last = events
    assert names["names"] == ["slow", "quick", "sl*", "slwo"]
    assert status["sampling"] and status["pid"] == program.pid
    slow, quick = name_of(second, "slow"), name_of(second, "quick")
    assert slow["own_samples"] >= name_of(first, "slow")["own_samples"] > 0
    assert quick["own_samples"] > 0 and 0 < quick["own_error_s"] < quick["own_s"]
    assert slow["own_samples"] + quick["own_samples"] <= second["samples"]
    assert name_of(second, "sl*")["total_samples"] == slow["total_samples"]
    assert not name_of(second, "slwo")["seen"] and "own_s" not in name_of(second, "slwo")
    assert any("slow" in near for near in name_of(second, "slwo")["near_misses"])
    assert third["samples"] >= second["samples"] and len(third["processes"]) == 2
    assert [entry["name"] for entry in third["names"]] == ["slow", "quick", "sl*"]
    assert last["samples"] == 0 and not name_of(last, "slow")["seen"]
    assert Collapsed(out.read_text()).with_leaf("slow") >= slow["own_samples"]


def test_exit_codes(any_python, tmp_path):
    with Program(any_python, "split.py", 60) as program:
        program.ready()
        gone = subprocess.Popen(["true"])
        gone.wait()
        for lines, code in ((["wait 1s"], 0), (["foo", "list"], 2), (["start --pid %d" % gone.pid, "list"], 3), (["add ':'"], 2),
                            (["wait 1s", "save /no/such/place.svg"], 1), (["save x.unknown"], 2),
                            (["stop", "wait 1s"], 2), (["add 'open"], 2)):
            result = pyprof("watch", "--pid", program.pid, "-f", "slow", stdin=script(*lines))
            assert result.code == code, (lines, result)
            assert code == 0 or "line" in result.err
        assert pyprof("watch", stdin=script("save /no/such/place.svg")).code == 6  # nothing was sampled
        result = pyprof("watch", "--pid", gone.pid, "--json", stdin=script("list"))
        assert result.code == 3 and [event["event"] for event in objects(result)] == ["error", "list"]
        config = tmp_path / "watch.toml"
        config.write_text("functions = ['slow', 'quick']\nrate = 200\n")
        result = pyprof("watch", "--pid", program.pid, "--config", config, "-d", "1s", "--json")
        assert result.code == 0 and [entry["name"] for entry in objects(result)[-1]["names"]] == ["slow", "quick"]
        config.write_text("functoins = []\n")
        result = pyprof("watch", "--pid", program.pid, "--config", config, "-d", "0.3s")
        assert result.code == 2 and "functoins" in result.err
        for options in (["-r", "max"], ["--idle", "--gil"], ["--commands", "/no/such/file"]):
            assert pyprof("watch", "--pid", program.pid, *options).code in (1, 2)


def test_launched(any_python, tmp_path):
    """Its status is pyprof's, its end prints the results, and its samples are still there to be saved."""
    out, commands = tmp_path / "out.svg", tmp_path / "commands"
    commands.write_text("wait\nsave '%s'\nresults\n" % out)
    result = pyprof("watch", "-f", "<module>", "--json", "--commands", commands, "--", *any_python.command, any_python.program("child.py"),
                    0.7, "exit", 7, stdin=b"its own\n")
    assert result.code == 7, result.err
    lines = result.out.decode().splitlines()
    assert lines[0] == "ITS OWN"
    events = [json.loads(line) for line in lines[1:]]
    assert [event["event"] for event in events] == ["ended", "results"]
    assert events[1]["samples"] == events[0]["samples"] > 0
    assert out.stat().st_size > 0


class Session:
    """A prompt on a terminal."""

    def __init__(self, *arguments, state="/dev/null", term="xterm"):
        # The history of whoever runs the tests is theirs.
        environment = dict(os.environ, TERM=term, LANG="C.UTF-8", XDG_STATE_HOME=str(state))
        self.child = pexpect.spawn(str(harness.PYPROF), ["watch", *map(str, arguments)], env=environment, timeout=harness.PATIENCE,
                                   dimensions=(50, 200), encoding="utf-8")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.close(force=True)

    def ask(self, line, expected):
        self.child.expect(PROMPT)
        self.child.sendline(line)
        self.child.expect(expected)

    def leave(self):
        self.child.expect(PROMPT)
        self.child.sendline("exit")
        self.child.expect(pexpect.EOF)
        self.child.close()
        return self.child.exitstatus


def test_prompt(any_python, tmp_path):
    with Program(any_python, "split.py", 60) as first, Program(any_python, "split.py", 60) as second:
        first.ready(), second.ready()
        with Session() as session:
            session.ask("results", "nothing was sampled yet")
            session.ask("start", "no process given")
            session.ask("start --pid 4194303", "no process 4194303")
            session.ask("start --pid %d -f slow" % first.pid, "sampling process %d" % first.pid)
            session.ask("wait 1s", "\n")
            session.ask("results", r"slow \(.*split.py\) .*±")
            session.ask("add quikc", "not seen yet; seen: quick")
            session.child.expect(PROMPT)
            session.child.send("rem\tqu\t\n")  # completes both words
            session.ask("list", "slow\r\n")
            session.child.expect(PROMPT)
            session.child.send("add quic\t\n")  # a function seen so far
            session.ask("results", r"quick \(.*split.py\)")
            session.child.expect(PROMPT)
            session.child.send("no such thing\x03")  # given up
            session.child.expect(PROMPT)
            session.child.send("\x1b[A\n")  # the last line that was entered
            session.child.expect(r"100 % are \d+ samples")
            session.ask("start --pid %d" % second.pid, "sampling process %d" % second.pid)
            session.ask("status", "process %d" % second.pid)
            second.process.kill()
            second.process.wait()
            session.child.expect("process %d has ended" % second.pid)
            session.child.expect("2 recordings")
            session.child.sendline("save %s" % (tmp_path / "out.svg"))
            session.child.expect("samples are in")
            session.ask("start --pid %d" % first.pid, "sampling process %d" % first.pid)
            session.ask("status", "process %d" % first.pid)
            assert session.leave() == 0
        assert (tmp_path / "out.svg").stat().st_size > 0
        assert first.process.poll() is None and first.status("TracerPid") == "0"


def test_prompt_history(any_python, tmp_path):
    """Lines of one session can be called back in the next, and searched."""
    with Session(state=tmp_path) as session:
        session.ask("add 'Page.*' unusual", "")
        session.ask("list", "unusual")
        assert session.leave() == 0
    assert (tmp_path / "pyprof" / "watch_history").read_text() == "add 'Page.*' unusual\nlist\nexit\n"
    with Session(state=tmp_path) as session:
        session.child.expect(PROMPT)
        session.child.send("\x1b[A\x1b[A\x1b[A\n")  # three lines back
        session.ask("list", "Page[.][*]\r\nunusual")
        session.child.expect(PROMPT)
        session.child.send("\x12unus\n")  # Ctrl-R
        session.child.expect("unusual is there already")
        assert session.leave() == 0
    (tmp_path / "pyprof" / "watch_history").write_bytes(b"\x1b[2J\xff\nlist\n" + b"x" * 100000)
    with Session("-f", "f", state=tmp_path) as session:
        session.child.expect(PROMPT)
        session.child.send("\x1b[A\n")
        session.child.expect("list\r\nf\r\n")
        assert session.leave() == 0


def test_prompt_survives(any_python, tmp_path):
    """What can't be attached, mistakes, and a target that dies while it is waited for: a message, and the prompt."""
    shell = subprocess.Popen(["sleep", "600"])
    gone = subprocess.Popen(["true"])
    gone.wait()
    try:
        with Program(any_python, "split.py", 60) as program, Session("--pid", program.ready().pid, "-f", "slow") as session:
            session.child.expect("sampling process")
            session.ask("start --pid %d" % gone.pid, "process")
            session.ask("start --pid %d" % shell.pid, "Python")
            session.ask("start --pid x", "is no process id")
            session.ask("start --pid %d" % program.pid, "is being sampled")
            session.ask("statsu", "did you mean status")
            session.ask("add 'open", "pyprof:")
            session.ask("save /no/such/place.svg", "can't|No such")
            session.ask("status", "process %d" % program.pid)  # sampled all the while
            session.child.expect(PROMPT)
            session.child.sendline("wait")
            os.kill(program.pid, signal.SIGKILL)
            session.child.expect("process %d has ended; its samples stay" % program.pid)
            session.child.expect(r"slow \(.*split.py\)|not seen yet")
            session.ask("add quick", "")
            session.ask("results", r"100 % are \d+ samples")
            session.ask("start", "no process|no longer|not exist|has ended|ended")
            session.ask("save %s" % (tmp_path / "out.txt"), "samples are in")
            assert session.leave() == 0
        assert Collapsed((tmp_path / "out.txt").read_text()).total > 0
    finally:
        shell.kill()
        shell.wait()


def test_prompt_on_a_dumb_terminal(any_python):
    with Program(any_python, "split.py", 60) as program, Session("--pid", program.ready().pid, term="dumb") as session:
        session.ask("list", "no names")
        session.child.expect(PROMPT)
        session.child.send("stat\t\n")
        session.child.expect("process %d" % program.pid)
        session.child.sendeof()  # Ctrl-D leaves
        session.child.expect(pexpect.EOF)
        session.child.close()
        assert session.child.exitstatus == 0


def test_prompt_of_a_launched_program(any_python):
    """Ctrl-C is the prompt's; at the end its status is taken over."""
    code = "import time, sys\nend = time.time() + 3\nwhile time.time() < end: sum(range(100))\nsys.exit(5)"
    with Session("-f", "<module>", "--", *any_python.command, "-c", code) as session:
        session.child.expect("sampling process")
        session.child.expect(PROMPT)
        session.child.send("\x03")
        session.ask("results", "samples of running threads")
        session.child.expect("has ended")
        session.child.sendline("exit")
        session.child.expect(pexpect.EOF)
        session.child.close()
        assert session.child.exitstatus == 5


def test_server_under_load(any_python):
    """Two functions of a threaded server, while clients load it, against its own thread clocks."""
    with Program(any_python, "server.py") as program:
        port = program.ready().line()
        stop = threading.Event()

        def get(path):
            with urllib.request.urlopen("http://127.0.0.1:%s%s" % (port, path), timeout=harness.PATIENCE) as answer:
                return answer.read()

        def load():
            while not stop.is_set():
                get("/")

        clients = [threading.Thread(target=load, daemon=True) for _ in range(3)]
        for client in clients:
            client.start()
        try:
            before = json.loads(get("/truth"))
            result = pyprof("watch", "--pid", program.pid, "-f", "render", "query", "do_GET", "-r", "500", "-d", "3s", "--json")
            after = json.loads(get("/truth"))
        finally:
            stop.set()
            for client in clients:
                client.join(timeout=harness.PATIENCE)
    assert result.code == 0, result.err
    results = objects(result)[-1]
    render, query, request = (name_of(results, name) for name in ("render", "query", "do_GET"))
    spent = {name: after[name] - before[name] for name in after}
    total = render["own_samples"] + query["own_samples"]
    assert total > 100
    truth = spent["render"] / (spent["render"] + spent["query"])
    # Of a request's work; ticks of one request follow each other, so fewer are independent than were counted.
    assert abs(render["own_samples"] / total - truth) < 0.05 + harness.DEVIATIONS * math.sqrt(truth * (1 - truth) / (total / 4))
    assert request["total_samples"] + results["unproved"] >= total * 0.9
    for entry in (render, query, request):
        assert 0 < entry["total_error_s"] < entry["total_s"]
