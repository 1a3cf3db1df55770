# SPDX-License-Identifier: Apache-2.0
"""What the live tests share: interpreters, running programs, pyprof itself and what it wrote.

Nothing here sleeps to be safe: a test waits on a program's pipe, or polls for what it wants to see. How much a
machine does in a second is nobody's promise: what needs many samples records until it has them (record_until).
"""
import dataclasses
import functools
import hashlib
import json
import math
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs"
PYPROF = Path(os.environ.get("PYPROF", ROOT / "build" / "release" / "pyprof"))
# Long enough for a debug build on a busy machine; a hang is what it is meant to find.
PATIENCE = 60.0

EXIT_FAILURE, EXIT_USAGE, EXIT_NO_PROCESS, EXIT_NOT_PYTHON, EXIT_NO_SAMPLES = 1, 2, 3, 5, 6
EXIT_OWN_FAILURE, EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND = 125, 126, 127


# --- interpreters -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Interpreter:
    name: str
    text: str
    kind: str
    root: str
    command: tuple

    @property
    def version(self):
        return tuple(int(part) for part in re.findall(r"\d+", self.text)[:3])

    @property
    def has_gil(self):
        return self.kind != "freethreaded"

    @property
    def has_qualified_names(self):
        return self.version >= (3, 11)

    def program(self, name):
        """The path of a program of tests/programs as this interpreter sees it."""
        return os.path.join(visible_programs(self.root), name)


@functools.lru_cache(maxsize=None)
def interpreters_of_all():
    """Those of scripts/pythons."""
    # Its status says whether any is missing: that is for scripts/test to judge.
    listing = subprocess.run([ROOT / "scripts" / "pythons", "--tsv"], stdout=subprocess.PIPE, text=True).stdout
    found = []
    for line in listing.splitlines():
        name, text, kind, root, command = line.split("\t")
        found.append(Interpreter(name, text, kind, root, tuple(command.split())))
    return tuple(found)


def interpreters():
    """Those to be tested: PYPROF_PYTHONS="3.12 3.15d" restricts them."""
    wanted = os.environ.get("PYPROF_PYTHONS", "").split()
    return tuple(python for python in interpreters_of_all() if not wanted or python.name in wanted)


@functools.lru_cache(maxsize=None)
def visible_programs(root):
    if root == "/":
        return str(PROGRAMS)
    # Two checkouts may test at the same time, each with programs of its own.
    inside = "/srv/pyprof/" + hashlib.sha256(str(PROGRAMS).encode()).hexdigest()[:12]
    shutil.copytree(PROGRAMS, root + inside, dirs_exist_ok=True)
    return inside


@functools.lru_cache(maxsize=None)
def built(name, root, *flags):
    """A library made of tests/programs/native/NAME.c, as interpreters below `root` see it: its path."""
    stem = "%s-%s" % (name, hashlib.sha256(" ".join(flags).encode()).hexdigest()[:6]) if flags else name
    library = Path(BUILT.name) / (stem + ".so")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-pthread", "-O1", "-g", "-fno-optimize-sibling-calls", *flags, "-o", library,
         PROGRAMS / "native" / (name + ".c")], check=True)
    if root == "/":
        return str(library)
    inside = os.path.join(visible_programs(root), "native", library.name)
    shutil.copy(library, root + inside)
    return inside


BUILT = tempfile.TemporaryDirectory(prefix="pyprof-native-")


# --- running programs ---------------------------------------------------------------------------


