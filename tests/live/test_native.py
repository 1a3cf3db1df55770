# SPDX-License-Identifier: Apache-2.0
"""--native: Python and C frames in the order in which the program called them; what was lost is marked, none invented.

Names of the interpreter's own C functions are expected where it has symbols; where it is stripped, that nothing stands
in their place that is none of them.
"""
import ctypes
import http.server
import os
import re
import shutil
import subprocess
import threading

import pytest

import harness
import test_async
from harness import Program, built, dump, plain, record, record_until

SCENES = "native/scenes.py"
HIDDEN = {"_PyEval_EvalFrameDefault", "_PyEval_EvalFrame", "_start", "main", "clone3", "Py_BytesMain", "pymain_run_python"}
SECONDS = 4 if os.environ.get("PYPROF_LONG") else 0.7


def is_stripped(python):
    return python.root != "/"


def needs_ctypes(python):
    code = "import ctypes"
    if subprocess.run([*python.command, "-c", code], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("this interpreter has no ctypes")


def names_of(stack):
    return [plain(frame.name) for frame in stack]


def stands_in(wanted, names):
    """Whether the wanted names stand in that order, whatever is between them."""
    rest = iter(names)
    return all(any(name == one for name in rest) for one in wanted)


def is_joined(stack):
    is_native = any(frame.file and not frame.file.endswith(".py") and frame.file[0] != "<" for frame in stack)
    return is_native and stack[0].name != "[unproved]"


class Scene:
    """A recording of one scene: its stacks as plain names, root first, and the run's figures."""

    def __init__(self, python, tmp_path, scene, *libraries, options=(), enough=None, variables=None, rate=200):
        with Program(python, SCENES, scene, *libraries, variables=variables) as program:
            program.ready()
            options = ("--native", *options)
            if enough is None:
                self.recording = record(program.pid, tmp_path, SECONDS, rate, *options)
            else:
                self.recording = record_until(enough, program.pid, tmp_path, SECONDS, rate, *options)
        self.stats = self.recording.stats
        self.stacks = [(names_of(stack), count) for stack, count in self.recording.profile.stacks]
        self.total = sum(count for _, count in self.stacks)
        for names, _ in self.stacks:
            assert not HIDDEN & set(names), names
        assert self.stats["native"] > 0

    def proved(self):
        return [(names, count) for names, count in self.stacks if "[unproved]" not in names]

    def joined(self):
        """Of these, those with a native frame: a thread that gets no processor comes to no stop."""
        return [(names_of(stack), count) for stack, count in self.recording.profile.stacks if is_joined(stack)]

    def count(self, predicate):
        return sum(count for names, count in self.stacks if predicate(names))


def has(*names, least=20):
    return lambda profile: profile.where(lambda stack: set(names) <= set(names_of(stack)) and is_joined(stack)) >= least


# --- callbacks, one version after the other ------------------------------------------------------


def test_native_callbacks(python, tmp_path, note):
    """sorted() with a key, __lt__ in Python, map(): each callback stands under the C function that called it."""
    with Program(python, "callbacks.py") as program:
        program.ready()
        recording = record_until(lambda profile: profile.total >= 50, program.pid, tmp_path, 2, 200, "--native")
    stats = recording.stats
    note("%d native, %d cut, %d unplaced, %d none, %d stops, %d held back" % tuple(
        stats[key] for key in ("native", "native_cut", "native_unplaced", "native_none", "stops", "held_back")))
    assert stats["native"] > 0
    assert stats["native_unplaced"] == 0
    assert stats["native_cut"] <= 0.01 * stats["native"] + 2
    without_path = 0
    for stack, count in recording.profile.stacks:
        names = names_of(stack)
        # Nothing of the loop is shown, and nothing below the program's first frame.
        assert names[0] in ("<module>", "[unproved]"), names
        assert not HIDDEN & set(names), names
        without_path += count if names[0] == "[unproved]" else 0
        if "builtin_sorted" in names and "key" in names:
            assert stands_in(["work", "builtin_sorted", "key"], names), names
        if "list_sort" in names and "__lt__" in names:
            assert stands_in(["work", "list_sort", "__lt__"], names), names
    # A thread that gets no processor comes to no stop; what it was read as then needs proofs as without --native.
    assert without_path <= 0.02 * recording.profile.total + 2 + stats["native_none"]


def test_native_nested(native_python, tmp_path):
    """Eight levels of Python, C code between each two: all in their order, none twice."""
    levels = ["level%d" % i for i in range(8)]
    scene = Scene(native_python, tmp_path, "nested", enough=has("level7"))
    between = {0: {"builtin_sorted", "builtin_sorted_impl", "list_sort"}, 2: {"map_next", "list_extend"},
               3: {"functools_reduce"}, 4: {"min_max", "builtin_max"}, 5: {"builtin_sorted"}, 6: {"map_next", "list_extend"}}
    for names, _ in scene.joined():
        found = [name for name in names if name in levels]
        assert found == levels[:len(found)], names
        for level, callers in between.items():
            if is_stripped(native_python) or "level%d" % (level + 1) not in names:
                continue
            inside = names[names.index("level%d" % level) + 1:names.index("level%d" % (level + 1))]
            assert callers & set(inside), names
    assert scene.stats["native_unplaced"] == 0


def test_native_nonblocking_stops_nothing(any_python, tmp_path):
    with Program(any_python, "callbacks.py") as program:
        program.ready()
        recording = record(program.pid, tmp_path, 1, 100, "--native", "--nonblocking")
    assert recording.stats["stops"] == 0
    assert recording.profile.total > 0


def test_native_nonblocking_shows_where_threads_sleep(python, tmp_path):
    """The kernel tells their stack and instruction pointers, which is enough for what the C library sleeps in."""
    with Program(python, "threads_state.py", 60) as program:
        program.ready()
        recording = record(program.pid, tmp_path, 1, 100, "--native", "--nonblocking", "--idle")
    assert recording.stats["stops"] == 0
    asleep = [frames for frames, _ in recording.profile.stacks if "wait_sleep" in names_of(frames)]
    assert asleep
    for frames in asleep:
        assert frames[-1].is_marker and not frames[-2].is_marker and not frames[-2].file.endswith(".py"), frames


# --- the other scenes, on the three ways of joining ----------------------------------------------


def test_native_recursion(native_python, tmp_path):
    """Fifty Python frames of one function with nothing between them, by fifty loops or by one."""
    scene = Scene(native_python, tmp_path, "recursion", enough=has("spin"))
    full = 0
    for names, count in scene.proved():
        if "spin" in names:
            first = names.index("f")
            assert names[first:first + 51] == ["f"] * 51 and names.count("f") == 51, names
            full += count
    assert full > 0


def test_native_without_the_gil(native_python, tmp_path):
    """A library's own frames under the Python function that called it; a lock as the system call that it sleeps in."""
    def enough(profile):
        return has("compress", least=10)(profile) and has("waits", least=10)(profile)

    scene = Scene(native_python, tmp_path, "released", options=("--idle",), enough=enough)
    in_library = 0
    for stack, count in scene.recording.profile.stacks:
        names = names_of(stack)
        if "compress" in names:
            below = stack[names.index("compress") + 1:]
            in_library += count if any(frame.file and frame.file.startswith(("libz", "zlib")) for frame in below) else 0
        if "waits" in names:
            assert names[-1] in ("[futex]", "[gil wait]"), names
    assert in_library > 0


def test_native_gil_wait(native_python, tmp_path):
    with Program(native_python, "gilwait.py", 60, 3) as program:
        program.ready()
        recording = record_until(has("[gil wait]", least=5), program.pid, tmp_path, SECONDS, 100, "--native", "--idle")
    for stack, _ in recording.profile.stacks:
        names = names_of(stack)
        if "[gil wait]" in names:
            assert names[-1] == "[gil wait]", names  # of those that compute, and of the main thread as it prints
            # Who gives it up waits until somebody else has it.
            assert is_stripped(native_python) or {"take_gil", "drop_gil"} & set(names), names


def test_native_generators(native_python, tmp_path):
    """Each generator's frame stands once, under that which asked it for a value; while it is made, under its maker."""
    scene = Scene(native_python, tmp_path, "generators", enough=has("spin"))
    chain = ["kept", "doubled", "numbers", "spin"]
    for names, _ in scene.proved():
        found = [name for name in names if name in chain]
        if found in (["kept"], ["numbers"]) and names[names.index(found[0]) - 1] == "<lambda>":
            continue  # kept may run, too
        assert found == chain[:len(found)], names
        if "numbers" in names:
            first = names.index("kept")
            assert names[first:first + 3] == chain[:3], names


def test_native_coroutines(native_python, tmp_path):
    scene = Scene(native_python, tmp_path, "coroutines", enough=has("spin"))
    for names, _ in scene.proved():
        found = [name for name in names if name in ("drive", "top", "middle", "leaf", "spin")]
        assert found == ["drive", "top", "middle", "leaf", "spin"][:len(found)], names


def test_native_signal_handler(native_python, tmp_path):
    """A handler stands above what it has interrupted."""
    needs_ctypes(native_python)
    scene = Scene(native_python, tmp_path, "handler", built("scenes", native_python.root), enough=has("slow_handler"))
    for names, _ in scene.proved():
        if "slow_handler" in names:
            assert stands_in(["interrupted", "__restore_rt", "slow_handler"], names), names


@pytest.mark.parametrize("version", [(3, 14), (3, 15)], ids=lambda version: "%d.%d" % version)
def test_native_jit(version, tmp_path):
    """Code that the interpreter makes hides nothing below it."""
    pythons = [p for p in harness.interpreters() if p.version[:2] == version and p.kind == "release"]
    if not pythons:
        pytest.skip("no such interpreter")
    scene = Scene(pythons[0], tmp_path, "hot", enough=has("key"), variables={"PYTHON_JIT": "1"})
    for names, _ in scene.proved():
        assert names[0] == "<module>", names
        if "key" in names and "hot" in names:
            assert stands_in(["hot", "until_over", "work"], names), names
    # Where a loop's frame ends is learnt from the first stack that stands in one; below code without tables that is how
    # the rest is found.
    assert scene.stats["native_cut"] <= (0.01 if os.environ.get("PYPROF_LONG") else 0.5) * scene.stats["native"] + 20


def test_native_cython(native_python, tmp_path):
    """Cython's functions under their Python names, with the lines of the .pyx; no helper above others."""
    needs_ctypes(native_python)
    scene = Scene(native_python, tmp_path, "cython", built("scenes", native_python.root), enough=has("cb"))
    for stack, _ in scene.recording.profile.stacks:
        names = names_of(stack)
        # A helper is shown as the leaf alone, where it did work of its own.
        assert not [name for name in names[:-1] if name.lower().startswith("__pyx_")], names
        assert not names[-1].startswith("__pyx_"), names
        if "cb" in names and is_joined(stack):
            assert stands_in(["cython", "until_over", "run", "inner", "cb"], names), names
            files = {plain(frame.name): (frame.file, frame.line) for frame in stack}
            assert files["run"][0].endswith("hello.pyx") and files["run"][1] == 12, files
            assert files["inner"][0].endswith("hello.pyx") and files["inner"][1] == 7, files
    assert scene.count(lambda names: "inner" in names) > 0


def test_native_greenlets(tmp_path):
    """A greenlet's stack ends at its own first frame: nothing of who began it, nothing of the other one."""
    python = harness.Interpreter("system", "", "release", "/", ("/usr/bin/python3",))
    if subprocess.run([*python.command, "-c", "import greenlet"], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("/usr/bin/python3 has no greenlet")
    scene = Scene(python, tmp_path, "greenlets", built("scenes", "/"), enough=has("first_work", "spin"))
    seen = set()
    for names, _ in scene.proved():
        bodies = {"first_body", "second_body"} & set(names)
        if not bodies:
            continue
        body, = bodies
        assert names[0] == body and "through_c" not in names, names
        works = [name for name in names if name.endswith("_work")]
        assert works in ([], [body.replace("body", "work")]), names
        seen.update(works)
    assert seen
    # Where one is just being switched to, its Python frames are on no C stack.
    assert scene.stats["native_unplaced"] <= 0.1 * scene.stats["native"] + 5


def test_native_pool(native_python, tmp_path):
    """Threads that never ran Python, under the names that the kernel has for them."""
    needs_ctypes(native_python)
    scene = Scene(native_python, tmp_path, "pool", built("scenes", native_python.root), options=("-t",),
                  enough=has("burn"))
    assert scene.count(lambda names: "burn" in names and names[0].startswith("[thread pool-thread")) > 0
    for names, _ in scene.proved():
        if "burn" in names:
            assert names[1:] == ["pool_main", "burn_in_c", "burn"], names


def test_native_attached_thread_without_frames(native_python, tmp_path):
    """C code that has a Python thread state and calls no Python, as in a program that embeds it."""
    needs_ctypes(native_python)
    library = built("scenes", native_python.root)
    scene = Scene(native_python, tmp_path, "attached", library, options=("-t",), enough=has("burn"))
    found = [names for names, _ in scene.proved() if "burn" in names]
    assert found and all(names[1:] == ["attached_main", "burn_in_c", "burn"] for names in found), found
    assert scene.stats["frameless"] == 0
    with Program(native_python, SCENES, "attached", library) as program:
        program.ready()
        threads = dump(program.pid, "--native")["threads"]
    names = [[frame["name"] for frame in thread["frames"]] for thread in threads if thread["name"] == "attached"]
    assert [found[-1] for found in names] == ["attached_main"] and set(names[0]) <= {"attached_main", "burn_in_c", "burn"}, threads


def test_native_stripped(tmp_path):
    """Without symbols the same Python stacks, and no name that stands near instead."""
    pythons = [python for python in harness.interpreters() if python.name == "3.12"]
    library = pythons and next(iter(
        sorted(__import__("pathlib").Path(pythons[0].command[0]).parents[1].glob("lib/libpython3.12.so.1.0"))), None)
    if not library:
        pytest.skip("no 3.12 with a library of its own")
    (tmp_path / "lib").mkdir()
    stripped = tmp_path / "lib" / library.name
    subprocess.run(["strip", "-o", stripped, library], check=True)
    exported = subprocess.run(["nm", "-D", "--defined-only", stripped], check=True, stdout=subprocess.PIPE, text=True).stdout
    known = {line.split()[-1].split("@")[0] for line in exported.splitlines()}
    levels = ["level%d" % i for i in range(8)]
    scene = Scene(pythons[0], tmp_path, "nested", enough=has("level7"), variables={"LD_LIBRARY_PATH": str(stripped.parent)})
    for names, _ in scene.proved():
        found = [name for name in names if name in levels]
        assert found == levels[:len(found)], names
    shown = {frame.name for stack, _ in scene.recording.profile.stacks for frame in stack if frame.file == library.name}
    imported = subprocess.run(["nm", "-D", "--undefined-only", stripped], check=True, stdout=subprocess.PIPE, text=True).stdout
    known |= {line.split()[-1].split("@")[0] for line in imported.splitlines()}
    known |= {name + "@plt" for name in known}
    assert all(name in known or re.match(re.escape(library.name) + r"\+0x", name) for name in shown), shown - known
    assert scene.stats["native_cut"] <= 0.02 * scene.stats["native"] + 2


def test_native_plugins_at_one_place(any_python, tmp_path):
    """A library that goes, and another that takes its place: each by its own names."""
    needs_ctypes(any_python)
    libraries = [built("plugin", any_python.root, "-DWORK=work_" + which) for which in ("first", "second")]
    with Program(any_python, SCENES, "plugins", *libraries) as program:
        program.ready()
        recording = record_until(has("call_second", "work_second"), program.pid, tmp_path, 2, 200, "--native")
    for own, other in (("first", "second"), ("second", "first")):
        wrong = recording.profile.where(lambda stack: {"call_" + own, "work_" + other} <= set(names_of(stack)))
        # Mappings are looked at some times a second: what ran in between may bear the old name.
        assert wrong <= 0.5 * has_count(recording, "call_" + own)


def has_count(recording, name):
    return recording.profile.where(lambda stack: name in names_of(stack))


def test_native_deleted_library(any_python, tmp_path):
    needs_ctypes(any_python)
    if os.geteuid() != 0:
        pytest.skip("a deleted file can be read by root alone")
    copy = shutil.copy(built("scenes", "/"), tmp_path / "gone.so")
    scene = Scene(any_python, tmp_path, "deleted", copy, enough=has("burn_in_c", "burn"))
    assert scene.count(lambda names: stands_in(["deleted", "until_over", "burn_in_c", "burn"], names)) > 0


def test_native_jitdump(any_python, tmp_path):
    """Code that the program makes, by the name in the jitdump that it has mapped."""
    needs_ctypes(any_python)
    scene = Scene(any_python, tmp_path, "jitdump", built("scenes", "/"), str(tmp_path), enough=has("made_by_jit"))
    for names, _ in scene.proved():
        if "made_by_jit" in names:
            assert stands_in(["jitdump", "until_over", "calls_made", "made_by_jit"], names), names


class DebugServer(http.server.BaseHTTPRequestHandler):
    """Serves one file by its build-id and notes what it was asked for."""

    def do_GET(self):
        self.server.asked.append(self.path)
        content = self.server.files.get(self.path)
        self.send_response(200 if content else 404)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_):
        pass


def test_native_debuginfod(any_python, tmp_path, monkeypatch):
    """Names from a server that serves by build-id; without --debuginfod nobody is asked."""
    needs_ctypes(any_python)
    try:
        ctypes.CDLL("libdebuginfod.so.1")
    except OSError:
        pytest.skip("libdebuginfod1 is not installed")
    library = shutil.copy(built("scenes", "/", "-Wl,--build-id"), tmp_path / "far.so")
    subprocess.run(["objcopy", "--only-keep-debug", library, tmp_path / "far.debug"], check=True)
    subprocess.run(["strip", library], check=True)
    notes = subprocess.run(["readelf", "-n", library], check=True, stdout=subprocess.PIPE, text=True).stdout
    build_id = re.search(r"Build ID: (\w+)", notes).group(1)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), DebugServer)
    server.asked = []
    server.files = {"/buildid/%s/debuginfo" % build_id: (tmp_path / "far.debug").read_bytes()}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://127.0.0.1:%d" % server.server_port)
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    try:
        scene = Scene(any_python, tmp_path, "burning", str(library), enough=has("burn_in_c"))
        assert not server.asked and scene.count(lambda names: "burn" in names) == 0
        scene = Scene(any_python, tmp_path, "burning", str(library), options=("--debuginfod",), enough=has("burn_in_c"))
        assert scene.count(lambda names: stands_in(["burn_in_c", "burn"], names)) > 0
        assert "/buildid/%s/debuginfo" % build_id in server.asked
    finally:
        server.shutdown()
    monkeypatch.delenv("DEBUGINFOD_URLS")
    refused = harness.pyprof("record", "--native", "--debuginfod", "--pid", os.getpid())
    assert refused.code == harness.EXIT_USAGE and "DEBUGINFOD_URLS" in refused.err


