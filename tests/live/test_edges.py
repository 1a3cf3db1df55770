# SPDX-License-Identifier: Apache-2.0
"""Edges between tasks in a dump: every scenario of tests/programs/async, groups of anyio, and who made a task."""
import json
import os
import re
import signal

import pytest

import harness
import packages
from harness import Program, dump, plain, pyprof, record, record_until
from test_async import (ENOUGH, LONE, OWN_FILES, check_running_tasks, check_waiting_tasks, counts_of, expected_of, is_told,
                        mixes, parts_of, seen_enough, shape, start, strange_parts)


# --- what a dump says, written as expect.py writes it -------------------------------------------


def own_frames(task):
    return [plain(frame["name"]) for frame in reversed(task["frames"]) if frame["file"].rsplit("/", 1)[-1] in OWN_FILES]


def title(task):
    return "[%s]" % plain(task["name"] if task["named"] else task["coroutine"])


def paths_above(task, tasks, seen):
    """Every way from a root to the task: lists of (task, edge below it); [None] stands for a circle."""
    awaiters = task["awaited_by"]
    if not awaiters:
        return [[]]
    paths = []
    for edge in awaiters:
        above = tasks[edge["task"]]
        if above["id"] in seen:
            paths.append([None])
            continue
        paths += [path + [(above, edge)] for path in paths_above(above, tasks, seen | {above["id"]})]
    return paths


def leaves_of(document):
    tasks = {task["id"]: task for task in document["tasks"]}
    waiting = {edge["task"] for task in tasks.values() for edge in task["awaited_by"] if edge["waits"]}
    texts = []
    for task in tasks.values():
        for path in paths_above(task, tasks, {task["id"]}):
            is_circle = bool(path) and path[0] is None
            if task["id"] in waiting and not is_circle:
                continue
            words = ["= [await cycle]"] if is_circle else []
            for above, edge in path[is_circle:]:
                words += [title(above)] + own_frames(above)[: None if edge["waits"] else max(edge["depth"], 1)]
                words.append("" if edge["waits"] else "+")
            words += [title(task)] + own_frames(task)
            text = re.sub(r" +", " ", " ".join(words)).replace("+ [", "+[").strip()
            texts.append(re.sub(r"^(\[main\] main )?\[(\w+)\] (?=\2\b)", "", text))
    return texts


def test_every_wait_in_a_dump(python):
    check_every_wait(python, "waiting.py")


def test_every_wait_in_a_dump_without_c(python):
    check_every_wait(python, "without_c.py", "waiting.py")


def check_every_wait(python, *arguments):
    with start(python, *arguments, "--account") as program:
        told = program.report()
        account = program.report()
        document = dump(program.ready().pid)
        assert document["torn_tasks"] == 0
        assert_whole(document, account)
        texts = leaves_of(document)
        expected = expected_of(told)
        assert set(texts) - expected <= LONE
        assert expected - set(texts) == set()
        assert texts.count("s2 [s2_c] s2_c s2_d") == 3
        assert texts.count("s22 [s22_consumer] s22_consumer") == 100
        by_name = {task["coroutine"].rsplit(".", 1)[-1]: task for task in document["tasks"]}
        sources = {name: {edge["source"] for edge in by_name[name]["awaited_by"]} for name in by_name}
        assert sources["s1_b"] == {"await"} and sources["s2_c"] == {"gather"} and sources["s7_child"] == {"wait"}
        assert sources["s8_inner"] == {"shield"} and sources["s9_child"] == {"as_completed"}
        assert sources["s10_child"] == {"held"} and by_name["s10_child"]["awaited_by"][0]["inferred"]
        if python.version >= (3, 11):
            assert sources["s4_child"] == sources["s5_child"] == {"task_group"}
        # The thread that works for s18, and for nobody else.
        (thread,) = [thread for thread in document["threads"] if thread["name"].startswith("s18")]
        assert by_name["s18"]["workers"] == [thread["native_id"]]
        in_threads = [task for task in document["tasks"] if task["workers"]]
        assert {plain(task["coroutine"]) for task in in_threads} == {"s18", "s18_thread"} & set(told)
        assert {len(task["workers"]) for task in in_threads} == {1}


