# SPDX-License-Identifier: Apache-2.0
"""Greenlets of gevent without asyncio: the tree that dump prints, and the paths that record shows, against what the programs say of themselves."""
import re

import pytest

import harness
import packages
from harness import Program, dump, plain, pyprof, record_until, wait_until

# What waits where in gevent_tree.py; what is not named here waits for a timer, or for greenlets.
WAITS_ON = {"waits_for_event": "Event", "takes_items": "Queue", "takes_lock": "Semaphore", "receives": "io", "runs_pool": "Event", "maps": "UnboundQueue", "IMapUnordered": "Semaphore",
            "joins": None, "joins_all": "3 greenlets", "wait_two": "2 greenlets"}


def releases():
    """Every interpreter for which there is a gevent, with the oldest and the newest release."""
    known = {(3, 8): ("22.10.2", "24.2.1"), (3, 9): ("22.10.2", "25.9.1"), (3, 10): ("24.2.1", "25.9.1"), (3, 11): ("22.10.2", "25.9.1"),
             (3, 12): ("24.2.1", "25.9.1"), (3, 13): ("25.9.1",), (3, 14): ("25.9.1",)}
    return [pytest.param(python, "gevent==" + release, id="%s-gevent%s" % (python.name, release))
            for python in harness.interpreters() if python.has_gil and not python.name.endswith("d")
            for release in known.get(python.version[:2], ())]


def newest():
    """The same with the newest release alone."""
    return list({case.values[0]: case for case in releases()}.values())


def start(python, release, name, *arguments, loop="libev"):
    """gevent's loop is an object of C, or a class of Python that calls libuv by cffi."""
    needed = [release] if loop == "libev" else [release, "cffi==1.17.1" if python.version < (3, 14) else "cffi==2.0.0"]
    variables = {"PYTHONPATH": packages.directory_with(python, *needed)}
    return Program(python, "async/" + name, *arguments, variables=variables if loop == "libev" else dict(variables, GEVENT_LOOP=loop))


# --- dump ---------------------------------------------------------------------------------------


def own_frames(greenlet):
    return [[plain(frame["name"]), frame["line"]] for frame in greenlet["frames"] if frame["file"].endswith("/gevent_tree.py")]


def parents_of(told):
    """Who stands above a greenlet by its own account, and whether they wait for it."""
    if told["joiners"]:
        return {(joiner, True) for joiner in told["joiners"]}
    return {(told["spawner"], False)} if told["spawner_lives"] else set()


def assert_same_greenlets(account, document):
    assert document["torn_tasks"] == 0 and document["asyncio_problem"] is None
    found = {int(greenlet["id"], 16): greenlet for greenlet in document["tasks"]}
    assert set(found) == {told["id"] for told in account["greenlets"]} | {account["main"]}
    assert {greenlet["kind"] for greenlet in found.values()} == {"greenlet"}
    assert [name for name, _ in own_frames(found[account["main"]])] == ["main", "<module>"]
    for told in account["greenlets"]:
        greenlet, run = found[told["id"]], plain(told["run"])
        assert plain(greenlet["name"]) == (told["name"] or run)
        assert greenlet["named"] == (told["name"] is not None)
        assert plain(greenlet["coroutine"]) == run
        assert own_frames(greenlet) == told["frames"], run
        assert greenlet["begun"] == told["begun"]
        assert greenlet["state"] == "waiting"
        assert greenlet["waiting_on"] == WAITS_ON.get(run, "timer")
        assert {(int(edge["task"], 16), edge["waits"]) for edge in greenlet["awaited_by"]} == parents_of(told), run
        assert not any(edge["inferred"] for edge in greenlet["awaited_by"])
        creation = [[plain(frame["name"]), frame["line"]] for frame in greenlet["creation"]]
        assert creation == ([] if parents_of(told) else told["creation"]), run
        if run == "joins":
            (joined,) = [one["id"] for one in account["greenlets"] if one["joiners"] == [told["id"]]]
            assert int(greenlet["waiting_on_task"], 16) == joined


@pytest.mark.parametrize("interpreter, release", releases())
def test_the_tree_equals_own_account(interpreter, release):
    with start(interpreter, release, "gevent_tree.py") as program:
        account = program.report()
        program.ready()
        wait_until(lambda: set(program.thread_states().values()) <= {"S"})
        document = dump(program.pid)
        assert_same_greenlets(account, document)
        (main,) = [one for one in document["tasks"] if int(one["id"], 16) == account["main"]]
        assert (main["state"], main["thread"], main["awaited_by"]) == ("running", program.pid, [])
        assert_same_greenlets(account, dump(program.pid, "--nonblocking"))
        assert dump(program.pid, "--async=off")["tasks"] == []
        text = pyprof("dump", "--pid", program.pid).out.decode()
        assert 'Greenlet "joins" waiting on greenlet "joined" [recorded]' in text
        assert '\n    Greenlet "joined" waiting on timer [join]' in text
        assert 'Greenlet "sleeper" waiting on timer, not begun' in text
        assert "Hub" not in text.split("Greenlet", 1)[1]


