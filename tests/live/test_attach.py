# SPDX-License-Identifier: Apache-2.0
"""Getting in: interpreters that hide, processes that are none, exec, rights, and targets that lie."""
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import struct
import subprocess
from pathlib import Path

import pytest

import harness
from harness import Collapsed, Program, pyprof

SYSTEM_PYTHON = "/usr/bin/python3"
root_only = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


def children_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return [int(word) for word in file.read().split()]


def only_child(pid):
    harness.wait_until(lambda: children_of(pid))
    return children_of(pid)[0]


# --- not Python, but near it --------------------------------------------------------------------


@pytest.mark.parametrize("parent", ["shell", "launcher", "another name"])
def test_the_python_child_is_named(any_python, tmp_path, parent):
    """sh -c, and a parent that runs its command as `uv run` does; whatever it is called, however long the way to it is."""
    script = tmp_path / ("far" * 60) / ("away" * 30) / "split.py"
    script.parent.mkdir(parents=True)
    shutil.copy(any_python.program("split.py"), script)
    program = [*any_python.command, script, "60"]
    if parent == "another name":
        program[0] = shutil.copy(os.path.realpath(SYSTEM_PYTHON), tmp_path / "foo")
    prefix = ["timeout", "60", *program] if parent == "launcher" else ["sh", "-c", shlex.join(map(str, program)) + "; true"]
    process = subprocess.Popen(prefix, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout.readline() == b"ready\n"
        child = only_child(process.pid)
        for command in ("record", "dump", "top", "doctor"):
            result = pyprof(command, "--pid", process.pid)
            assert result.code == harness.EXIT_NOT_PYTHON
            told = result.err + result.out.decode()
            assert "not a Python process" in told and "--pid %d" % child in told and "split.py 60" in told
        assert harness.dump(child)["threads"]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def test_a_short_program_is_reported_as_such(any_python, tmp_path):
    result = pyprof("record", "-o", tmp_path / "out.svg", "--", "sh", "-c", "exit 4")
    assert result.code == 4
    assert "ended after" in result.err and "too soon" in result.err
    result = pyprof("record", "-o", tmp_path / "out.svg", "--", "sleep", "0.2")
    assert result.code == 0
    assert "no Python" in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["record", "-o", "out.svg"], ["top", "--batch"]], ids=["record", "top"])
def test_a_wrapper_that_ends_soon_names_its_python(any_python, tmp_path, command):
    """What was seen below it is told with the remedy when it ends, however it went on; its status is kept."""
    program = shlex.join([*any_python.command, "-c", "import time; time.sleep(0.5)"])
    result = pyprof(*command, "--", "sh", "-c", "cd / && %s; exit 3" % program)
    assert result.code == 3
    assert "sh ended and was no Python" in result.err
    assert re.search(r"hint: process \d+ below it was one \(.*time\.sleep\(0\.5\)\): start that one behind --", result.err), result.err


def test_start_up_is_sampled(python, tmp_path):
    """A program that only imports: its imports are what is seen."""
    if python.root != "/":
        pytest.skip("the module is written where the interpreter can't see it")
    (tmp_path / "slow_module.py").write_text(
        "import time\n\ndef at_import(end):\n    while time.process_time() < end:\n        sum(range(100))\n\n"
        "at_import(time.process_time() + 0.5)\n")
    out, stats = tmp_path / "out.txt", tmp_path / "stats.json"
    result = pyprof("record", "-F", "-r", 500, "-f", "collapsed", "-o", out, "--stats", stats, "--", *python.command, "-c",
                    "import sys; sys.path.insert(0, %r); import slow_module" % str(tmp_path))
    assert result.code == 0, result.err
    profile = Collapsed(out.read_text())
    assert profile.containing("at_import") > 0.5 * profile.total
    assert profile.containing("_find_and_load") >= 0.9 * profile.containing("at_import")


# --- Pythons that are not read -------------------------------------------------------------------


def old_pythons():
    """Real ones that are older than what pyprof reads, where pyenv has them."""
    return sorted(Path.home().glob(".pyenv/versions/2.7.*/bin/python2.7")) + sorted(
        Path.home().glob(".pyenv/versions/3.[67].*/bin/python3.[67]"))