def assert_whole(document, account):
    """Each task is there, and has all frames that the program tells of it, and no other."""
    found = {task["id"]: task for task in document["tasks"]}
    assert len(found) == len(document["tasks"])
    assert set(found) == {task["id"] for task in account["tasks"]}
    for task in account["tasks"]:
        frames = [harness.Frame(frame["name"], frame["file"], frame["line"]) for frame in reversed(found[task["id"]]["frames"])]
        assert is_told(frames, task["frames"]), (task, frames)


def backports(interpreter):
    """What anyio and trio need on old versions: pip asks for what its own interpreter lacks."""
    needed = ["exceptiongroup==1.2.2"] * (interpreter.version < (3, 11))
    return needed + ["typing_extensions==4.12.2"] * (interpreter.version < (3, 13))


# --- other libraries ----------------------------------------------------------------------------


def those_of_names(*names):
    """A few interpreters: what is tested differs little between the others."""
    is_long = os.environ.get("PYPROF_LONG")  # tries every version
    found = [python for python in harness.interpreters() if is_long or python.name in names]
    return [pytest.param(python, id=python.name) for python in found]


@pytest.mark.parametrize("interpreter", those_of_names("3.12", "3.14"))
def test_groups_of_anyio(interpreter, tmp_path):
    with Program(interpreter, "async/anyio_groups.py", variables={"PYTHONPATH": packages.directory_with(interpreter, "anyio==4.16.0", *backports(interpreter))}) as program:
        expected = expected_of(program.report())
        document = dump(program.ready().pid)
        assert set(leaves_of(document)) == expected
        (threaded,) = [task for task in document["tasks"] if plain(task["coroutine"]) == "a3"]
        assert len(threaded["workers"]) == 1
        recording = record(program.pid, tmp_path, 0.5, 100, "--async=all")
    counts, _ = counts_of(recording)
    assert set(counts) == expected


# From 3.14 on asyncio itself does not know a task of nest_asyncio that runs: asyncio.current_task() gives None.
@pytest.mark.parametrize("interpreter", [case for case in those_of_names("3.8", "3.10", "3.12") if case.values[0].version < (3, 14)])
def test_a_loop_within_a_task(interpreter, tmp_path):
    variables = {"PYTHONPATH": packages.directory_with(interpreter, "nest-asyncio==1.6.0")}
    with Program(interpreter, "async/nested.py", "--account", variables=variables) as program:
        account = program.report()
        recording = record(program.ready().pid, tmp_path, 1, 200, "--async=all")
    stacks = [stack for stack, _ in recording.profile.stacks if titles_of(stack)]  # without those that were linked to no task
    assert {titleless(stack) for stack in stacks} == {"beside", "inner inner_child", "outer call"}
    for stack in stacks:
        titles, parts = titles_of(stack), parts_of(stack)
        assert titles in (["main", "beside"], ["inner", "inner_child"], ["main", "outer"]), stack
        # The one that runs the loop runs: of it the program can't tell.
        assert strange_parts(parts[: 2 if "outer" in titles else None], account) == [], stack


def titles_of(stack):
    return [title for title, _, _ in parts_of(stack)[1:]]


def titleless(stack):
    """The program's own functions of all tasks but main."""
    names = [plain(frame.name) for _, frames, _ in parts_of(stack)[1:] for frame in frames if frame.file.endswith("nested.py")]
    return " ".join(name for name in names if name != "main")


def trio_of(interpreter):
    release = "trio==0.27.0" if interpreter.version < (3, 10) else "trio==0.33.0"
    return packages.directory_with(interpreter, release, *backports(interpreter))


def is_trios_own(text):
    return "run_sync_soon" in text or "say_ready" in text


@pytest.mark.parametrize("interpreter", those_of_names("3.9", "3.12", "3.14"))
def test_nurseries_of_trio(interpreter, tmp_path):
    variables = {"PYTHONPATH": trio_of(interpreter)}
    with Program(interpreter, "async/trio_nurseries.py", "t1", "t2", "t3", variables=variables) as program:
        expected = expected_of(program.report())
        document = dump(program.ready().pid)
        assert {text for text in leaves_of(document) if not is_trios_own(text)} == expected
        tasks = {plain(task["name"]): task for task in document["tasks"]}
        assert [edge["source"] for edge in tasks["t2_child"]["awaited_by"]] == ["recorded"]
        assert tasks["t1"]["waiting_on"] == "Nursery" and tasks["t2"]["waiting_on"] is None
        assert {task["state"] for task in tasks.values()} == {"waiting"}
        assert {task["thread"] for task in tasks.values()} == {program.pid}
        recording = record(program.pid, tmp_path, 0.5, 100, "--async=all")
    counts, _ = counts_of(recording)
    assert {text for text in counts if not is_trios_own(text)} == expected