def test_native_goes_on_after_exec(any_python, tmp_path):
    command = [*any_python.command, any_python.program("executes.py"), "1.5",
               *any_python.command, any_python.program("executes.py"), "1.5"]
    result = harness.pyprof("record", "--native", "-r", 200, "-f", "collapsed", "-o", tmp_path / "out.txt", "--", *command)
    assert result.code == 9, result.err
    profile = harness.Collapsed((tmp_path / "out.txt").read_text())
    for name in ("burn_first", "burn_second"):
        assert profile.where(lambda stack: name in names_of(stack) and any(frame.name == "builtin_sum" for frame in stack)) > 0


# --- peace ---------------------------------------------------------------------------------------


def test_native_spares_idle_threads(native_python, tmp_path, note):
    """Of a hundred threads that sleep none is interrupted; the busy one is stopped once a sample."""
    needs_ctypes(native_python)
    with Program(native_python, SCENES, "idle", built("scenes", native_python.root)) as program:
        program.ready()
        stats = record(program.pid, tmp_path, 1.5, 500, "--native").stats
        idle = record(program.pid, tmp_path, 0.5, 100, "--native", "--idle").stats
        told = program.finish()
    note("%d stops, %d native, %d held back" % (stats["stops"], stats["native"], stats["held_back"]))
    assert int(told) == 0
    # New stacks are looked at twice.
    assert stats["stops"] <= 1.1 * stats["native"] + 30
    assert idle["native"] >= 50 and idle["stops"] <= 1.1 * idle["ticks"] + 30


