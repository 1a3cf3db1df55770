# SPDX-License-Identifier: Apache-2.0
"""record against programs whose shares, lines, threads and possible stacks are known."""
import json
import os
import re

import pytest

import harness
from harness import Program, plain, record, record_until
from test_dump import settle

# --- shares and lines ---------------------------------------------------------------------------


def test_shares_of_time(python, tmp_path):
    """The split is what perf_counter in the program says, over the same time give or take the edges."""
    with Program(python, "split.py", 4) as program:
        recording = record(program.ready().pid, tmp_path, 3, 300, "-F")
        own = json.loads(program.finish().splitlines()[-1])
    slow, quick = recording.profile.with_leaf("slow"), recording.profile.with_leaf("quick")
    truth = own["slow"] / (own["slow"] + own["quick"])
    assert slow + quick > 50
    assert harness.share_is_near(slow, slow + quick, truth)
    # The loop around the two does next to nothing.
    assert slow + quick > 0.9 * recording.profile.total


def test_hot_line(python, tmp_path):
    with Program(python, "lines.py", 600) as program:
        hot = int(program.line().split()[1])
        recording = record_until(lambda profile: profile.containing("spin") > 200, program.pid, tmp_path, 2, 300)
    spin = recording.profile.containing("spin")
    on_hot_line = recording.profile.where(
        lambda stack: plain(stack[-1].name) == "spin" and stack[-1].line == hot
    )
    # The line takes some 99 % of the time.
    assert harness.share_is_near(on_hot_line, spin, 0.99)
    lines = {frame.line for stack, _ in recording.profile.stacks for frame in stack if plain(frame.name) == "spin"}
    assert lines <= set(range(hot - 4, hot + 3))


def test_rate_and_figures(python, tmp_path):
    with Program(python, "split.py", 60) as program:
        recording = record(program.ready().pid, tmp_path, 2, 200, "-F")
    stats = recording.stats
    assert set(stats) >= {
        "ticks", "samples", "reused", "truncated", "refused", "late", "errors", "elapsed_s", "rate_hz",
        "profiler_cpu_s", "remote_reads", "distinct_stacks",
    }
    assert 1.9 <= stats["elapsed_s"] <= 10
    # The interval is kept on average, with jitter; what was too late was dropped and counted.
    assert 400 * 0.8 <= stats["ticks"] + stats["late"] <= 400 * 1.2
    assert recording.profile.total <= stats["samples"] <= stats["ticks"]
    assert stats["samples"] + stats["refused"] + stats["errors"] <= stats["ticks"] * 1.01 + 1
    assert stats["samples"] > 0.5 * stats["ticks"]
    assert 0 < stats["rate_hz"] <= 240
    assert 0 < stats["profiler_cpu_s"] < stats["elapsed_s"]
    assert stats["remote_reads"] > 0
    assert stats["distinct_stacks"] >= 2
    assert len(recording.result.err.strip().splitlines()) >= 1


# --- impossible stacks --------------------------------------------------------------------------


def enough_whole_ones(profile):
    return profile.where(lambda stack: not any(frame.is_marker for frame in stack)) > 100


def whole_stacks(recording, note):
    """Stacks that claim to be whole, and the callers that others are sure of. What is above those is openly unknown, and counted."""
    whole, open_ones = [], 0
    for stack, count in recording.profile.stacks:
        names = [plain(frame.name) for frame in stack]
        if not any(frame.is_marker for frame in stack):
            whole.append((names, count))
            continue
        open_ones += count
        if "[unproved]" in names[1:]:
            whole.append((names[:names.index("[unproved]")], count))
    total = recording.profile.total
    note("%d of %d samples without a proved path, %s refused, %s late" % (
        open_ones, total, recording.stats["refused"], recording.stats["late"]))
    return whole


def assert_none(impossible):
    if impossible:
        pytest.fail("%d impossible stacks, the first: %s" % (len(impossible), impossible[0]), pytrace=False)


def path_is_spelled(names, first):
    """Whether each function below <module> carries its caller's name and one index more."""
    if not names or names[0] != "<module>":
        return False
    if len(names) == 1:
        return True
    return names[1] == first and all(
        re.fullmatch(re.escape(above) + r"_\d+", below) for above, below in zip(names[1:], names[2:])
    )


def without_bootstrap(names):
    """Newer versions may run a program below frames of their own."""
    return names[names.index("<module>"):] if "<module>" in names else names


def distinct(profile):
    return len({tuple(frame.name for frame in stack) for stack, _ in profile.stacks})