@pytest.mark.parametrize("interpreter", those_of_names("3.9", "3.12", "3.14"))
def test_tasks_of_trio_that_run(interpreter, tmp_path):
    with Program(interpreter, "async/trio_nurseries.py", "t4", variables={"PYTHONPATH": trio_of(interpreter)}) as program:
        expected = expected_of(program.report())

        def enough(profile):
            return {shape(stack) for stack, _ in profile.stacks} >= expected

        recording = record_until(enough, program.ready().pid, tmp_path, 1, 200)
    for stack, _ in recording.profile.stacks:
        text = shape(stack)
        # A step's first and last moments lie outside work().
        assert text is None or any(one == text or one.startswith(text + " ") for one in expected), text


# --- greenlets without asyncio ------------------------------------------------------------------


@pytest.mark.parametrize("interpreter", those_of_names("3.9", "3.12", "3.14"))
def test_greenlets_of_gevent(interpreter, tmp_path):
    release = "gevent==24.2.1" if interpreter.version < (3, 13) else "gevent==25.9.1"
    with Program(interpreter, "async/gevent_greenlets.py", variables={"PYTHONPATH": packages.directory_with(interpreter, release)}) as program:
        expected = program.report()

        def own(stack):
            return " ".join(plain(frame.name) for frame in stack if not frame.is_marker and frame.file.endswith("gevent_greenlets.py")
                            and plain(frame.name) not in ("<module>", "work"))

        def enough(profile):
            return {own(stack) for stack, _ in profile.stacks} >= set(expected)

        recording = record_until(enough, program.ready().pid, tmp_path, 1, 200)
    for stack, _ in recording.profile.stacks:
        text = own(stack)
        numbers = {re.match(r"g\d", name)[0] for name in text.split() if re.match(r"g\d", name)}
        assert len(numbers) <= 1, text
        if text.endswith("_work") and stack[0].name != "[unproved]":
            # One that was not known, or whose parent has ended, stands by itself.
            assert any(one == text or one.endswith(" " + text) for one in expected), text


# --- greenlets within tasks ---------------------------------------------------------------------


def greenlet_releases():
    """The oldest and the newest release that an interpreter can have: members move from one to the next."""
    cases = []
    for python in those_of_names("3.8", "3.12", "3.14"):
        version = python.values[0].version
        oldest = "2.0.2" if version < (3, 12) else "3.0.3" if version < (3, 13) else "3.1.1"
        for release in ("greenlet==" + oldest, "greenlet==3.1.1" if version < (3, 9) else "greenlet==3.2.4"):
            # 3.1 aborts in free-threaded builds.
            if (version >= (3, 14) or not python.values[0].has_gil) and release.endswith(oldest):
                continue
            cases.append(pytest.param(python.values[0], release, id=python.id + "-" + release))
    return cases


@pytest.mark.parametrize("interpreter, release", greenlet_releases())
def test_greenlets_that_wait_in_tasks(interpreter, release, tmp_path):
    variables = {"PYTHONPATH": packages.directory_with(interpreter, release)}
    with Program(interpreter, "async/greenlets.py", variables=variables) as program:
        expected = expected_of(program.report())
        document = dump(program.ready().pid)
        assert set(leaves_of(document)) == expected
        recording = record(program.pid, tmp_path, 0.5, 100, "--async=all")
    counts, _ = counts_of(recording)
    assert set(counts) == expected


@pytest.mark.parametrize("interpreter, release", greenlet_releases())
def test_greenlets_that_run_in_tasks(interpreter, release, tmp_path, note):
    variables = {"PYTHONPATH": packages.directory_with(interpreter, release)}
    with Program(interpreter, "async/greenlets_busy.py", variables=variables) as program:
        expected = expected_of(program.report())

        caught = set()

        def has_caught_all():
            """A dump has the whole of what it meets at work, of the thread and of the task."""
            document = dump(program.pid)
            (thread,) = document["threads"]
            names = [plain(frame["name"]) for frame in reversed(thread["frames"])]
            texts = {text for text in leaves_of(document) if text.endswith(" work")}
            assert texts <= expected
            assert not texts or (names[0] == "<module>" and "_run_once" in names and names[-1] == "work")
            caught.update(texts)
            return caught == expected

        recording = record_until(lambda profile: seen_enough(profile, expected), program.ready().pid, tmp_path, 1, 200, "--async=running")
        harness.wait_until(has_caught_all)
    counts, others = counts_of(recording)
    note("%d of %d samples below no task" % (others, recording.profile.total))
    assert not [stack for stack, _ in recording.profile.stacks if mixes(stack)]
    for text in counts:
        # One that stands still while b3_answer runs is left out where the loop had gone on before it could be read.
        if text.endswith(" work"):
            assert text in expected or text == "b3 spawn b3_answer b3_work work"