def with_another_version(python, place, symbol, distance, version):
    """A copy of an interpreter that says it is of another version: its start and its environment."""
    command = python.command[0] if python else SYSTEM_PYTHON
    linked = subprocess.run(["ldd", command], capture_output=True, text=True).stdout
    library = re.search(r"libpython3\S* => (\S+)", linked)
    original = library[1] if library else os.path.realpath(command)
    symbols = subprocess.run(["nm", "-D", original], capture_output=True, text=True).stdout
    found = re.search(r"^([0-9a-f]+) \w %s(@.*)?$" % symbol, symbols, re.M)
    if found is None:
        pytest.skip("the interpreter does not tell its version where it can be changed")
    content, address = bytearray(Path(original).read_bytes()), int(found[1], 16) + distance
    offset, size, count = struct.unpack_from("<Q14x2H", content, 32)  # the ELF file's program headers
    for number in range(count):
        kind, _, start, virtual, _, length = struct.unpack_from("<2L4Q", content, offset + number * size)
        if kind == 1 and virtual <= address < virtual + length:
            struct.pack_into("<Q", content, start + address - virtual, version)
    copy = place / os.path.basename(original)
    copy.write_bytes(content)
    copy.chmod(0o755)
    home = os.path.dirname(os.path.dirname(os.path.realpath(command)))
    environment = dict(os.environ, LD_LIBRARY_PATH=str(place), PYTHONHOME=home)
    return (command if library else copy), environment


def assert_refused(python, environment, told, tmp_path):
    script = "import sys, time; sys.stdout.write('ready\\n'); sys.stdout.flush(); time.sleep(60)"
    process = subprocess.Popen([str(python), "-c", script], stdout=subprocess.PIPE, env=environment)
    try:
        assert process.stdout.readline() == b"ready\n"
        for command in (["record", "-o", tmp_path / "out.svg"], ["dump"], ["doctor"], ["top", "--batch"]):
            result = pyprof(*command, "--pid", process.pid)
            assert result.code == harness.EXIT_NOT_PYTHON, result.err
            assert re.search(told, result.err + result.out.decode()) and "3.8 to 3.15" in result.err + result.out.decode()
    finally:
        process.kill()
        process.communicate()
    # Nothing to wait for: the program runs to its end, and its status is kept.
    done = subprocess.run([harness.PYPROF, "record", "-o", tmp_path / "out.svg", "--", python, "-c",
                           "import time; time.sleep(1); raise SystemExit(9)"], capture_output=True, text=True, env=environment)
    assert done.returncode == 9 and re.search(told, done.stderr) and "still waiting" not in done.stderr
    assert not (tmp_path / "out.svg").exists()


def test_older_pythons_are_named(any_python, tmp_path):
    if not old_pythons():
        pytest.skip("pyenv has no older version")
    for python in old_pythons():
        assert_refused(python, None, r"Python " + python.name[len("python"):].replace(".", r"\."), tmp_path)


def test_an_older_version_is_named(any_python, tmp_path):
    assert_refused(*with_another_version(None, tmp_path, "Py_Version", 0, 0x030700f0), r"Python 3\.7", tmp_path)


def test_a_later_version_is_named(python, tmp_path):
    if python.root != "/" or python.version < (3, 13):
        pytest.skip("needs debug offsets in a file that can be copied")
    assert_refused(*with_another_version(python, tmp_path, "_PyRuntime", 8, 0x031000f0), r"Python 3\.16\.0", tmp_path)


# --- exec ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["launched", "attached"])
def test_exec_is_followed(python, tmp_path, how):
    again = [*python.command, python.program("executes.py"), "1"]
    if python.root != "/":
        again = again[2:]  # without "chroot ROOT": the process is inside by then
    out, stats = tmp_path / "out.txt", tmp_path / "stats.json"
    options = ["record", "-F", "-r", "200", "-f", "collapsed", "-o", out, "--stats", stats]
    if how == "launched":
        result = pyprof(*options, "--", *python.command, python.program("executes.py"), 1, *again)
        assert result.code == 9, result.err
    else:
        with Program(python, "executes.py", 1, *again) as program:
            result = pyprof(*options, "--pid", program.ready().pid)
            assert result.code == 0, result.err
    assert "executed another program" in result.err
    profile = Collapsed(out.read_text())
    assert profile.containing("burn_first") > 0 and profile.containing("burn_second") > 0
    # Never one below the other: they were never in one process image.
    assert profile.where(lambda stack: {"burn_first", "burn_second"} <= {frame.name for frame in stack}) == 0
    # The time of both.
    assert profile.total <= 1.3 * 200 * json.loads(stats.read_text())["elapsed_s"] + 20


