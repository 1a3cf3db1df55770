# SPDX-License-Identifier: Apache-2.0
"""record --async against programs of tasks whose stacks are known: tests/programs/async/expect.py says how.

Two comparisons are made of each stack. Its shape is what the program's author wrote down: tasks, and the program's own
functions, in order. Of tasks that wait the program itself tells all frames (account.py), those of asyncio and other
libraries included, and all that stands between two tasks must be just those. docs/testing.md names the scenarios.
"""
import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

import harness
from harness import Program, plain, record, record_until

LOOP_FRAMES = {"_run_once", "_run", "select", "run_forever"}
OWN_FILES = {"waiting.py", "anyio_groups.py", "anyio_threads.py", "trio_nurseries.py", "greenlets.py", "greenlets_busy.py", "switching.py", "workers.py", "busy.py", "phases.py", "loops.py", "many.py", "family.py", "tree.py", "pathtasks.py"}
# Found by likelihood: seen where it can be, and nothing else may be seen in its place.
MAY_LACK = {"s10 +[s10_child] s10_child"}
LONE = {"s10_child"}
# How often each expected stack is to be seen before it is said that nothing else was.
ENOUGH = 50


def start(python, name, *arguments):
    return Program(python, "async/" + name, *arguments)


def shape(stack):
    """A stack of the profile as expect.py writes it, from below main on; None: it shows no task."""
    words, seen_task = [], False
    for frame in stack:
        if frame.is_marker:
            task = re.fullmatch(r"\[task (.*)\]", frame.name)
            if task:
                seen_task = True
                words.append("[%s]" % plain(task[1]))
            elif frame.name.startswith("[spawned"):
                words.append("+")
            elif frame.name == "[await cycle]":
                seen_task = True
                words.append("=")
            else:
                words.append(frame.name)
            continue
        name = plain(frame.name)
        assert not (seen_task and name in LOOP_FRAMES), "the loop's frames between those of tasks: %r" % (stack,)
        if seen_task and frame.file.rsplit("/", 1)[-1] in OWN_FILES:
            words.append(name)
    if not seen_task:
        return None
    text = " ".join(words).replace("+ [", "+[").replace("= [", "= [await cycle] [")
    # A scenario is a task that has its name, below main where that waits for it: "[main] main [s1] s1 ..."
    return re.sub(r"^(\[main\] main )?\[(\w+)\] (?=\2\b)", "", text)


def counts_of(recording):
    """Samples by shape; what a loop's thread shows without a task is counted apart."""
    counts = seen_in(recording.profile)
    others = counts.pop(None, 0)
    return counts, others


def mixes(stack):
    """Whether frames of two scenarios stand in one stack: their names begin with the scenario's number."""
    scenarios = {re.match(r"[a-z]+\d+", plain(frame.name)) for frame in stack if not frame.is_marker}
    return len({match[0] for match in scenarios if match}) > 1


# --- whole stacks, against what the program tells of itself -------------------------------------


def parts_of(stack):
    """[title, frames, marker behind them] of what stands above the first task (title None) and of each task."""
    parts = [[None, [], None]]
    for frame in stack:
        task = frame.is_marker and re.fullmatch(r"\[task (.*)\]", frame.name)
        if task:
            parts.append([plain(task[1]), [], None])
        elif frame.is_marker:
            parts[-1][2] = frame.name
        else:
            parts[-1][1].append(frame)
    return parts


def is_told(frames, told):
    """Whether those are the frames that the program named, in order: the whole name, the file, and the line where one is shown."""
    return len(frames) == len(told) and all(
        frame.name == name and ("/" + file).endswith("/" + frame.file) and frame.line in (0, line)
        for frame, (name, file, line) in zip(frames, told))


def chains_by_title(account):
    chains = {}
    for task in account["tasks"]:
        chains.setdefault(task["title"], []).append(task["frames"])
    return chains


def strange_parts(parts, account):
    """Those of a stack of waiting tasks that are not what the program tells of itself."""
    chains = chains_by_title(account)
    chains[None] = [account["stem"]]
    strange = []
    for title, frames, marker in parts:
        # Of a parent that does something else its outermost frames are shown.
        end = len(frames) if marker is not None and marker.startswith("[spawned") else None
        if not frames or not any(is_told(frames, told[:end]) for told in chains.get(title, [])):
            strange.append((title, frames))
    return strange


def seen_in(profile, shape_of=shape):
    """Samples by shape."""
    counts = {}
    for stack, count in profile.stacks:
        text = shape_of(stack)
        counts[text] = counts.get(text, 0) + count
    return counts