@pytest.mark.parametrize("interpreter", those_of_names("3.9", "3.12", "3.14"))
def test_greenlets_that_run_in_tasks_with_native_frames(interpreter, tmp_path):
    """What C code has called the loop, or a step, stands nowhere among the frames of the greenlet."""
    variables = {"PYTHONPATH": packages.directory_with(interpreter, "greenlet==3.2.4")}
    with Program(interpreter, "async/greenlets_busy.py", "b1", "b2", variables=variables) as program:
        expected = expected_of(program.report())

        def has_all(profile):
            return {shape([frame for frame in stack if not frame.name.startswith("[gil")]) for stack, _ in profile.stacks} >= expected

        recording = record_until(has_all, program.ready().pid, tmp_path, 1, 200, "--async=running", "--native")
    for stack, _ in recording.profile.stacks:
        names = [plain(frame.name) for frame in stack]
        for query in {"b1_query", "b2_query"} & set(names):
            if "spawn" in names:
                assert names[names.index("spawn") + 1] == query, names


# --- a server under load ------------------------------------------------------------------------


def stands_in_order(stack, wanted):
    """Whether frames or markers of these names stand in the stack in this order."""
    names = iter(plain(frame.name) for frame in stack)
    return all(any(name == one for name in names) for one in wanted)


def servers():
    """aiohttp, and uvicorn with threads of anyio; on the loop of asyncio and on uvloop."""
    cases = [(python, "aiohttp", loop) for python in those_of_names("3.12") for loop in ("asyncio", "uvloop")]
    cases += [(python, "uvicorn", "uvloop" if python.id == "3.12" else "asyncio") for python in those_of_names("3.9", "3.12", "3.14")]
    return [pytest.param(python.values[0], server, loop, id="-".join((python.id, server, loop))) for python, server, loop in cases]


def uvloop_of(interpreter):
    return "uvloop==0.21.0" if interpreter.version < (3, 14) else "uvloop==0.23.0"


PACKAGES = {
    "aiohttp": ["aiohttp==3.11.18", "typing_extensions==4.12.2"],
    "uvicorn": ["uvicorn==0.34.3", "anyio==4.9.0"],
    "asyncio": [],
    "uvloop": ["uvloop==0.21.0"],
}


@pytest.mark.parametrize("mode, way", [("running", "--uvloop.run"), ("running", "--uvloop.install"), ("all", "--uvloop.run")])
@pytest.mark.parametrize("interpreter", those_of_names("3.12"))
def test_running_tasks_on_uvloop(interpreter, tmp_path, note, mode, way):
    variables = {"PYTHONPATH": packages.directory_with(interpreter, *PACKAGES["aiohttp"], *PACKAGES["uvloop"])}
    check_running_tasks(interpreter, tmp_path, note, mode, way, variables=variables)


@pytest.mark.parametrize("way", ["--uvloop.run", "--uvloop.install"])
@pytest.mark.parametrize("interpreter", those_of_names("3.9", "3.12", "3.14"))
def test_waiting_tasks_on_uvloop(interpreter, tmp_path, way):
    variables = {"PYTHONPATH": packages.directory_with(interpreter, uvloop_of(interpreter))}
    with Program(interpreter, "async/waiting.py", "--account", way, variables=variables) as program:
        check_waiting_tasks(program, tmp_path)


@pytest.mark.parametrize("interpreter", those_of_names("3.12"))
def test_a_dump_leaves_out_what_uvloop_wraps_around_main(interpreter):
    variables = {"PYTHONPATH": packages.directory_with(interpreter, *PACKAGES["aiohttp"], *PACKAGES["uvloop"])}
    with Program(interpreter, "async/busy.py", "--uvloop.run", variables=variables) as program:
        program.report()
        tasks = dump(program.ready().pid)["tasks"]
    (main,) = [task for task in tasks if not task["awaited_by"] and task["coroutine"] == "main"]
    assert [frame["name"] for frame in main["frames"]] == ["main"]
    assert not [frame for task in tasks for frame in task["frames"] if frame["file"].endswith("uvloop/__init__.py")]