def test_native_stops_stay_within_their_share(any_python, tmp_path):
    """A fiftieth of the time, whatever is asked for; one stop more than was saved may come on top."""
    with Program(any_python, "callbacks.py") as program:
        program.ready()
        stats = record(program.pid, tmp_path, 2, 20000, "--native").stats
    assert stats["stopped_s"] <= 0.02 * stats["elapsed_s"] + 0.005 + 2 * stats["longest_stop_s"]
    assert stats["held_back"] + stats["late"] > 0


def test_native_timer_loses_no_tick(any_python, tmp_path):
    """No signal that comes while a thread is stopped is lost: the timer would not be armed again, and its ticks would end.

    Ticks that came while one was pending are counted as the kernel counts them. How many there are says how late signals
    were handled, which is nobody's promise on a busy machine; that stops are short is told by `longest_stop_s`.
    """
    needs_ctypes(any_python)
    with Program(any_python, SCENES, "timer", built("scenes", any_python.root)) as program:
        program.ready()
        assert record(program.pid, tmp_path, 1.5, 500, "--native").stats["stops"] > 0
        told = harness.json.loads(program.finish())
    assert told["least"] <= told["ticks"] <= told["most"], told


def test_native_vfork_holds_nobody_up(any_python, tmp_path):
    """The other thread ends the child: were it held with the one in vfork, nothing would go on."""
    needs_ctypes(any_python)
    with Program(any_python, SCENES, "vfork", built("scenes", any_python.root)) as program:
        program.ready()
        assert record(program.pid, tmp_path, 1.5, 200, "--native", "--idle").profile.total > 0
        assert int(program.finish()) > 0