@pytest.mark.parametrize("rate", [1000, 4000])
def test_pathtree(python, tmp_path, note, rate):
    # One walk through the tree passes 1093 of them.
    with Program(python, "pathtree.py", 600) as program:
        recording = record_until(lambda profile: enough_whole_ones(profile) and distinct(profile) > 20,
                                 program.ready().pid, tmp_path, 2.5, rate, "-F")
    stacks = whole_stacks(recording, note)
    assert_none([names for names, _ in stacks if not path_is_spelled(without_bootstrap(names), "n")])


def test_generator_paths(python, tmp_path, note):
    with Program(python, "genpath.py", 600) as program:
        recording = record_until(enough_whole_ones, program.ready().pid, tmp_path, 2.5, 4000, "-F")
    stacks = whole_stacks(recording, note)
    assert_none([names for names, _ in stacks if not path_is_spelled(without_bootstrap(names), "g")])


def sharedmid_is_possible(names):
    if names == ["<module>"]:
        return True
    shared = ["h1", "h2", "h3"]
    top = re.fullmatch(r"top_(\d+)", names[1])
    if not top or names[0] != "<module>":
        return False
    rest = names[2:]
    return rest in (shared[:1], shared[:2], shared, [], shared + ["leaf_" + top[1]])


@pytest.mark.parametrize("work", [5, 200])
def test_shared_helpers(python, tmp_path, note, work):
    with Program(python, "sharedmid.py", 600, work) as program:
        recording = record_until(enough_whole_ones, program.ready().pid, tmp_path, 2.5, 4000, "-F")
    stacks = whole_stacks(recording, note)
    assert_none([names for names, _ in stacks if not sharedmid_is_possible(without_bootstrap(names))])


def recursion_is_possible(names):
    if names == ["<module>"]:
        return True
    limits = {"a": 11, "b": 13, "c": 15}
    limit = limits.get(names[1])
    if limit is None or names[0] != "<module>":
        return False
    rest = names[2:]
    if rest[-1:] == ["work"]:
        return rest[:-1] == ["rec"] * limit
    return rest == ["rec"] * len(rest) and len(rest) <= limit


def test_recursion(python, tmp_path, note):
    with Program(python, "recursion.py", 600) as program:
        recording = record_until(enough_whole_ones, program.ready().pid, tmp_path, 2.5, 4000, "-F")
    stacks = whole_stacks(recording, note)
    assert_none([names for names, _ in stacks if not recursion_is_possible(without_bootstrap(names))])


def chain_is_possible(names, length):
    if names == ["<module>"]:
        return True
    letter = names[1][0]
    full = ["%s%d" % (letter, level) for level in range(length)] + ["leaf" + letter]
    return names[0] == "<module>" and letter in "AB" and names[1:] == full[: len(names) - 1]


@pytest.mark.parametrize("work, length", [(20, 28), (1000, 600)], ids=["one_chunk", "several_chunks"])
def test_alternating_chains(python, tmp_path, note, work, length):
    with Program(python, "chains.py", 600, work, length) as program:
        recording = record_until(enough_whole_ones, program.ready().pid, tmp_path, 2.5, 4000, "-F")
    stacks = whole_stacks(recording, note)
    assert_none([names for names, _ in stacks if not chain_is_possible(without_bootstrap(names), length)])


ORACLES = {
    "pathtree": (("pathtree.py", 600), lambda names: path_is_spelled(names, "n")),
    "genpath": (("genpath.py", 600), lambda names: path_is_spelled(names, "g")),
    "sharedmid": (("sharedmid.py", 600, 5), sharedmid_is_possible),
}


@pytest.mark.parametrize("oracle", ORACLES)
def test_a_hundred_thousand(python, tmp_path, note, oracle):
    """The oracles at length, on a version of each kind of popped frame; at full length in tests/bench/compare.

    Where the machine is slow they are fewer: what was late is no fault.
    """
    if python.name not in ("3.12", "3.15"):
        pytest.skip("the shorter form is enough here")
    command, is_possible = ORACLES[oracle]
    with Program(python, *command) as program:
        recording = record(program.ready().pid, tmp_path, 5, 20000, "-F")
    stacks = whole_stacks(recording, note)
    assert_none([names for names, _ in stacks if not is_possible(without_bootstrap(names))])