def seen_enough(profile, texts, shape_of=shape):
    counts = seen_in(profile, shape_of)
    return all(counts.get(text, 0) >= ENOUGH for text in texts)


def expected_of(told):
    return {stack for stacks in told.values() for stack in stacks}


def check_waiting_tasks(program, tmp_path):
    """All stacks of waiting.py; returns the recording and how often each was seen."""
    expected = expected_of(program.report())
    account = program.report()
    program.ready()

    def enough(profile):
        seen = seen_in(profile)
        return seen_enough(profile, expected - MAY_LACK) and sum(seen.get(text, 0) for text in LONE | MAY_LACK) >= ENOUGH

    recording = record_until(enough, program.pid, tmp_path, 1, 200, "--async=all")
    counts, others = counts_of(recording)
    assert {text for text in counts if text not in expected and text not in LONE} == set()
    for stack, _ in recording.profile.stacks:
        assert not mixes(stack), stack
        assert strange_parts(parts_of(stack), account) == [], stack
    assert others <= 2  # of its last moments before all is at rest
    assert expected - set(counts) <= MAY_LACK
    return recording, counts


def test_waiting_tasks(python, tmp_path):
    with start(python, "waiting.py", "--account") as program:
        recording, counts = check_waiting_tasks(program, tmp_path)
    # All that was there in every tick is there in nearly every one, in all its numbers; nothing is there more often.
    ticks = recording.stats["ticks"]
    for text, least in (("s1 [s1_a] s1_a [s1_b] s1_b", 1), ("s2 [s2_c] s2_c s2_d", 3), ("s22 [s22_consumer] s22_consumer", 100)):
        assert 0.5 * least * ticks <= counts[text] <= least * ticks
    # Who waits with others for one task has it in turn.
    thirds = [counts["s12 [s12_%s] s12_%s [s12_shared] s12_shared" % (name, name)] for name in ("first", "second", "third")]
    assert max(thirds) - min(thirds) <= 2 + 0.05 * sum(thirds)


def test_waiting_tasks_by_shares(python, tmp_path):
    with start(python, "waiting.py", "--account") as program:
        expected = expected_of(program.report())
        account = program.report()
        recording = record(program.ready().pid, tmp_path, 1, 100, "--async=all", "--async-weight=share")
    counts, _ = counts_of(recording)
    assert {text for text in counts if text not in expected and text not in LONE} == set()
    assert not [stack for stack, _ in recording.profile.stacks if strange_parts(parts_of(stack), account)]
    assert recording.profile.total <= recording.stats["ticks"]


def test_waiting_tasks_without_c(any_python, tmp_path):
    with start(any_python, "without_c.py", "waiting.py", "--account") as program:
        check_waiting_tasks(program, tmp_path)


def test_speedscope_carries_the_markers_of_tasks(any_python, tmp_path):
    out = tmp_path / "out.speedscope.json"
    with start(any_python, "waiting.py") as program:
        expected = expected_of(program.report())
        result = harness.pyprof("record", "--pid", program.ready().pid, "-d", 0.5, "-r", 100, "--async=all", "-o", out)
        assert result.code == 0, result.err
    document = json.loads(out.read_text())
    frames = [harness.Frame(frame["name"], frame.get("file"), frame.get("line", 0)) for frame in document["shared"]["frames"]]
    seen = {shape([frames[index] for index in sample]) for profile in document["profiles"] for sample in profile["samples"]}
    assert seen - {None, ""} - LONE <= expected
    assert {"s1 [s1_a] s1_a [s1_b] s1_b", "s5 +[s5_child] s5_child"} & expected <= seen


def test_running_tasks(python, tmp_path, note):
    check_running_tasks(python, tmp_path, note, "running")


def test_running_tasks_among_waiting_ones(any_python, tmp_path, note):
    check_running_tasks(any_python, tmp_path, note, "all")