class Program:
    """A program of tests/programs under one interpreter; ends with the block that it was opened in."""

    def __init__(self, python, name, *arguments, prefix=(), variables=None):
        command = [*prefix, *python.command, python.program(name), *map(str, arguments)]
        environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **(variables or {}))
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd="/",
            start_new_session=True,
        )
        self.pid = self.process.pid
        self.pending = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The whole session: a child of the program would hold the pipes open.
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def line(self, patience=PATIENCE):
        """The next line that the program prints."""
        end = time.monotonic() + patience
        while b"\n" not in self.pending:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise AssertionError("the program printed nothing for %d s" % patience)
            chunk = os.read(self.process.stdout.fileno(), 65536)
            assert chunk, "the program ended early, status %r" % self.process.wait()
            self.pending += chunk
        line, self.pending = self.pending.split(b"\n", 1)
        return line.decode()

    def ready(self):
        assert self.line() == "ready"
        return self

    def report(self):
        """What the program says of itself."""
        return json.loads(self.line())

    def report_and_rest(self):
        """The same of a program that comes to rest behind it, where it waits for us."""
        told = self.report()
        wait_until(lambda: set(self.thread_states().values()) <= {"S"})
        return told

    def finish(self):
        """Closes stdin and returns what the program still prints; it must end well."""
        self.process.stdin.close()
        self.process.stdin = None
        rest, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0
        return (self.pending + rest).decode()

    def status(self, key):
        """A field of /proc/PID/status."""
        text = Path("/proc/%d/status" % self.pid).read_text()
        return re.search(r"^%s:\s*(\S+)" % key, text, re.M).group(1)

    def thread_states(self):
        """The kernel's state letter of each thread, by native id."""
        states = {}
        for task in Path("/proc/%d/task" % self.pid).iterdir():
            try:
                states[int(task.name)] = (task / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                pass
        return states


def wait_until(condition, patience=PATIENCE):
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "waited in vain for " + condition.__name__
        time.sleep(0.01)


# --- running pyprof -----------------------------------------------------------------------------


@dataclasses.dataclass
class Result:
    code: int
    out: bytes
    err: str


def pyprof(*arguments, stdin=b"", patience=PATIENCE, prefix=()):
    command = [*prefix, str(PYPROF), *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=patience, cwd="/")
    return Result(done.returncode, done.stdout, done.stderr.decode(errors="replace"))


def dump(pid, *options):
    """`pyprof dump --json`, which must succeed."""
    result = pyprof("dump", "--pid", pid, "--json", *options)
    assert result.code == 0, result.err
    return json.loads(result.out.decode("utf-8"))


@dataclasses.dataclass(frozen=True)
class Frame:
    name: str
    file: str
    line: int

    @property
    def is_marker(self):
        return self.file is None


MARKER = Frame("", None, 0)
LABEL = re.compile(r"^(?P<name>.*) \((?P<file>.*?)(?::(?P<line>\d+))?\)$")


def parse_label(label):
    match = LABEL.match(label)
    if match is None:
        assert label.startswith("[") and label.endswith("]"), "neither a frame nor a marker: %r" % label
        return Frame(label, None, 0)
    return Frame(match["name"], match["file"], int(match["line"] or 0))


class Collapsed:
    """A file of collapsed stacks: (frames from the root on, samples) for each line."""

    def __init__(self, text):
        self.stacks = []
        for line in text.splitlines():
            stack, count = line.rsplit(" ", 1)
            self.stacks.append((tuple(parse_label(label) for label in stack.split(";")), int(count)))

    @property
    def total(self):
        return sum(count for _, count in self.stacks)

    def where(self, predicate):
        """The samples whose stack the predicate accepts."""
        return sum(count for stack, count in self.stacks if predicate(stack))

    def with_leaf(self, name):
        return self.where(lambda stack: plain(stack[-1].name) == name)

    def containing(self, name):
        return self.where(lambda stack: any(plain(frame.name) == name for frame in stack))

    def by_thread(self):
        """Samples by thread name; needs record --threads. A suffix that tells threads apart is cut."""
        counts = {}
        for stack, count in self.stacks:
            match = re.match(r"^\[thread (.*?)( \(\d+\))?\]$", stack[0].name)
            assert match, "no root frame of a thread: %r" % (stack[0],)
            counts[match[1]] = counts.get(match[1], 0) + count
        return counts


def plain(name):
    """The function's own name: what stands last in a qualified one."""
    return name.rsplit(".", 1)[-1]


@dataclasses.dataclass
class Recording:
    profile: Collapsed
    stats: dict
    result: Result


def record(pid, directory, seconds, rate, *options, codes=(0,)):
    """`pyprof record -f collapsed` of a running process."""
    out, stats = directory / "out.txt", directory / "stats.json"
    result = pyprof(
        "record", "--pid", pid, "-d", seconds, "-r", rate, "-f", "collapsed", "-o", out,
        "--stats", stats, *options, patience=PATIENCE + float(seconds),
    )
    assert result.code in codes, result.err
    return Recording(Collapsed(out.read_text(encoding="utf-8")), json.loads(stats.read_text()), result)


def record_until(enough, pid, directory, seconds, rate, *options):
    """record(), again and again until its profile holds enough, however slow the machine is."""
    end = time.monotonic() + PATIENCE
    recording = record(pid, directory, seconds, rate, *options)
    while not enough(recording.profile) and time.monotonic() < end:
        more = record(pid, directory, seconds, rate, *options)
        recording.profile.stacks += more.profile.stacks
        recording.stats = {key: recording.stats[key] + more.stats[key] for key in more.stats}
    assert enough(recording.profile), "too few samples to say anything, in %d s" % PATIENCE
    return recording


def start_recording(directory, *options, rate=200, **more):
    """A recording into out.txt and stats.json that goes on until it is told to end."""
    return subprocess.Popen(
        [PYPROF, "record", "-r", str(rate), "-f", "collapsed", "-o", directory / "out.txt", "--stats", directory / "stats.json",
         *map(str, options)], **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more})


def written(path):
    return path.exists() and Collapsed(path.read_text()).total > 0


def wait_for_samples(process, directory, condition=lambda: True):
    """Has such a recording write what it has until there are samples and the condition holds."""
    # Before pyprof waits for signals this one would end it; the outputs are opened later than that.
    wait_until(lambda: any(path.name.startswith(".out.txt") or path.name == "out.txt" for path in directory.iterdir()))

    end, pause = time.monotonic() + PATIENCE, 0.02
    while not (written(directory / "out.txt") and condition()):
        assert process.poll() is None, "the recording ended: %s" % process.returncode
        assert time.monotonic() < end, "no samples, or not what was waited for"
        process.send_signal(signal.SIGUSR1)
        time.sleep(pause)
        pause = min(2 * pause, 1)  # each writes a line into a pipe that nobody reads yet


# --- statistics ---------------------------------------------------------------------------------

# At most 10 statistical claims for each of at most 20 interpreters: 200. A claim that is true fails
# when a normal deviate goes beyond 6.3 standard deviations, 3.0e-10 on both sides together; in all
# 6e-8, well below one false alarm in a million runs. The rest allows for the normal approximation.
DEVIATIONS = 6.3
# What no sampling error covers: the program's own clock reads and loops, and one process against the next.
SYSTEMATIC = 0.03


def share_is_near(found, total, truth):
    """Whether found of total independent samples agree with a share that the program measured itself."""
    error = math.sqrt(max(truth * (1 - truth), 1e-4) / total)
    return abs(found / total - truth) <= DEVIATIONS * error + SYSTEMATIC