@pytest.mark.parametrize("interpreter, server, loop", servers())
def test_a_server_under_load(interpreter, tmp_path, server, loop):
    needed = PACKAGES[server] + PACKAGES[loop] + backports(interpreter) * (server == "uvicorn")
    if server == "aiohttp" and interpreter.version < (3, 11):
        needed = needed + ["async-timeout==5.0.1"]
    waits = ["handle_page", "load_page", "[task query]", "query", "wait_for_rows", "sleep"]
    computes = ["handle_page", "render"]
    works = ["handle_page", "load_page", "[executor]", "read_template"]

    def enough(profile):
        return all(any(stands_in_order(stack, wanted) for stack, _ in profile.stacks) for wanted in (waits, computes, works))

    variables = {"PYTHONPATH": packages.directory_with(interpreter, *needed)}
    with Program(interpreter, "async/web.py", server, loop, variables=variables) as program:
        recording = record_until(enough, program.ready().pid, tmp_path, 1, 200, "--async=all")
    for stack, _ in recording.profile.stacks:
        names = [plain(frame.name) for frame in stack]
        for own in ("handle_page", "load_page", "query", "render", "read_template"):
            assert names.count(own) <= 1, names
        assert not ("render" in names and ("query" in names or "read_template" in names)), names
        # A callback of the loop is nobody's parent.
        above = names[: next((i for i, name in enumerate(names) if name.startswith("[task ")), 0)]
        assert "data_received" not in above and "connection_made" not in above, names


def shops():
    """The database's library of two generations, on the loop of asyncio and on uvloop."""
    loops = {"3.10": ["asyncio"], "3.12": ["asyncio", "--uvloop.run"], "3.14": ["asyncio", "--uvloop.run"]}
    return [pytest.param(python.values[0], loop, id=python.id + "-" + loop.strip("-"))
            for python in those_of_names(*loops) for loop in loops.get(python.id, ["asyncio"])]


def shop_of(interpreter):
    if interpreter.version < (3, 14):
        needed = ["fastapi==0.115.12", "pydantic==2.11.7", "uvicorn==0.34.3", "sqlalchemy==2.0.41", "greenlet==3.2.4", "aiosqlite==0.21.0"]
        return packages.directory_with(interpreter, *needed, uvloop_of(interpreter), *backports(interpreter))
    needed = ["fastapi==0.165.0", "uvicorn==0.54.0", "sqlalchemy==2.1.9", "greenlet==3.5.6", "aiosqlite==0.22.1"]
    return packages.directory_with(interpreter, *needed, uvloop_of(interpreter))


SHOPS_OWN = [{"list_orders", "load_orders"}, {"show_invoice", "find_invoice"}, {"count_stock", "build_items"}]


def hands_over(interpreter):
    """The function by which SQLAlchemy's greenlet waits for a coroutine: its name of 2.0 or 2.1."""
    return "await_only" if interpreter.version < (3, 14) else "await_"


def is_of_a_request(stack, wanted):
    """Whether frames of these names stand in this order in one task, that of a request, and nothing else below the loop."""
    return titles_of(stack) == ["run_asgi"] and stands_in_order(parts_of(stack)[1][1], wanted)


def strange_in_a_shop(stack):
    """What is of two endpoints, or stands twice."""
    names = [plain(frame.name) for frame in stack]
    seen = [own & set(names) for own in SHOPS_OWN]
    return len([own for own in seen if own]) > 1 or any(names.count(name) > 1 for own in seen for name in own)


@pytest.mark.parametrize("interpreter, loop", shops())
def test_a_server_with_a_database(interpreter, tmp_path, loop):
    waits = hands_over(interpreter)
    query = ["greenlet_spawn", "do_execute", waits, "_execute"]
    wanted = [["list_orders", "load_orders", "execute", *query], ["show_invoice", "find_invoice", "scalar", *query]]

    def enough(profile):
        return all(profile.where(lambda stack: is_of_a_request(stack, one)) >= ENOUGH for one in wanted)

    with Program(interpreter, "async/shop.py", loop, variables={"PYTHONPATH": shop_of(interpreter)}) as program:
        recording = record_until(enough, program.ready().pid, tmp_path, 2, 200, "--async=all")
    assert [stack for stack, _ in recording.profile.stacks if strange_in_a_shop(stack)] == []
    for stack, _ in recording.profile.stacks:
        titles, names = titles_of(stack), [plain(frame.name) for frame in stack]
        if titles and (waits in names or any(own & set(names) for own in SHOPS_OWN)):
            # A request has a task of its own give back the connection.
            assert titles in (["run_asgi"], ["run_asgi", "close"]), names
            assert waits not in names or stands_in_order(parts_of(stack)[-1][1], ["greenlet_spawn", waits]), names