def check_running_tasks(python, tmp_path, note, mode, *arguments, **more):
    with Program(python, "async/busy.py", "--account", *arguments, **more) as program:
        told = program.report()
        account = program.report()
        expected = {without_eager(stack) for stack in expected_of(told)}
        if mode == "all":
            expected |= READY

        def has_all(profile):
            """A sample that is linked to no task would contradict nothing."""
            return seen_enough(profile, expected, lambda stack: without_eager(shape(stack) or ""))

        recording = record_until(has_all, program.ready().pid, tmp_path, 2, 400, "--async=" + mode)
    counts, others = counts_of(recording)
    note("%d of %d samples below no task" % (others, recording.profile.total))
    by_work = {stacks[0].rsplit(" ", 1)[1]: stacks[0] for stacks in told.values()}
    for text in counts:
        wanted = by_work.get(text.split(" ")[-1])
        assert wanted is None or text in (wanted, without_eager(wanted))
    for stack, _ in recording.profile.stacks:
        assert not mixes(stack), stack
        assert strange_in_running(stack, account) == [], stack
    # Nothing is claimed of how many have a proved path: on a busy machine one long stop can spend the time for proofs.
    assert recording.profile.total >= 50


# What has let the others go on and waits for its turn.
READY = {"b14 [b14_child] b14_child [ready]", "b17 [b17_child] b17_child __await__ b17_old [ready]"}


def without_eager(text):
    """Eager tasks are often over before they could be looked at: then their frames stand there without a boundary."""
    return text.replace(" [b21_eager]", "")


def strange_in_running(stack, account):
    """Tasks above the one that runs wait as the program has told, and down to work() there is nothing but its own functions."""
    *above, (title, frames, marker) = parts = parts_of(stack)
    if title is None or is_eager(stack):
        return []
    if marker == "[ready]":
        return strange_parts(parts, account)
    strange = strange_parts(above, account)
    if frames and frames[-1].name.endswith("_work"):
        strange += [(title, frame) for frame in frames if not frame.file.endswith("busy.py")]
    return strange


def is_eager(stack):
    """Whether the stack is of the scenario in which a task runs within another one's step, where that one's frames move."""
    return any(plain(frame.name).startswith("b21") for frame in stack)


def test_off_leaves_tasks_alone(any_python, tmp_path):
    with start(any_python, "busy.py") as program:
        program.report()
        recording = record(program.ready().pid, tmp_path, 0.5, 200, "--async=off")
    assert not [stack for stack, _ in recording.profile.stacks if any(frame.name.startswith("[task") for frame in stack)]
    assert recording.stats["task_looks"] == 0


def test_loop_frames_are_kept_where_asked_for(any_python, tmp_path):
    with start(any_python, "busy.py", "b14") as program:
        program.report()
        recording = record(program.ready().pid, tmp_path, 0.5, 200, "--async=running", "--full-loop-frames")
    kept = recording.profile.where(lambda stack: any(frame.name == "[task main]" for frame in stack)
                                   and any(plain(frame.name) == "_run_once" for frame in stack))
    assert kept > 0.5 * recording.profile.total


def test_a_process_without_asyncio_costs_nothing(any_python, tmp_path):
    with Program(any_python, "split.py", 60) as program:
        recording = record(program.ready().pid, tmp_path, 0.5, 200, "--async=all")
    assert recording.stats["task_looks"] == 0 and recording.stats["most_tasks"] == 0


def test_tasks_of_several_loops(python, tmp_path):
    with start(python, "loops.py") as program:
        expected = program.report()
        recording = record(program.ready().pid, tmp_path, 1, 100, "--async=all", "--threads")
    seen = {}
    for stack, count in recording.profile.stacks:
        thread = re.match(r"^\[thread (.*?)( \(\d+\))?\]$", stack[0].name)[1]
        text = shape(stack[1:])
        if text is None:
            continue
        root = text.split(" ")[0]
        seen.setdefault(thread, set()).add(root)
        if "work" in text or "child" in text:
            # A step's first and last moments lie outside work().
            assert expected[root][0].startswith(text.replace(" [ready]", ""))
    assert seen.pop("busy", {"t_busy"}) == {"t_busy"}
    for name in ("rest", "second", "runner"):
        assert seen.pop(name, None) == ({"t_" + name} if "t_" + name in expected else None)
    assert list(seen.values()) == [{"bare"}]


def test_tasks_outlive_their_starters(any_python, tmp_path):
    with start(any_python, "phases.py") as program:
        before = expected_of(program.report())
        program.ready()
        out = tmp_path / "out.txt"
        recorder = subprocess.Popen([str(harness.PYPROF), "record", "--pid", str(program.pid), "-d", "60", "-r", "100",
                                     "--async=all", "-q", "-f", "collapsed", "-o", str(out)])
        try:
            harness.wait_until(lambda: has_shape(recorder, out, "p8 [p8_inner] p8_inner"))
            program.process.stdin.write(b"\n")
            program.process.stdin.flush()
            after = expected_of(program.report())
            program.ready()
            harness.wait_until(lambda: has_shape(recorder, out, "p8 +[p8_inner] p8_inner"))
        finally:
            recorder.send_signal(signal.SIGINT)
            recorder.wait()
    seen = {shape(stack) for stack, _ in harness.Collapsed(out.read_text()).stacks} - {None}
    assert seen - {"p11_left", "main"} <= before | after
    assert "p8 [p8_inner] p8_inner" in seen


