# SPDX-License-Identifier: Apache-2.0
"""The tasks that dump finds against what the program says of them."""
import pytest

from harness import Program, dump, plain, pyprof, wait_until


def by_name(tasks):
    named = {task["name"]: task for task in tasks}
    assert len(named) == len(tasks), "a task stands there twice"
    return named


def frames_from_root(task):
    assert {frame["kind"] for frame in task["frames"]} <= {"python"}
    return [(plain(frame["name"]), frame["line"]) for frame in reversed(task["frames"])]


def assert_same_tasks(program, truth, document):
    assert document["asyncio_problem"] is None
    assert document["broken_lists"] == 0
    found, expected = by_name(document["tasks"]), by_name(truth)
    assert set(found) == set(expected)
    ids = {task["id"]: name for name, task in found.items()}
    for name, told in expected.items():
        task = found[name]
        assert task["id"] == told["id"]
        assert task["thread"] == program.pid
        assert task["begun"] is True
        assert task["state"] == "waiting"
        assert task["waiting_on"] == told["waiting_on"], name
        chain = frames_from_root(task)
        # What the program can't look through (an asend object) ends its own account early.
        assert chain[: len(told["chain"])] == [tuple(step) for step in told["chain"]], name
        if told["call_graph"] is not None:
            own = told["call_graph"]["awaiters"]
            # Up to 3.14.7 and some, as_completed() gives no account of itself.
            seen = [(ids[edge["task"]], edge["source"]) for edge in task["awaited_by"]]
            assert sorted(parent for parent, source in seen if source != "as_completed" or parent in own) == own, name
            frames = told["call_graph"]["frames"][::-1]
            assert [step for step, _ in chain][: len(frames)] == frames, name
        if "/" in name and "ring" not in name:
            parent, way, _ = name.split("/")
            (edge,) = task["awaited_by"]
            assert ids[edge["task"]] == parent, name
            assert (edge["source"], edge["waits"]) == (way.rstrip("!"), not way.endswith("!")), name
            assert [step for step, _ in chain] == ["child", "leaf", "sleep"]
    return found, ids


def test_dump_tasks_equals_own_account(python):
    with Program(python, "tasks.py") as program:
        truth = program.report_and_rest()
        found, ids = assert_same_tasks(program, truth, dump(program.pid))
        assert [step for step, _ in frames_from_root(found["top_generator"])] == [
            "top_generator", "generator", "leaf", "sleep"]
        assert [step for step, _ in frames_from_root(found["top_awaitable"])] == [
            "top_awaitable", "__await__", "leaf", "sleep"]
        for one, other in ((0, 1), (1, 0)):
            (edge,) = found["ring_%d/await/ring" % one]["awaited_by"]
            assert ids[edge["task"]] == "ring_%d/await/ring" % other
        # Nothing moves, so nothing is torn without a stop either.
        document = dump(program.pid, "--nonblocking")
        assert document["torn_tasks"] == 0
        assert_same_tasks(program, truth, document)
        assert dump(program.pid, "--async=off")["tasks"] == []
        text = pyprof("dump", "--pid", program.pid).out.decode()
        assert 'Task "top_gather" waiting on _GatheringFuture' in text
        assert '  Task "top_gather/gather/1" waiting on Future [gather]' in text
        program.finish()


def test_dump_without_asyncio_has_no_tasks(any_python):
    with Program(any_python, "oracle.py") as program:
        program.report_and_rest()
        document = dump(program.pid)
        assert document["tasks"] == [] and document["asyncio_problem"] is None
        program.finish()


def test_states_in_a_dump(python):
    with Program(python, "async/many.py", 2) as program:
        program.ready()
        found = []

        def shows_work():
            found[:] = dump(program.pid)["tasks"]
            return any(task["frames"] and plain(task["frames"][0]["name"]) == "work" for task in found)

        wait_until(shows_work)
        busy, main, *sleepers = sorted(found, key=lambda task: ("busy", "main", "sleeper").index(plain(task["coroutine"])))
        assert (busy["state"], busy["waiting_on"], busy["begun"]) == ("running", None, True)
        assert [step for step, _ in frames_from_root(busy)] == ["busy", "work"]
        assert (main["state"], main["waiting_on"], main["awaited_by"]) == ("waiting", "_GatheringFuture", [])
        assert len(sleepers) == 2
        for task in sleepers:
            assert (task["state"], task["waiting_on"], task["waiting_on_task"]) == ("waiting", "Future", None)
        for task in (busy, *sleepers):
            (edge,) = task["awaited_by"]
            assert (edge["task"], edge["source"], edge["waits"], edge["inferred"]) == (main["id"], "gather", True, False)
    with Program(python, "async/steps.py", 60, 3) as program:
        jobs = [task for task in dump(program.ready().pid)["tasks"] if plain(task["coroutine"]) != "main"]
        states = sorted(task["state"] for task in jobs)
        assert len(jobs) == 3 and states[:2] == ["ready", "ready"] and states[2] in ("ready", "running")
        assert {task["waiting_on"] for task in jobs} == {None}
