# SPDX-License-Identifier: Apache-2.0
"""dump against what the program says of its own stacks."""
import dataclasses
import os
import signal
import subprocess
import time

import pytest

import harness
from harness import Program, dump, pyprof

STATES = {"running", "idle", "gil-wait", "gc", "unknown"}


def python_frames(thread):
    return [frame for frame in thread["frames"] if frame["kind"] == "python"]


def by_native_id(document):
    threads = {thread["native_id"]: thread for thread in document["threads"]}
    assert len(threads) == len(document["threads"]), "a thread stands there twice"
    return threads


def same_file(found, truth):
    """dump may shorten a path, but not change it."""
    return found == truth or truth.endswith("/" + found)


def assert_same_stack(python, found, truth):
    """Names, qualified names from 3.11 on, files and lines, from the leaf to the root."""
    wanted = [
        (qualified if python.has_qualified_names else name, line) for name, qualified, _, line in truth
    ]
    assert [(frame["name"], frame["line"]) for frame in found] == wanted
    for frame, (_, _, file, _) in zip(found, truth):
        assert same_file(frame["file"], file)


def test_dump_equals_own_traceback(python):
    with Program(python, "oracle.py") as program:
        truth = program.report_and_rest()
        document = dump(program.pid)
        threads = by_native_id(document)
        assert document["pid"] == program.pid == truth["pid"]
        assert document["python"].split()[0] == truth["python"]
        assert set(threads) == {thread["native_id"] for thread in truth["threads"]}
        for expected in truth["threads"]:
            found = threads[expected["native_id"]]
            assert found["name"] == expected["name"]
            assert [frame for frame in found["frames"] if frame["kind"] != "python"] == []
            assert_same_stack(python, found["frames"], expected["frames"])
            assert found["state"] == "idle"
            assert found["holds_gil"] in ((False,) if python.has_gil else (None,))
        program.finish()


def test_dump_nonblocking_equals_own_traceback(python):
    with Program(python, "oracle.py") as program:
        truth = program.report_and_rest()
        threads = by_native_id(dump(program.pid, "--nonblocking"))
        for expected in truth["threads"]:
            assert_same_stack(python, python_frames(threads[expected["native_id"]]), expected["frames"])
        program.finish()


def test_dump_schema(python):
    with Program(python, "threads_state.py", 60) as program:
        program.ready()
        document = dump(program.pid)
    assert set(document) >= {"schema", "pid", "python", "threads"}
    assert document["schema"] == 1
    assert tuple(int(part) for part in document["python"].split()[0].split(".")[:2]) == python.version[:2]
    for thread in document["threads"]:
        assert set(thread) >= {"native_id", "name", "state", "holds_gil", "syscall", "frames"}
        assert thread["state"] in STATES
        assert isinstance(thread["native_id"], int)
        assert isinstance(thread["name"], str)
        assert thread["holds_gil"] in ((True, False) if python.has_gil else (None,))
        for frame in thread["frames"]:
            assert set(frame) >= {"kind", "name", "file", "line"}
            assert frame["kind"] != "python" or isinstance(frame["line"], int)


def test_dump_states(python):
    with Program(python, "threads_state.py", 60) as program:
        threads = settle(program.ready())
    # A thread that just gives the GIL to another may be seen in any state but gc and unknown.
    for name in ("run_python", "run_nogil_hash", "run_nogil_zlib"):
        assert threads[name]["state"] in ("running", "gil-wait", "idle")
    assert threads["run_python"]["state"] != "idle"
    assert sum(thread["holds_gil"] is True for thread in threads.values()) <= 1


def test_dump_calls_again(python):
    """A wait with a timeout goes on as restart_syscall after a stop; its name is that of the call that was made."""
    wanted = {"wait_pipe": {"read"}, "wait_child": {"wait4"}, "wait_lock": {"futex"}, "wait_queue": {"futex"}, "wait_socket": {"poll"},
              "wait_sleep": {"clock_nanosleep", "select", "pselect6"}}

    def has_named_all():  # a thread may be on its way back into its call
        calls = {thread["name"]: thread["syscall"] for thread in dump(program.pid)["threads"]}
        return all(calls[name] in names for name, names in wanted.items())

    with Program(python, "threads_state.py", 60) as program:
        settle(program.ready())
        harness.wait_until(has_named_all)


def settle(program):
    """Waits until the seven wait_* threads and main rest in their calls; a dump's threads by name.

    On a busy machine a thread may still be on its way there, and want the GIL for that.
    """
    threads = {}

    def all_wait():
        threads.clear()
        threads.update((thread["name"], thread) for thread in dump(program.pid)["threads"])
        waiting = [t for name, t in threads.items() if name.startswith("wait_") or name == "MainThread"]
        return len(waiting) == 8 and all(t["state"] == "idle" and not t["holds_gil"] for t in waiting)

    harness.wait_until(all_wait)
    return threads


def test_dump_of_a_collector(python):
    """The collector's thread has the state gc, and a marker above the function that called it."""
    collecting = []

    def is_collecting():
        collecting[:] = [thread for thread in dump(program.pid)["threads"] if thread["state"] == "gc"]
        return collecting

    with Program(python, "collects.py") as program:
        program.ready()
        harness.wait_until(is_collecting)
    (thread,) = collecting
    assert [frame["name"] for frame in thread["frames"]] == ["[gc]", "collect", "<module>"]
    assert thread["frames"][0]["kind"] == "marker" and thread["syscall"] is None