@pytest.mark.parametrize("interpreter", those_of_names("3.10", "3.12", "3.14"))
def test_objects_that_an_orm_makes(interpreter, tmp_path):
    makes = ["count_stock", "build_items", "scalars", "execute", "greenlet_spawn", "execute", "orm_execute_statement", "instances"]

    def enough(profile):
        return profile.where(lambda stack: is_of_a_request(stack, makes)) >= ENOUGH

    with Program(interpreter, "async/shop.py", variables={"PYTHONPATH": shop_of(interpreter)}) as program:
        recording = record_until(enough, program.ready().pid, tmp_path, 2, 200)
    assert [stack for stack, _ in recording.profile.stacks if strange_in_a_shop(stack)] == []
    for stack, _ in recording.profile.stacks:
        names = [plain(frame.name) for frame in stack]
        if titles_of(stack) and "instances" in names:
            assert is_of_a_request(stack, ["greenlet_spawn", "orm_execute_statement", "instances"]), names
            assert any(own & set(names) for own in SHOPS_OWN), names


# --- threads of pools ---------------------------------------------------------------------------


def pools():
    cases = [pytest.param(python.values[0], "workers.py", id=python.id + "-pool")
             for python in those_of_names("3.8", "3.11", "3.12", "3.13t", "3.15")]
    return cases + [pytest.param(python.values[0], "anyio_threads.py", id=python.id + "-anyio")
                    for python in those_of_names("3.9", "3.12", "3.14")]


@pytest.mark.parametrize("interpreter, pool", pools())
def test_work_in_threads_hangs_below_its_task(interpreter, pool, tmp_path):
    variables = {}
    if pool == "anyio_threads.py":
        variables["PYTHONPATH"] = packages.directory_with(interpreter, "anyio==4.9.0", *backports(interpreter))
    with Program(interpreter, "async/" + pool, variables=variables) as program:
        expected = expected_of(program.report())
        program.ready()

        def enough(profile):
            return {shape(stack) for stack, _ in profile.stacks} >= expected

        recording = record_until(enough, program.pid, tmp_path, 1, 200)
    assert not [stack for stack, _ in recording.profile.stacks if mixes(stack)]
    for stack, _ in recording.profile.stacks:
        names = [plain(frame.name) for frame in stack]
        if "[executor]" in names:
            # Between the call of a piece of work and its last line all stands on the way to work().
            text = shape(stack)
            assert any(one == text or one.startswith(text + " ") for one in expected), text
            assert "_worker" not in names and "lonely_work" not in names


# --- threads that wait for a task -----------------------------------------------------------------


def names_of(stack):
    return " ".join(plain(frame.name) for frame in stack if frame.is_marker or frame.file.endswith("threads.py")
                    or plain(frame.name) == "result" and frame.file.endswith("_base.py"))


ASKED = "asks call_it result [task asked] asked nap"
WORKED = "works call_it result [task worked] worked work"
CROSSED = "<module> [task main] main [task bridge] bridge [task crossed] crossed nap"
ALONE = "run_theirs [task alone] alone nap"


def test_threads_that_wait_for_a_task_in_a_dump(python):
    with start(python, "threads.py") as program:
        ids = program.report()
        document = dump(program.ready().pid)
        text = pyprof("dump", "--pid", program.pid).out.decode()
    tasks = {plain(task["coroutine"]): task for task in document["tasks"]}
    assert {name: task["waiting_threads"] for name, task in tasks.items()} == {
        "main": [], "bridge": [], "asked": [ids["asks"]], "worked": [ids["works"]], "crossed": [], "alone": []}
    assert [edge["source"] for edge in tasks["crossed"]["awaited_by"]] == ["chained"]
    assert tasks["crossed"]["awaited_by"][0]["task"] == tasks["bridge"]["id"]
    assert {name: task["thread"] for name, task in tasks.items()} == {
        name: ids["own" if name in ("main", "bridge") else "theirs"] for name in tasks}
    assert re.search(r"^    thread %d waits for it$" % ids["asks"], text, re.M)