@pytest.mark.parametrize("loop", ["libev", "libuv"])
@pytest.mark.parametrize("interpreter, release", releases())
def test_what_the_hub_is_to_switch_to_is_ready(interpreter, release, loop):
    with start(interpreter, release, "gevent_ready.py", loop=loop) as program:
        account = program.report()
        program.ready()
        wait_until(lambda: set(program.thread_states().values()) <= {"S"})
        assert "." + loop + "." in account["loop"] and len(account["scheduled"]) == 4
        for options in ((), ("--nonblocking",)):
            states = {int(greenlet["id"], 16): greenlet["state"] for greenlet in dump(program.pid, *options)["tasks"]}
            assert states.pop(account["main"]) == "running"
            assert {one for one, state in states.items() if state == "ready"} == set(account["scheduled"])
            assert list(states.values()).count("waiting") == 3


# --- record -------------------------------------------------------------------------------------


def text_of(stack, *files):
    """A stack of the profile, root first: own frames and markers."""
    words = []
    for frame in stack:
        if frame.is_marker:
            words.append("[task %s]" % plain(frame.name[len("[task "):-1]) if frame.name.startswith("[task ") else frame.name)
        elif frame.file.rsplit("/", 1)[-1] in files:
            words.append(plain(frame.name))
    return " ".join(words)


def names_of(text):
    return " ".join(re.sub(r"\[[^\]]*\]", "", text).split())


def counts_of(profile, *files):
    counts = {}
    for stack, count in profile.stacks:
        text = text_of(stack, *files)
        counts[text] = counts.get(text, 0) + count
    return counts


def paths_of(account):
    """How often each path of a greenlet that nobody waits through is to be seen in a tick."""
    known = {told["id"]: told for told in account["greenlets"]}

    def own(one):
        return [name for name, _ in reversed(one["frames"])] if one in known.values() else []

    def path(told):
        title = "[task %s]" % (told["name"] or plain(told["run"]))
        above = []
        for parent, waits in parents_of(told):
            if parent == account["main"]:
                above = ["<module>", "[spawned]"]
            elif waits:
                above = path(known[parent])
            else:
                frames = own(known[parent])
                whole = path(known[parent])
                above = whole[: len(whole) - max(len(frames) - 1, 0)] + ["[spawned]"]
        if not above:
            above = [name for name, _ in reversed(told["creation"])] + ["[created]"]
        return above + [title] + own(told)

    waiting = {joiner for told in account["greenlets"] for joiner in told["joiners"]}
    counts = {"<module> main": 1}
    for told in account["greenlets"]:
        if told["id"] in waiting or not told["begun"]:
            continue
        text = " ".join(path(told))
        counts[text] = counts.get(text, 0) + 1
    return counts


@pytest.mark.parametrize("interpreter, release", newest())
def test_every_greenlet_that_waits_is_shown_below_its_parents(interpreter, release, tmp_path):
    with start(interpreter, release, "gevent_tree.py") as program:
        expected = paths_of(program.report())
        program.ready()
        wait_until(lambda: set(program.thread_states().values()) <= {"S"})

        def enough(profile):
            counts = counts_of(profile, "gevent_tree.py")
            return all(counts.get(path, 0) >= 50 * times for path, times in expected.items())

        recording = record_until(enough, program.pid, tmp_path, 1, 100, "--async=all", "--idle")
    counts = counts_of(recording.profile, "gevent_tree.py")
    # Where it was spawned is believed from the second time on that it was read.
    counts.pop("[task grandchild] grandchild", None)
    assert set(counts) == set(expected)
    assert recording.stats["tasks_unlinked"] == 0 and recording.stats["tasks_inferred"] == 0