def has_shape(recorder, out, text):
    """Whether what was recorded so far shows it; asked for by a signal, once the recorder takes signals."""
    status = Path("/proc/%d/status" % recorder.pid).read_text()
    blocked = int(re.search(r"^SigBlk:\s*(\w+)", status, re.M)[1], 16)
    if not blocked & 1 << (signal.SIGUSR1 - 1):
        return False
    recorder.send_signal(signal.SIGUSR1)
    if not out.exists():
        return False
    return text in {shape(stack) for stack, _ in harness.Collapsed(out.read_text()).stacks}


def path_is_spelled(names):
    """n, n_0, n_0_2 ...: each name extends the one above by a number."""
    return all(re.fullmatch(re.escape(above) + r"_\d", below) for above, below in zip(names, names[1:]))


@pytest.mark.parametrize("kind", ["busy", "wait"])
def test_no_impossible_path(python, tmp_path, note, kind):
    stacks, whole = [], 0
    with start(python, "pathtasks.py", 120, 200 if kind == "wait" else 20, kind) as program:
        pid = program.ready().pid
        for _ in range(10):  # in a short recording all can be refused
            recording = record(pid, tmp_path, 1.5, 500, "--async=all", "-F", "--no-inferred")
            stats = recording.stats
            note("%d task samples, %d refused, %d unlinked, %d looks" % (
                stats["task_samples"], stats["tasks_torn"], stats["tasks_unlinked"], stats["task_looks"]))
            stacks += recording.profile.stacks
            if any(shape(stack) is not None for stack, _ in stacks):
                break
    impossible = []
    for stack, count in stacks:
        if shape(stack) is None:
            continue
        names = [plain(frame.name) for frame in stack if not frame.is_marker and frame.file.endswith("tree.py")]
        whole += count
        # A task that was just made has nobody yet that waits for it, and stands by itself.
        is_below_main = any(frame.name == "[task main]" for frame in stack)
        if names and (is_below_main and names[0] != "n" or not path_is_spelled(names)):
            impossible.append(names)
    assert not impossible
    assert whole > 0


def test_turmoil(python, tmp_path, note):
    with start(python, "turmoil.py", 60) as program:
        recording = record(program.ready().pid, tmp_path, 1.5, 300, "--async=all", "-F", "--no-inferred", codes=(0, 6))
        assert program.process.poll() is None
    stats = recording.stats
    note("%d task samples, %d refused, %d unlinked" % (stats["task_samples"], stats["tasks_torn"], stats["tasks_unlinked"]))
    for stack, _ in recording.profile.stacks:
        if shape(stack) is None or any(frame.name == "[unproved]" for frame in stack):
            continue
        families = {re.search(r"\d", frame.name)[0] for frame in stack if re.match(r"(breed|storm|born)_\d", plain(frame.name))}
        assert len(families) <= 1, stack


def test_a_forked_child_has_no_tasks(python, tmp_path):
    with start(python, "forked.py") as program:
        child = int(program.line())
        recording = record(program.ready().process.pid and child, tmp_path, 0.5, 100, "--async=all")
    assert recording.profile.containing("child_work") > 0
    assert not [stack for stack, _ in recording.profile.stacks if any(frame.name.startswith("[task") for frame in stack)]


def test_many_tasks(python, tmp_path, note):
    if python.kind == "debug":
        pytest.skip("a debug build takes long to begin")
    with start(python, "many.py", 10000) as program:
        recording = record(program.ready().pid, tmp_path, 3, 100, "--async=all")
    stats = recording.stats
    busy = recording.profile.containing("work")
    sleepers = recording.profile.containing("sleeper")
    note("%.1f %% of a processor, %d looks, busy %d, sleepers %d of %d ticks" % (
        100 * stats["profiler_cpu_s"] / stats["elapsed_s"], stats["task_looks"], busy, sleepers, stats["ticks"]))
    assert recording.profile.total > 0
    # How often all of them can be looked at in that time is a matter of speed.
    assert 0 <= sleepers <= 10000 * stats["ticks"]