def test_exec_of_something_else_ends_the_recording(any_python, tmp_path):
    out = tmp_path / "out.txt"
    with Program(any_python, "executes.py", 0.7, "/bin/sleep", "60") as program:
        result = pyprof("record", "-F", "-r", 200, "-f", "collapsed", "-o", out, "--pid", program.ready().pid)
        assert result.code == 0
        assert "something else" in result.err and "not a Python process" in result.err
        assert program.process.poll() is None
    assert Collapsed(out.read_text()).containing("burn_first") > 0


def test_exec_of_another_version(any_python, tmp_path):
    other = next((p for p in harness.interpreters() if p.root == "/" and p.version[:2] != any_python.version[:2]), None)
    if other is None:
        pytest.skip("only one version here")
    out = tmp_path / "out.txt"
    result = pyprof("record", "-F", "-r", 200, "-f", "collapsed", "-o", out, "--", *any_python.command,
                    any_python.program("executes.py"), 0.5, *other.command, other.program("executes.py"), 0.5)
    assert result.code == 9
    profile = Collapsed(out.read_text())
    assert profile.containing("burn_first") > 0 and profile.containing("burn_second") > 0


# --- interpreters that hide ---------------------------------------------------------------------


def test_without_symbols_and_sections(python, tmp_path):
    """No symbol, no section: a scan finds it. The symbol gets another name of the same GNU hash."""
    if python.root != "/" or not shutil.which("strip"):
        pytest.skip("needs strip and the interpreter's own files")
    command = python.command[0]
    linked = subprocess.run(["ldd", command], capture_output=True, text=True).stdout
    library = re.search(r"libpython3\S* => (\S+)", linked)
    original = library[1] if library else os.path.realpath(command)
    hidden = tmp_path / os.path.basename(original)
    subprocess.run(["strip", "-o", hidden, original], check=True)
    content = hidden.read_bytes()
    assert b"\0_PyRuntime\0" in content
    # h = 33 * h + c: 33 * ord("m") + ord("e") == 33 * ord("n") + ord("D").
    hidden.write_bytes(content.replace(b"\0_PyRuntime\0", b"\0_PyRuntinD\0").replace(b"\0.PyRuntime\0", b"\0.PyRuntinX\0"))
    environment = dict(os.environ, LD_LIBRARY_PATH=str(tmp_path), PYTHONDONTWRITEBYTECODE="1")
    start = [command] if library else [str(hidden)]
    if not library:
        environment["PYTHONHOME"] = os.path.dirname(os.path.dirname(original))
    process = subprocess.Popen([*start, python.program("split.py"), "60"], env=environment, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        found = json.loads(pyprof("doctor", "--pid", process.pid, "--json").out)["process"]
        assert found["found_how"] in ("scan of its data", "cookie in its data")
        assert found["python"].startswith("%d.%d" % python.version[:2])
        assert harness.dump(process.pid)["threads"][0]["frames"][-1]["name"] == "<module>"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    out = tmp_path / "out.txt"
    done = subprocess.run([harness.PYPROF, "record", "-F", "-r", "200", "-f", "collapsed", "-o", out, "--", *start,
                           python.program("split.py"), "1"], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert Collapsed(out.read_text()).containing("slow") > 0


def test_a_static_c_program_that_embeds_it(python, tmp_path):
    """Stripped, without a dynamic section: up to 3.9 a scan alone finds it. Each time, from its first moment on."""
    version = "%d.%d" % python.version[:2]
    home = os.path.dirname(os.path.dirname(os.path.realpath(python.command[0])))
    archives = list(Path(home).glob("lib/python%s/config-*/libpython%s.a" % (version, version))) if python.root == "/" else []
    if not archives or python.version >= (3, 11) or not shutil.which("cc"):
        pytest.skip("needs an archive of the interpreter, 3.8 to 3.10, and cc")
    (tmp_path / "main.c").write_text(EMBEDDING)
    subprocess.run(["cc", "-static", "-s", "-w", "-o", tmp_path / "foo", tmp_path / "main.c", archives[0], "-lpthread", "-ldl", "-lutil", "-lm"],
                   check=True, stderr=subprocess.DEVNULL)
    script = "import os\n\ndef busy():\n    os.write(1, b'ready\\n')\n    while %s: sum(range(100))\n\nbusy()\n"
    environment = dict(os.environ, PYTHONHOME=home)
    for _ in range(3):
        process = subprocess.Popen([tmp_path / "foo", script % "True"], stdout=subprocess.PIPE, env=environment)
        try:
            assert process.stdout.readline() == b"ready\n"
            for _ in range(3):
                (thread,) = harness.dump(process.pid)["threads"]
                assert [frame["name"] for frame in thread["frames"]][-2:] == ["busy", "<module>"]
            assert harness.record(process.pid, tmp_path, 0.3, 200, "-F").profile.containing("busy") > 0
        finally:
            process.kill()
            process.communicate()
    result = pyprof("record", "-F", "-r", 200, "-f", "collapsed", "-o", tmp_path / "out.txt", "--", tmp_path / "foo",
                    script % "os.times()[0] < 0.5", prefix=["env", "PYTHONHOME=" + home])
    assert result.code == 0, result.err
    assert Collapsed((tmp_path / "out.txt").read_text()).containing("busy") > 0


EMBEDDING = """
void Py_Initialize(void);
int PyRun_SimpleStringFlags(const char *, void *);
int main(int argc, char **argv) { (void)argc; Py_Initialize(); return PyRun_SimpleStringFlags(argv[1], 0); }
"""


def test_a_c_program_that_embeds_it(python, tmp_path):
    """Its own main and a shared library, which then are deleted and replaced while it runs."""
    linked = subprocess.run(["ldd", python.command[0]], capture_output=True, text=True).stdout if python.root == "/" else ""
    library = re.search(r"libpython3\S* => (\S+)", linked)
    if library is None or not shutil.which("cc"):
        pytest.skip("needs a shared library of the interpreter and cc")
    own = tmp_path / os.path.basename(library[1])
    shutil.copy(library[1], own)
    program = tmp_path / "foo"
    (tmp_path / "main.c").write_text(EMBEDDING)
    subprocess.run(["cc", "-o", program, tmp_path / "main.c", own, "-Wl,-rpath," + str(tmp_path)], check=True)
    script = "import os\n\ndef busy():\n    os.write(1, b'ready\\n')\n    while True: sum(range(100))\n\nbusy()\n"
    home = os.path.dirname(os.path.dirname(os.path.realpath(python.command[0])))
    process = subprocess.Popen([program, script], stdout=subprocess.PIPE, env=dict(os.environ, PYTHONHOME=home))
    try:
        assert process.stdout.readline() == b"ready\n"

        def check():
            found = json.loads(pyprof("doctor", "--pid", process.pid, "--json").out)["process"]
            assert found["python"].startswith("%d.%d" % python.version[:2])
            assert "libpython" in found["found_in"] and found["found_how"] == "symbol _PyRuntime"
            names = [frame["name"] for frame in harness.dump(process.pid)["threads"][0]["frames"]]
            assert names[-2:] == ["busy", "<module>"]
            profile = harness.record(process.pid, tmp_path, 0.3, 200, "-F").profile
            assert profile.containing("busy") > 0

        check()
        own.unlink()
        program.unlink()
        check()
        shutil.copy("/bin/true", own)
        check()
    finally:
        process.kill()
        process.communicate()


@root_only
def test_another_pid_namespace(python):
    """Thread ids are told as the namespace of the reader knows them, and states are right."""
    prefix = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*prefix, "true"], capture_output=True).returncode != 0:
        pytest.skip("unshare is not permitted")
    states = {}

    def sleeps():  # a thread may be on its way there, and want the GIL for that
        states.update((thread["name"], thread["state"]) for thread in harness.dump(child)["threads"])
        return states["wait_sleep"] == states["wait_select"] == "idle"

    with Program(python, "threads_state.py", 60, prefix=prefix) as program:
        program.ready()
        child = only_child(program.pid)
        harness.wait_until(sleeps)
        tids = {int(entry) for entry in os.listdir("/proc/%d/task" % child)}
        assert {thread["native_id"] for thread in harness.dump(child)["threads"]} == tids