@pytest.mark.parametrize("options", [["--async=running"], ["--async=all"], ["--async=all", "--idle"]], ids=["running", "all", "idle"])
def test_tasks_hang_below_threads_that_wait_for_them(python, options, tmp_path):
    wanted = {WORKED} if "--async=running" in options else {WORKED, ASKED, CROSSED, ALONE}
    with start(python, "threads.py") as program:
        program.report()

        def enough(profile):
            return {names_of(stack) for stack, _ in profile.stacks} >= wanted

        recording = record_until(enough, program.ready().pid, tmp_path, 1, 200, *options)
    assert "--idle" in options or not recording.profile.where(lambda stack: len(stack) > 1 and plain(stack[-2].name) == "result")
    for stack, _ in recording.profile.stacks:
        text = names_of(stack)
        # Below a thread stands what it has asked for, and nothing else.
        assert " result [" not in text or re.search(r"asks call_it result \[task asked\] asked( |$)|works call_it result \[task worked\] worked( |$)", text), text
        assert text.count("[task ") <= 3 and not ("asked" in text and "worked" in text), text


# --- who made a task ----------------------------------------------------------------------------


def test_who_made_a_task_if_noted(python):
    with Program(python, "async/created.py", "debug") as program:
        assert program.line() == "begun"
        assert program.line() == "set 10"
        told = json.loads(program.line())
        (left,) = [task for task in dump(program.pid)["tasks"] if plain(task["coroutine"]) == "left"]
        assert [(frame["file"], frame["line"], frame["name"]) for frame in left["creation"]] == [tuple(one) for one in told]
        assert "    made by\n        helper (" in pyprof("dump", "--pid", program.pid).out.decode()


@pytest.mark.parametrize("interpreter", those_of_names("3.8", "3.11", "3.13t", "3.15"))
def test_creation_is_tracked_and_put_back(interpreter, tmp_path):
    with Program(interpreter, "async/created.py") as program:
        assert program.line() == "begun"
        recorder = harness.start_recording(tmp_path, "--pid", program.pid, "--async=all", "--track-creation")
        try:
            assert program.line() == "set 8"
            told = json.loads(program.line())
            document = dump(program.pid)
            (left,) = [task for task in document["tasks"] if plain(task["coroutine"]) == "left"]
            assert [(frame["file"], frame["line"], frame["name"]) for frame in left["creation"]] == [tuple(one) for one in told]

            def is_shown():
                return any(re.search(r"request_handler .*;helper .*;\[created\];\[task left\];left ", line)
                           for line in (tmp_path / "out.txt").read_text().splitlines())

            harness.wait_for_samples(recorder, tmp_path, is_shown)
        finally:
            recorder.send_signal(signal.SIGINT)
            _, messages = recorder.communicate()
        assert "wrote coroutine_origin_tracking_depth = 8 in thread %d" % program.pid in messages
        assert "put back coroutine_origin_tracking_depth = 0 in thread %d" % program.pid in messages
        assert program.line() == "back"


@pytest.mark.parametrize("end", ["SIGTERM", "SIGHUP", "SIGKILL"])
def test_creation_tracking_ends_with_pyprof(any_python, tmp_path, end):
    with Program(any_python, "async/created.py") as program:
        assert program.line() == "begun"
        recorder = harness.start_recording(tmp_path, "--pid", program.pid, "--async=running", "--track-creation=3")
        assert program.line() == "set 3"
        assert len(json.loads(program.line())) == 3
        recorder.send_signal(getattr(signal, end))
        recorder.communicate()
        assert program.line() == "back"


def test_creation_tracking_leaves_debug_mode_alone(any_python, tmp_path):
    with Program(any_python, "async/created.py", "debug") as program:
        assert program.line() == "begun"
        assert program.line() == "set 10"
        program.line()
        result = pyprof("record", "--pid", program.pid, "-d", "0.5", "-o", tmp_path / "out.svg", "--async=all", "--track-creation")
        assert result.code == 0
        assert "is not 0" in result.err and "put back" not in result.err
        assert dump(program.pid)["tasks"]
    result = pyprof("record", "--pid", program.pid, "-d", "0.5", "-o", tmp_path / "out.svg", "--async=off", "--track-creation")
    assert result.code == harness.EXIT_USAGE
