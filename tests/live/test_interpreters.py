# SPDX-License-Identifier: Apache-2.0
"""Several interpreters in one process: the chains of one thread are one stack, and the thread is sampled once."""
import pytest

from harness import Program, record, record_until

PAIRS = {"inner_" + letter: "outer_" + letter for letter in "abcd"}
PYTHON = {"<module>", "take_turns"} | set(PAIRS) | set(PAIRS.values())


def start(python, *arguments):
    program = Program(python, *arguments)
    with_none = program.report()["interpreters"] == 0
    if with_none:
        program.__exit__()
        pytest.skip("this interpreter has no module for sub-interpreters")
    return program


@pytest.mark.parametrize("native", [(), ("--native",)], ids=["python", "native"])
def test_interpreters_of_one_thread_are_one_stack(python, native, tmp_path, note):
    if python.version < (3, 10) and not native:
        # Nothing tells whose they are, so that they may not be wanted either: no stack holds two.
        with start(python, "inner_loops.py", 60) as program:
            profile = record(program.pid, tmp_path, 2, 1000, "-F", "-t", codes=(0, 6)).profile
        for stack, _ in profile.stacks:
            names = [frame.name for frame in stack]
            assert not ("take_turns" in names and any(name.startswith("inner_") for name in names)), names
        return
    with start(python, "inner_loops.py", 120) as program:
        recording = record_until(lambda profile: all(profile.containing(name) >= 20 for name in PAIRS), program.pid,
                                 tmp_path, 2, 1000, "-F", "-t", *native)
    profile, stats = recording.profile, recording.stats
    names = [(tuple(frame.name for frame in stack), count) for stack, count in profile.stacks]
    whole = alone = 0
    for stack, count in names:
        for inner in set(stack) & set(PAIRS):
            if "[unproved]" in stack:
                alone += count
                continue
            whole += count
            thread = "MainThread" if inner in ("inner_a", "inner_b") else "worker"
            below = [name for name in stack[:stack.index(inner)] if name in PYTHON]
            assert stack[0] == "[thread %s]" % thread
            # Its caller and no other; the code that was run is a module below it.
            assert [name for name in below if name.startswith("outer_")] == [PAIRS[inner]]
            assert below[-1] == "<module>" and below[-2] == PAIRS[inner] and below.count("take_turns") == 1
    note("%d of %d samples within the other interpreters lack a proved path" % (alone, whole + alone))
    assert whole > alone
    # Each thread once a tick.
    threads = profile.by_thread()
    assert set(threads) <= {"MainThread", "worker"}
    assert max(threads.values()) <= stats["ticks"]


def test_interpreters_that_sleep(python, tmp_path):
    with start(python, "subinterpreters.py") as program:
        recording = record(program.pid, tmp_path, 1, 100, "--idle", "-t")
    # On line 5 it tells that it is there, and goes to sleep.
    inside = [(stack, count) for stack, count in recording.profile.stacks
              if stack[-1].name == "in_subinterpreter" and stack[-1].line != 5]
    assert inside
    if python.version < (3, 10):
        return
    for stack, _ in inside:
        names = [frame.name for frame in stack]
        assert (stack[-1].line, stack[-2].line, stack[-3].line) == (6, 10, 13)
        assert names[-3] == "<module>" and names[-4] == "run"
        assert ("Thread._bootstrap" if python.version >= (3, 11) else "_bootstrap") in names
    # Nothing of the thread that made the interpreters, and runs none, hangs below the others.
    assert sum(count for _, count in inside) <= 2 * recording.stats["ticks"]