def test_stale_code(python, tmp_path, note):
    """Code objects that come back at the same address: never the name of one over the name of another."""
    def in_ephemeral_code(stack):
        return any(re.fullmatch(r"(?:ephemeral|leaf)_\d+", plain(frame.name)) for frame in stack)

    with Program(python, "churn.py", 600) as program:
        recording = record_until(lambda profile: profile.where(in_ephemeral_code) > 100, program.ready().pid, tmp_path, 3,
                                 1000, "-F")
    named, mixed = 0, []
    for stack, count in recording.profile.stacks:
        numbers = set()
        for frame in stack:
            match = re.fullmatch(r"(?:ephemeral|leaf)_(\d+)", plain(frame.name))
            if match:
                numbers.add(match[1])
                numbers.add(os.path.basename(frame.file)[len("churn_"):-len(".py")])
        named += count * bool(numbers)
        if len(numbers) > 1:
            mixed.append([frame.name for frame in stack])
    note("%d of %d samples within ephemeral code" % (named, recording.profile.total))
    assert_none(mixed)


# --- threads ------------------------------------------------------------------------------------

RUNNING = {"run_python", "run_nogil_hash", "run_nogil_zlib"}
WAITING = {"wait_lock", "wait_sleep", "wait_queue", "wait_socket", "wait_select", "wait_pipe", "wait_child"}


def test_threads_on_a_processor(python, tmp_path):
    with Program(python, "threads_state.py", 60) as program:
        settle(program.ready())
        recording = record(program.pid, tmp_path, 2, 100, "-F", "--threads")
    threads = recording.profile.by_thread()
    assert RUNNING <= set(threads)
    # A sleeper may wake for a moment.
    assert sum(threads.get(name, 0) for name in WAITING | {"MainThread"}) <= 0.02 * recording.profile.total


def test_idle_threads(python, tmp_path):
    with Program(python, "threads_state.py", 60) as program:
        settle(program.ready())
        recording = record(program.pid, tmp_path, 2, 100, "-F", "--threads", "--idle")
    threads = recording.profile.by_thread()
    assert RUNNING | WAITING | {"MainThread"} <= set(threads)
    ticks = recording.stats["ticks"]
    for name in WAITING | {"MainThread"}:
        assert 0.9 * ticks <= threads[name] <= ticks, name
    assert recording.stats["reused"] > 0


def test_gil_holder(python, tmp_path):
    if not python.has_gil:
        pytest.skip("this build has no GIL")
    with Program(python, "threads_state.py", 60) as program:
        settle(program.ready())
        recording = record(program.pid, tmp_path, 2, 200, "-F", "--threads", "--gil")
    threads = recording.profile.by_thread()
    assert recording.profile.total <= recording.stats["ticks"]
    assert sum(threads.get(name, 0) for name in WAITING | {"MainThread"}) <= 2
    # The two others hold it between their long calls only.
    assert threads["run_python"] > 0.6 * recording.profile.total


def test_gil_waiters(python, tmp_path):
    """Three busy threads: by default the one that runs, with --idle all three."""
    with Program(python, "gilwait.py", 60, 3) as program:
        program.ready()
        running = record(program.pid, tmp_path, 2, 200, "-F", "--threads")
        everyone = record(program.pid, tmp_path, 2, 200, "-F", "--threads", "--idle")
    busy = everyone.profile.by_thread()
    for name in ("busy_0", "busy_1", "busy_2"):
        # All of them at nearly every tick; what a moving thread makes unreadable is refused.
        assert 0.8 * everyone.stats["ticks"] <= busy[name] <= everyone.stats["ticks"], name
    a_tick = running.profile.total / running.stats["ticks"]
    if python.has_gil:
        # One runs; at a hand-over, and while others want the processors, more are ready to run.
        assert 0.6 <= a_tick <= 2.5
    else:
        assert a_tick > 2


def test_ten_thousand_frames(python, tmp_path):
    with Program(python, "deep.py", 10000, 600) as program:
        recording = record_until(lambda profile: profile.with_leaf("leaf"), program.ready().pid, tmp_path, 2, 50, "-F")
    deepest = [stack for stack, _ in recording.profile.stacks
               if plain(stack[-1].name) == "leaf" and stack[0].name != "[unproved]"]
    assert deepest and all(sum(frame.name == "down" for frame in stack) == 10000 for stack in deepest)


def test_odd_names(python, tmp_path):
    """Every text format escapes what it must: one line a stack, one label a frame."""
    with Program(python, "odd_names.py", "busy", 600) as program:
        recording = record_until(lambda profile: profile.with_leaf("burn"), program.ready().pid, tmp_path, 1, 100)
    text = (tmp_path / "out.txt").read_text(encoding="utf-8")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    stacks = [stack for stack, _ in recording.profile.stacks if plain(stack[-1].name) == "burn"]
    assert stacks
    # <module>, 15 odd frames and one with surrogates, burn.
    assert {len(without_bootstrap([frame.name for frame in stack])) for stack in stacks} == {18}
    names = " ".join(frame.name for frame in stacks[0])
    for name in ("größe", "計算", "\U00010437\U00010438"):
        assert name in names