@pytest.mark.parametrize("mode", ["running", "all"])
@pytest.mark.parametrize("churn", [False, True], ids=["calm", "churn"])
@pytest.mark.parametrize("interpreter, release", newest())
def test_greenlets_that_run_stand_below_their_parents(interpreter, release, churn, mode, tmp_path):
    with start(interpreter, release, "gevent_busy.py", *["churn"][: churn]) as program:
        paths = program.report()

        def counted(profile):
            counts = {}
            for text, count in counts_of(profile, "gevent_busy.py").items():
                counts[names_of(text)] = counts.get(names_of(text), 0) + count
            return counts

        def enough(profile):
            counts = counted(profile)
            return all(counts.get(path + " work", 0) >= 50 for path in paths)

        recording = record_until(enough, program.ready().pid, tmp_path, 1, 200, "--async=" + mode)
        assert program.process.poll() is None
    for stack, _ in recording.profile.stacks:
        text = text_of(stack, "gevent_busy.py")
        works = [word for word in names_of(text).split() if word.endswith("_work")]
        assert len(works) <= 1, text
        # What is not known to be real, or whose it is, stands by itself.
        if works and "[task" in text and not text.startswith("[unproved]"):
            assert names_of(text) in {path + end for path in paths for end in ("", " work")}, text


@pytest.mark.parametrize("interpreter, release", newest())
def test_hubs_of_two_threads(interpreter, release, tmp_path):
    with start(interpreter, release, "gevent_threads.py") as program:
        paths = program.report()

        def of_thread(profile, thread, text):
            return sum(count for stack, count in profile.stacks
                       if stack[0].name.startswith("[thread %s" % thread) and text in text_of(stack, "gevent_threads.py"))

        def enough(profile):
            return all(of_thread(profile, thread, path) >= 50 for thread, path in paths.items()) and of_thread(profile, "Y", "y_work") >= 50

        recording = record_until(enough, program.ready().pid, tmp_path, 1, 200, "--async=all", "--threads")
    for stack, _ in recording.profile.stacks:
        own = {plain(frame.name)[:2] for frame in stack if not frame.is_marker and frame.file.endswith("gevent_threads.py")} - {"<m"}
        assert own <= ({"x_"} if stack[0].name.startswith("[thread MainThread") else {"y_"}), stack


@pytest.mark.parametrize("interpreter, release", newest())
def test_greenlets_that_come_and_go(interpreter, release, tmp_path):
    with start(interpreter, release, "gevent_requests.py") as program:
        (path,) = program.report()

        def enough(profile):
            return counts_of(profile, "gevent_requests.py").get(path, 0) >= 200

        recording = record_until(enough, program.ready().pid, tmp_path, 1, 100, "--async=all")
        for greenlet in dump(program.pid)["tasks"]:
            assert plain(greenlet["name"]) in ("handle", "main greenlet")
    for text in counts_of(recording.profile, "gevent_requests.py"):
        text = text.removesuffix(" [ready]")
        if "[task" in text:
            assert text.startswith(path.rsplit(" ", 1)[0]) and set(text.split()) <= set(path.split()), text


@pytest.mark.parametrize("loop", ["libev", "libuv"])
@pytest.mark.parametrize("interpreter, release", newest())
def test_greenlets_that_a_hub_does_not_come_to(interpreter, release, loop, tmp_path):
    # The last one, which has not had its turn, has no frame to be shown by.
    expected = {"<module> main", "<module> [spawned] [task yields] yields [ready]", "<module> [spawned] [task wakes] wakes [ready]",
                "<module> [spawned] [task joins] joins [task yields] yields [ready]", "<module> [spawned] [task joins] joins [task sleeps] sleeps"}
    with start(interpreter, release, "gevent_ready.py", loop=loop) as program:
        program.report()
        program.ready()
        wait_until(lambda: set(program.thread_states().values()) <= {"S"})

        def enough(profile):
            counts = counts_of(profile, "gevent_ready.py")
            return all(counts.get(path, 0) >= 50 for path in expected)

        recording = record_until(enough, program.pid, tmp_path, 1, 100, "--async=all", "--idle")
    assert set(counts_of(recording.profile, "gevent_ready.py")) == expected


@pytest.mark.parametrize("interpreter, release", newest())
def test_greenlets_that_a_busy_one_holds_up(interpreter, release, tmp_path):
    with start(interpreter, release, "gevent_ready.py", "computes") as program:
        program.report()

        def counted(profile, word, is_ready):
            return sum(count for text, count in counts_of(profile, "gevent_ready.py").items()
                       if text.removesuffix(" [ready]").endswith("] " + word) and text.endswith(" [ready]") == is_ready)

        recording = record_until(lambda profile: counted(profile, "sleeps", False) >= 200, program.ready().pid, tmp_path, 1, 200, "--async=all")
    assert counted(recording.profile, "sleeps", True) == 0
    assert counted(recording.profile, "yields", True) >= 2 * counted(recording.profile, "yields", False)
    assert counted(recording.profile, "yields", True) >= 200