def test_dump_gil_waiters(python):
    with Program(python, "gilwait.py", 60, 3) as program:
        program.ready()
        states = []
        for _ in range(5):
            busy = [thread for thread in dump(program.pid)["threads"] if thread["name"].startswith("busy_")]
            assert len(busy) == 3
            states += [thread["state"] for thread in busy]
            assert sum(thread["holds_gil"] is True for thread in busy) <= 1
    assert set(states) <= {"running", "gil-wait"}
    if python.has_gil:
        # Three threads want one lock: in five dumps at least five are seen waiting.
        assert states.count("gil-wait") >= 5
    else:
        assert "gil-wait" not in states


def test_dump_odd_names(python):
    with Program(python, "odd_names.py") as program:
        truth = program.report_and_rest()
        document = dump(program.pid)
        (thread,) = document["threads"]
        (expected,) = truth["threads"]
        assert thread["name"] == expected["name"]
        found = python_frames(thread)
        assert len(found) == len(expected["frames"])
        for frame, (name, qualified, file, line) in zip(found, expected["frames"]):
            wanted = qualified if python.has_qualified_names else name
            if is_text(wanted + file):
                assert frame["name"] == wanted
                assert frame["file"] == file or file.endswith("/" + frame["file"])
            assert frame["line"] == line
        text = pyprof("dump", "--pid", program.pid)
        assert text.code == 0
        assert "größe" in text.out.decode("utf-8")
        assert b"\x1b" not in text.out and b"\x07" not in text.out
        program.finish()


def is_text(string):
    try:
        string.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def test_dump_thread_names(python):
    with Program(python, "thread_names.py") as program:
        truth = {int(native_id): name for native_id, name in program.report_and_rest().items()}
        threads = by_native_id(dump(program.pid))
        assert set(threads) == set(truth)
        for native_id, name in truth.items():
            assert threads[native_id]["name"] == ("only-kernel" if name is None else name)
        program.finish()


def test_dump_ten_thousand_frames(python):
    with Program(python, "deep.py", 10000) as program:
        program.ready()
        (thread,) = [thread for thread in dump(program.pid)["threads"] if thread["name"] == "deep"]
        names = [frame["name"] for frame in thread["frames"]]
        assert names.count("down") == 10000
        assert names[:2] == ["leaf", "down"]
        # run, _bootstrap_inner and _bootstrap of threading; some versions have a frame more.
        assert 3 <= len(names) - 10001 <= 5
        program.finish()


def test_dump_subinterpreters(python):
    with Program(python, "subinterpreters.py") as program:
        count = program.report_and_rest()["interpreters"]
        if count == 0:
            pytest.skip("this interpreter has no module for sub-interpreters")
        document = dump(program.pid)
        stacks = [
            [(frame["name"], frame["line"]) for frame in python_frames(thread)] for thread in document["threads"]
        ]
        inside = [stack for stack in stacks if ("in_subinterpreter", 6) in stack]
        assert len(inside) == count
        for stack in inside:
            assert stack[:3] == [("in_subinterpreter", 6), ("caller", 10), ("<module>", 13)]
            # The thread that runs it from the main interpreter, as one stack.
            # Up to 3.10 the method of Thread is called so, too.
            assert [name for name, _ in stack].count("run") == (1 if python.version >= (3, 11) else 2)
            assert "_bootstrap" in stack[-1][0]
        known = [thread["native_id"] for thread in document["threads"] if thread["native_id"] != 0]
        assert len(known) == len(set(known)) == 1 + count
        # The main interpreter is not lost over the others.
        assert any(stack and stack[-1][0] == "<module>" and stack[-1][1] != 13 for stack in stacks)


def test_dump_text(python):
    with Program(python, "oracle.py") as program:
        truth = program.report_and_rest()
        result = pyprof("dump", "--pid", program.pid)
        assert result.code == 0
        text = result.out.decode("utf-8")
        for thread in truth["threads"]:
            leaf, caller = thread["frames"][0], thread["frames"][1]
            assert thread["name"] in text
            assert str(thread["native_id"]) in text
            position = text.index(thread["name"])
            for name, qualified, file, line in (leaf, caller):
                label = "%s:%d)" % (os.path.basename(file), line)
                position = text.index(label, position)
        program.finish()


def test_dump_leaves_nothing_stopped(python):
    with Program(python, "gilwait.py", 60, 3) as program:
        program.ready()
        for number in range(10):
            process = subprocess.Popen(
                [harness.PYPROF, "dump", "--pid", str(program.pid)],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            if number % 2:
                # Even killed in the middle of its work: the kernel lets go of what a tracer held.
                time.sleep(0.002 * number)
                process.send_signal(signal.SIGKILL)
            process.wait(timeout=harness.PATIENCE)
        harness.wait_until(lambda: program.status("TracerPid") == "0")
        assert not set(program.thread_states().values()) & set("tT")
        with Program(python, "oracle.py") as other:
            other.report()
            dump(other.pid)
            other.finish()


# As a container does it: a root of its own in a mount namespace of its own, so that the paths in
# /proc/PID/maps mean nothing outside.
ENTER = (
    'mount --bind "$0" "$0" && cd "$0" && pivot_root . mnt && cd / && mount -t proc proc /proc'
    ' && umount -l /mnt && exec "$@"'
)


def test_dump_in_another_mount_namespace(python):
    if python.root == "/":
        pytest.skip("needs a root directory of its own")
    if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("mount namespaces are not allowed here")
    prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, python.root]
    assert python.command[:2] == ("chroot", python.root)
    inside = dataclasses.replace(python, command=python.command[2:])
    with Program(inside, "oracle.py", prefix=prefix) as program:
        truth = program.report_and_rest()
        threads = by_native_id(dump(program.pid))
        for expected in truth["threads"]:
            assert_same_stack(python, python_frames(threads[expected["native_id"]]), expected["frames"])
        program.finish()