def test_native_keeps_a_stop_of_others(any_python, tmp_path):
    """Ctrl-Z stays Ctrl-Z while stacks are taken, and SIGCONT goes on from there."""
    with Program(any_python, "callbacks.py") as program:
        program.ready()
        os.kill(program.pid, harness.signal.SIGSTOP)
        harness.wait_until(lambda: program.thread_states()[program.pid] == "T")
        for options in (("--native",), ("--native", "--idle")):
            record(program.pid, tmp_path, 0.3, 500, *options, codes=(0, harness.EXIT_NO_SAMPLES))
            assert program.thread_states()[program.pid] == "T"
        dump(program.pid, "--native")
        harness.wait_until(lambda: program.thread_states()[program.pid] == "T")
        os.kill(program.pid, harness.signal.SIGCONT)
        harness.wait_until(lambda: program.thread_states()[program.pid] in "RS")


def test_native_killed_at_any_instant(any_python, tmp_path):
    """200 times with PYPROF_LONG=1; tests/unit/native kills the part that stops as often."""
    with Program(any_python, "callbacks.py") as program:
        program.ready()
        for i in range(200 if os.environ.get("PYPROF_LONG") else 25):
            out = tmp_path / ("out-%d.txt" % i)
            process = subprocess.Popen(
                [harness.PYPROF, "record", "--native", "--pid", str(program.pid), "-r", "2000", "-f", "collapsed", "-o", out],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            # The outputs are opened when the target has been found and read.
            harness.wait_until(lambda: any(path.name.startswith("." + out.name) or path == out for path in tmp_path.iterdir()))
            harness.time.sleep(0.002 * (i % 20))
            process.kill()
            process.wait()
            harness.wait_until(lambda: program.thread_states()[program.pid] in "RS" and program.status("TracerPid") == "0")


def test_native_names_a_foreign_tracer(any_python, tmp_path):
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    with Program(any_python, "callbacks.py") as program:
        program.ready()
        tracer = subprocess.Popen(["strace", "-qq", "-e", "trace=none", "-o", "/dev/null", "-p", str(program.pid)])
        try:
            harness.wait_until(lambda: program.status("TracerPid") == str(tracer.pid))
            result = harness.pyprof("record", "--native", "--pid", program.pid, "-d", 0.2, "-o", tmp_path / "out.txt")
            assert result.code == 4 and "strace" in result.err and "--nonblocking" in result.err
            record(program.pid, tmp_path, 0.3, 100, "--native", "--nonblocking")
        finally:
            tracer.terminate()
            tracer.wait()


# --- asyncio -------------------------------------------------------------------------------------


def python_shape(stack):
    """As test_async.py has it, of the program's own frames."""
    return test_async.shape([frame for frame in stack if frame.is_marker or frame.file.endswith(".py")])


def is_task_in_c(stack):
    tasks = [i for i, frame in enumerate(stack) if frame.name.startswith("[task")]
    return tasks and any(not frame.is_marker and not frame.file.endswith(".py") for frame in stack[tasks[-1]:])


def test_native_running_tasks(native_python, tmp_path, note):
    """What runs, its C frames too, below the tasks that wait for it: where the program itself says that it stands."""
    with test_async.start(native_python, "busy.py") as program:
        told = program.report()
        recording = record_until(lambda profile: profile.where(is_task_in_c) >= 5, program.ready().pid, tmp_path, 2, 200, "--native", "--async=running")
    by_work = {stacks[0].rsplit(" ", 1)[1]: stacks[0] for stacks in told.values()}
    in_c = below_a_task = 0
    for stack, count in recording.profile.stacks:
        text = python_shape(stack)
        if text is None:
            continue
        expected = by_work.get(text.split(" ")[-1])
        assert expected is None or text in (expected, expected.replace(" [b21_eager]", "")), stack
        below_a_task += count
        assert not HIDDEN & {frame.name for frame in stack if not frame.is_marker and not frame.file.endswith(".py")}, stack
        for at, frame in enumerate(stack):  # nothing of C stands between a task and its first frame
            assert not frame.name.startswith("[task") or stack[at + 1].is_marker or stack[at + 1].file.endswith(".py"), stack
        in_c += count if is_task_in_c(stack) else 0
    stats = recording.stats
    note("%d samples, %d below a task, %d of them in C, %d unlinked, %d none" % (
        recording.profile.total, below_a_task, in_c, stats["tasks_unlinked"], stats["native_none"]))
    assert stats["native_unplaced"] == 0


def test_native_waiting_tasks(native_python, tmp_path):
    """--async=all adds the tasks that wait, as without --native."""
    with test_async.start(native_python, "waiting.py") as program:
        expected = test_async.expected_of(program.report())
        recording = record(program.ready().pid, tmp_path, 1, 100, "--native", "--async=all")
    shapes = {}
    for stack, count in recording.profile.stacks:
        text = python_shape(stack)
        if text is not None:
            shapes[text] = shapes.get(text, 0) + count
    assert not {text for text in shapes if text not in expected and text not in test_async.LONE}
    assert expected - set(shapes) <= test_async.MAY_LACK


# --- dump ----------------------------------------------------------------------------------------


def python_frames(thread):
    return [(frame["name"], frame["file"], frame["line"]) for frame in thread["frames"] if frame["kind"] == "python"]


def by_id(told):
    return {(thread["native_id"], tuple(python_frames(thread))): thread for thread in told["threads"]}


def test_native_dump_has_the_frames_of_a_dump(native_python):
    """Of threads that stand still, those of sub-interpreters too: the same Python frames, C frames between them."""
    with Program(native_python, "subinterpreters.py") as program:
        program.report_and_rest()
        without, told = dump(program.pid), dump(program.pid, "--native")
        everything = dump(program.pid, "--native-all")
        sleeping = dump(program.pid, "--native", "--nonblocking")
        text = harness.pyprof("dump", "--pid", program.pid, "--native")
    expected = set(by_id(without))
    for native in (told, everything):
        assert set(by_id(native)) == expected
        for thread in native["threads"]:
            kinds = [frame["kind"] for frame in thread["frames"]]
            assert "native" in kinds and (kinds[0] == "marker" or thread["state"] == "running"), thread
            assert all(frame["module"] for frame in thread["frames"] if frame["kind"] == "native" and not frame["file"])
    for thread in everything["threads"]:
        root = thread["frames"][-1]
        assert root["name"].strip("_") in ("start", "clone3", "clone") or root["module"].startswith("libc.so"), root
    for thread in told["threads"]:
        assert thread["frames"][-1]["kind"] == "python", thread["frames"][-3:]
        assert not HIDDEN & {frame["name"] for frame in thread["frames"]}
    assert set(by_id(sleeping)) == expected
    assert text.code == 0 and re.search(r"^    \[\w+\]\n    \S+ \(", text.out.decode(), re.M)


def test_native_dump_shows_threads_without_python(any_python):
    needs_ctypes(any_python)
    with Program(any_python, SCENES, "pool", built("scenes", any_python.root)) as program:
        program.ready()
        told = dump(program.pid, "--native")
        assert len(dump(program.pid)["threads"]) == 1
    pool = [thread for thread in told["threads"] if thread["name"] == "pool-thread"]
    assert len(pool) == 2
    for thread in pool:
        assert thread["holds_gil"] is None and thread["state"] == "running"
        names = [frame["name"] for frame in thread["frames"]]
        assert names[-1] == "pool_main" and set(names) <= {"pool_main", "burn_in_c", "burn"}, thread