@root_only
def test_a_proc_of_another_pid_namespace(any_python, tmp_path):
    """Its numbers mean other processes: nothing is read by them, and the remedy is named. A launched program runs on."""
    inside = ["unshare", "--pid", "--fork"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
        pytest.skip("unshare is not permitted")
    with Program(any_python, "split.py", 60) as program:
        program.ready()
        for command in ("record", "dump", "top", "doctor"):
            result = pyprof(command, "--pid", program.pid, prefix=inside)
            assert result.code == harness.EXIT_FAILURE
            told = result.err + result.out.decode()
            assert "/proc is of another pid namespace" in told and "--mount-proc" in told
        assert pyprof("dump", "--pid", 1, prefix=[*inside, "--mount-proc"]).code == harness.EXIT_NOT_PYTHON
    result = pyprof("record", "-o", tmp_path / "out.svg", "--", *any_python.command, "-c", "raise SystemExit(9)", prefix=inside)
    assert result.code == 9 and "/proc is of another pid namespace" in result.err


@root_only
def test_executable_gone_in_another_mount_namespace(any_python, tmp_path):
    """The interpreter's files are mounted for the target alone, and gone by the time that we look."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        pytest.skip("unshare is not permitted")
    place = tmp_path / "mounted"
    place.mkdir()
    binary = os.path.realpath(SYSTEM_PYTHON)
    script = "mount -t tmpfs none %s && cp %s %s/foo && exec %s/foo -c 'print(\"ready\", flush=True); input()'" % (
        place, binary, place, place)
    process = subprocess.Popen(["unshare", "--mount", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        assert not (place / "foo").exists()
        assert harness.dump(process.pid)["threads"][0]["frames"]
    finally:
        process.communicate(b"\n", timeout=harness.PATIENCE)


# --- stopped --------------------------------------------------------------------------------------


def test_a_stopped_process(python, tmp_path):
    """dump, record and top say that a signal has stopped it and what wakes it; nothing runs in it, and it stays stopped."""
    with Program(python, "split.py", 60) as program:
        os.kill(program.ready().pid, signal.SIGSTOP)
        harness.wait_until(lambda: set(program.thread_states().values()) == {"T"})
        remedy = "kill -CONT %d" % program.pid
        for options in ([], ["--nonblocking"]):
            document = harness.dump(program.pid, *options)
            (thread,) = document["threads"]
            assert document["stopped_by"] == "signal"
            assert thread["state"] == "idle" and thread["frames"]
            text = pyprof("dump", "--pid", program.pid, *options).out.decode()
            assert "stopped by a signal" in text and remedy in text
        for command in (["record", "-d", "0.2", "-o", tmp_path / "out.svg"], ["top", "--batch", "-n", "1"],
                        ["watch", "-f", "slow", "-d", "0.2"]):
            result = pyprof(*command, "--pid", program.pid)
            assert result.code == harness.EXIT_NO_SAMPLES
            assert "process %d is stopped by a signal" % program.pid in result.err and remedy in result.err
        harness.wait_until(lambda: set(program.thread_states().values()) == {"T"})
        os.kill(program.pid, signal.SIGCONT)
        harness.wait_until(lambda: harness.dump(program.pid)["threads"][0]["state"] == "running")
        assert harness.dump(program.pid)["stopped_by"] is None


# --- the main thread ends -------------------------------------------------------------------------


def test_the_main_thread_has_ended(python, tmp_path):
    """The process goes on with its other threads: all commands find it, and a recording is not ended by it."""
    with Program(python, "leader_ends.py") as program:
        recording = harness.start_recording(tmp_path, "-F", "--pid", program.ready().pid)
        harness.wait_for_samples(recording, tmp_path)
        program.process.stdin.write(b"\n")
        program.process.stdin.flush()
        harness.wait_until(lambda: program.thread_states()[program.pid] == "Z")
        seen = Collapsed((tmp_path / "out.txt").read_text()).total
        harness.wait_for_samples(recording, tmp_path, lambda: Collapsed((tmp_path / "out.txt").read_text()).total > 2 * seen)
        recording.send_signal(signal.SIGINT)
        _, err = recording.communicate(timeout=harness.PATIENCE)
        assert recording.returncode == 0, err
        assert "another program" not in err

        threads = {thread["name"]: thread for thread in harness.dump(program.pid)["threads"]}
        assert set(threads) == {"spinner", "sleeper"}
        assert threads["sleeper"]["state"] == "idle"
        assert any(harness.plain(frame["name"]) == "spin" for frame in threads["spinner"]["frames"])
        more = harness.record(program.pid, tmp_path, 1, 200, "-F", "--idle", "--threads")
        assert set(more.profile.by_thread()) == {"spinner", "sleeper"} and more.profile.containing("spin") > 0
        assert "spin" in pyprof("top", "--pid", program.pid, "--batch", "-n", 1).out.decode()
        assert pyprof("doctor", "--pid", program.pid).code == 0
        program.process.kill()
        program.process.wait()
    assert pyprof("dump", "--pid", program.pid).code == harness.EXIT_NO_PROCESS


# --- rights -------------------------------------------------------------------------------------


def test_doctor(python):
    with Program(python, "split.py", 60) as program:
        result = pyprof("doctor", "--pid", program.ready().pid, "--json")
        assert result.code == 0, result.out
        found = json.loads(result.out)
        text = pyprof("doctor", "--pid", program.pid)
    process = found["process"]
    assert found["problems"] == [] and found["schema"] == 1
    assert process["pid"] == program.pid and process["python"].startswith(python.text.rstrip("+"))
    for check in ("stacks", "names", "lines", "thread_ids"):
        assert 0 < process[check]["good"] <= process[check]["all"]
    assert process["layout"] == ("pyprof's table" if python.version < (3, 13) else "its own debug offsets")
    assert text.code == 0 and b"Nothing is in the way" in text.out and text.err == ""


@root_only
def test_refusals_are_told_alike(any_python):
    """As another user: record, dump, top and doctor tell the same reason and remedy, and end with the same code."""
    strangers = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with Program(any_python, "split.py", 60) as program:
        program.ready()
        results = [pyprof(command, "--pid", program.pid, prefix=strangers) for command in ("record", "dump", "top", "doctor")]
    assert [result.code for result in results] == [4, 4, 4, 4]
    said = [line for line in results[0].err.splitlines() if line]
    assert re.search(r"process %d belongs to root; you are nobody" % program.pid, said[0])
    assert results[1].err.splitlines() == results[2].err.splitlines() == said
    assert said[0].partition(": ")[2] in results[3].out.decode() and said[1].partition(": ")[2] in results[3].out.decode()


@root_only
def test_doctor_without_a_process_as_another_user():
    """What it says is of processes of that user: that root's are closed to it is no problem."""
    strangers = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    result = pyprof("doctor", "--json", prefix=strangers)
    found = json.loads(result.out)
    assert found["user"] == "nobody" and found["process"] is None and not found["has_ptrace_capability"]
    assert not any("belongs to" in problem["message"] for problem in found["problems"])
    if found["ptrace_scope"] in (None, 0):
        assert result.code == 0 and found["problems"] == []
        assert b"in the way of processes of this user" in pyprof("doctor", prefix=strangers).out
    else:
        assert result.code == 4 and "ptrace_scope" in found["problems"][0]["message"]


@root_only
def test_a_protected_process(tmp_path):
    """One that may not be dumped is closed even to its own user."""
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    script = "import ctypes, sys; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print('ready', flush=True); sys.stdin.read()"
    process = subprocess.Popen([*nobody, SYSTEM_PYTHON, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")
    try:
        assert process.stdout.readline() == b"ready\n"
        results = [pyprof(command, "--pid", process.pid, prefix=nobody) for command in ("record", "dump", "top", "doctor")]
        assert [result.code for result in results] == [4, 4, 4, 4]
        for result in results:
            assert "process %d is protected" % process.pid in result.err + result.out.decode()
        assert harness.dump(process.pid)["threads"]  # to root it is open
    finally:
        process.communicate(timeout=harness.PATIENCE)


def test_a_process_that_another_one_traces(any_python, tmp_path):
    """Only a stop is in its way: dump names the tracer and the remedy, record does without stops."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    with Program(any_python, "split.py", 60, prefix=["strace", "-o", "/dev/null", "-e", "trace=none"]) as program:
        program.ready()
        child = only_child(program.pid)
        refused = pyprof("dump", "--pid", child)
        assert refused.code == 4
        assert "process %d is already traced by strace" % child in refused.err and "--nonblocking" in refused.err
        assert harness.dump(child, "--nonblocking")["threads"]
        recording = harness.record(child, tmp_path, 0.5, 200, "-F")
        assert recording.profile.total > 0 and recording.stats["stopped_s"] < 0.01
        assert program.status("State") != "Z"


@root_only
def test_under_sudo(any_python, tmp_path):
    """The program runs as the user who called sudo, and what is written belongs to that user."""
    if not os.path.exists(SYSTEM_PYTHON):
        pytest.skip("no interpreter that another user may run")
    script = "import os, time; print(os.getuid(), os.getgid(), os.getgroups(), os.environ['USER'], os.environ['HOME']); time.sleep(0.2)"
    environment = dict(os.environ, SUDO_UID="65534", SUDO_GID="65534", SUDO_USER="nobody", HOME="/root")
    outputs = [tmp_path / "out.svg", tmp_path / "stats.json"]
    kept = tmp_path / "kept.svg"
    kept.write_text("old")
    done = subprocess.run([harness.PYPROF, "record", "-o", outputs[0], "--stats", outputs[1], "--", SYSTEM_PYTHON, "-c", script],
                          env=environment, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["65534", "65534", "[65534]", "nobody", pwd.getpwuid(65534).pw_dir]
    unknown = subprocess.run([harness.PYPROF, "record", "-q", "-o", tmp_path / "other.svg", "--", SYSTEM_PYTHON, "-c", script],
                             env=dict(environment, SUDO_UID="64999", SUDO_GID="64999", SUDO_USER="stranger"), cwd="/",
                             capture_output=True, text=True, check=True)
    assert unknown.stdout.split() == ["64999", "64999", "[64999]", "stranger", "/"]
    assert [path.stat().st_uid for path in outputs] == [65534, 65534]
    subprocess.run([harness.PYPROF, "record", "-q", "-o", kept, "--", SYSTEM_PYTHON, "-c", script], env=environment,
                   cwd="/", stdout=subprocess.DEVNULL, check=True)
    assert kept.stat().st_uid == 0 and kept.read_text() != "old"
    with Program(any_python, "split.py", 60) as program:
        snapshot = tmp_path / "dump.snap"
        subprocess.run([harness.PYPROF, "dump", "--pid", str(program.ready().pid), "--snapshot", snapshot],
                       env=environment, stdout=subprocess.DEVNULL, check=True)
    assert snapshot.stat().st_uid == 65534


def test_python_children_are_counted(any_python, tmp_path):
    script = ("import subprocess, sys, time\n"
              "c = [subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE) for _ in range(2)]\n"
              "c.append(subprocess.Popen(['sleep', '60']))\n"
              "c.append(subprocess.Popen([sys.argv[1], '-c', 'input()'], stdin=subprocess.PIPE))\n"
              "try:\n"
              "    while True: sum(range(100))\n"
              "finally:\n"
              "    for p in c: p.kill()\n")
    stats = tmp_path / "stats.json"
    foo = shutil.copy(os.path.realpath(SYSTEM_PYTHON), tmp_path / "foo")
    process = harness.start_recording(tmp_path, "--", *any_python.command, "-c", script, foo, start_new_session=True)
    try:
        harness.wait_for_samples(process, tmp_path, lambda: json.loads(stats.read_text())["python_children"] == 3)
    finally:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
        _, err = process.communicate(timeout=harness.PATIENCE)
    assert json.loads(stats.read_text())["python_children"] == 3
    assert "3 Python children not profiled" in err


# --- targets that lie ---------------------------------------------------------------------------

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_no_control_bytes_reach_a_terminal(python, tmp_path):
    odd = "\x1b]0;owned\x07\x9b2J"
    with Program(python, "odd_names.py", prefix=[]) as program:
        program.report()
        for options in ([], ["--json"], ["--full-filenames"]):
            out = pyprof("dump", "--pid", program.pid, *options).out.decode("utf-8")
            assert not CONTROL.search(out)
            assert "escape" in out
        record = ["record", "-d", "0.3", "--idle", "--threads", "-o", "-", "--pid", program.pid]
        for command in (["top", "--pid", program.pid, "--idle", "-n", "1"], ["top", "--pid", program.pid, "--idle", "-n", "1", "--json"],
                        [*record, "-f", "speedscope"], [*record, "-f", "collapsed"]):
            out = pyprof(*command).out.decode("utf-8")
            assert not CONTROL.search(out), command
            assert "escape" in out
    # Command lines and file names of what is no Python at all.
    place = tmp_path / "odd\x1b[31mname"
    shutil.copy("/bin/sleep", place)
    with subprocess.Popen([str(place), "60"]) as other:
        for command in ("dump", "record", "doctor"):
            result = pyprof(command, "--pid", other.pid)
            assert result.code == harness.EXIT_NOT_PYTHON
            assert not CONTROL.search(result.err + result.out.decode())
        other.kill()
    for arguments in (["record", "--", odd], ["record", "-o", "/no/" + odd, "--pid", str(os.getpid())],
                      ["record", "--" + odd], ["dump", "--pid", odd], [odd]):
        result = pyprof(*arguments)
        assert result.code != 0 and not CONTROL.search(result.err)


def test_a_real_terminal_keeps_its_state(any_python, tmp_path, monkeypatch):
    """The same in tmux: neither title nor screen are what the target's names ask for."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    # The name of a socket holds 107 bytes: a temporary directory of any length does not count when it is ours.
    monkeypatch.chdir(tmp_path)
    tmux = ["tmux", "-f", "/dev/null", "-S", "socket"]
    done = tmp_path / "done"
    with Program(any_python, "hostile.py", "negative_length") as program:
        program.ready()
        shell = "echo kept; %s dump --pid %d; touch %s; exec sleep 60" % (harness.PYPROF, program.pid, done)
        subprocess.run([*tmux, "new-session", "-d", "-x", "150", "-y", "50", shell], check=True)
        try:
            harness.wait_until(done.exists)
            screen = lambda: subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True).stdout  # noqa: E731
            harness.wait_until(lambda: "Thread" in screen())
            assert screen().startswith("kept\n") and "\\x1b]0;owned" in screen()
            title = subprocess.run([*tmux, "display-message", "-p", "#{pane_title}"], capture_output=True, text=True)
            assert "owned" not in title.stdout
        finally:
            subprocess.run([*tmux, "kill-server"])


LIES = ["length_of_name", "negative_length", "wrong_type", "table_of_lines", "name_in_the_void", "cyclic_frames",
        "cyclic_threads"]


@pytest.mark.parametrize("lie", LIES)
def test_targets_that_lie(python, tmp_path, lie):
    """Within 200 MB of address space and a bounded time, with an answer: neither a crash nor a loop."""
    limit = ["sh", "-c", "ulimit -v 200000; exec \"$@\"", "sh"]
    with Program(python, "hostile.py", lie) as program:
        program.ready()
        for command in (["dump"], ["dump", "--json"], ["dump", "--nonblocking"],
                        ["record", "-d", "0.3", "-r", "200", "--idle", "-f", "collapsed", "-o", tmp_path / "out.txt"]):
            result = pyprof(*command, "--pid", program.pid, prefix=limit)
            assert result.code in (0, harness.EXIT_NO_SAMPLES), result.err
        assert program.process.poll() is None
        if lie == "cyclic_frames":
            (thread,) = harness.dump(program.pid)["threads"]
            assert [frame["name"] for frame in thread["frames"]] == ["block", "[unproved]"]
        if lie == "cyclic_threads":
            assert harness.dump(program.pid)["broken_lists"] == 1
