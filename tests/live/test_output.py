# SPDX-License-Identifier: Apache-2.0
"""Where the output goes and what stands in it. None of it depends on the version: one interpreter."""
import json
import os
import signal
import stat
import subprocess
import threading
import time
import xml.etree.ElementTree

import pytest

import harness
from harness import Collapsed, Program, pyprof


@pytest.fixture
def busy(any_python):
    with Program(any_python, "split.py", 120) as program:
        yield program.ready()


def record_to(program, out, *options, **keywords):
    return pyprof("record", "--pid", program.pid, "-d", 0.3, "-r", 200, "-o", out, *options, **keywords)


def test_regular_file_is_replaced_by_rename(busy, tmp_path):
    out = tmp_path / "out.txt"
    out.write_text("old\n")
    before = out.stat().st_ino
    with open(out) as old:
        result = record_to(busy, out, "-f", "collapsed")
        assert result.code == 0, result.err
        assert old.read() == "old\n"
    assert out.stat().st_ino != before
    assert Collapsed(out.read_text()).total > 0
    assert os.listdir(tmp_path) == ["out.txt"]


def test_symbolic_link_is_followed(busy, tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "real.txt", tmp_path / "link.txt"
    target.write_text("old\n")
    link.symlink_to("there/real.txt")
    assert record_to(busy, link, "-f", "collapsed").code == 0
    assert link.is_symlink()
    assert Collapsed(target.read_text()).total > 0
    assert os.listdir(tmp_path / "there") == ["real.txt"]


def test_dangling_link_creates_its_target(busy, tmp_path):
    (tmp_path / "link.txt").symlink_to("new.txt")
    assert record_to(busy, tmp_path / "link.txt", "-f", "collapsed").code == 0
    assert (tmp_path / "link.txt").is_symlink()
    assert Collapsed((tmp_path / "new.txt").read_text()).total > 0


def test_dev_null_stays_a_device(busy):
    assert record_to(busy, "/dev/null", "-f", "collapsed").code == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_fifo_is_written_in_place(busy, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()), daemon=True)
    reader.start()
    assert record_to(busy, fifo, "-f", "collapsed").code == 0
    reader.join(harness.PATIENCE)
    assert Collapsed(read[0]).total > 0
    assert stat.S_ISFIFO(fifo.stat().st_mode)


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_stdout_pipe(busy, name):
    result = record_to(busy, name, "-f", "collapsed")
    assert result.code == 0
    assert Collapsed(result.out.decode()).total > 0


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_stdout_file_is_written_in_place(busy, tmp_path, name):
    out = tmp_path / "redirected.txt"
    with open(out, "wb") as stdout:
        before = out.stat().st_ino
        subprocess.run(
            [harness.PYPROF, "record", "--pid", str(busy.pid), "-d", "0.3", "-f", "collapsed", "-o", name],
            stdout=stdout, stderr=subprocess.DEVNULL, check=True, timeout=harness.PATIENCE,
        )
    assert out.stat().st_ino == before
    assert Collapsed(out.read_text()).total > 0
    assert os.listdir(tmp_path) == ["redirected.txt"]


def test_unwritable_output_is_said_before_sampling(busy, tmp_path):
    (tmp_path / "directory").mkdir()
    for out in ("/no/such/directory/out.svg", tmp_path / "directory", "/proc/version/out.svg"):
        start = time.monotonic()
        result = pyprof("record", "--pid", busy.pid, "-d", 60, "-o", out)
        assert result.code == harness.EXIT_FAILURE
        assert str(out) in result.err
        assert time.monotonic() - start < 30
    assert os.listdir(tmp_path) == ["directory"]


def test_interrupt_ends_the_recording_and_writes(busy, tmp_path):
    out = tmp_path / "out.txt"
    recorder = harness.start_recording(tmp_path, "--pid", busy.pid, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    harness.wait_for_samples(recorder, tmp_path)
    recorder.send_signal(signal.SIGINT)
    assert recorder.wait(timeout=harness.PATIENCE) == 0
    assert Collapsed(out.read_text()).total > 0
    assert sorted(os.listdir(tmp_path)) == ["out.txt", "stats.json"]


def test_format_follows_the_ending(busy, tmp_path):
    assert record_to(busy, tmp_path / "a.svg").code == 0
    assert record_to(busy, tmp_path / "a.speedscope.json").code == 0
    assert record_to(busy, tmp_path / "a.txt", "-f", "speedscope").code == 0
    root = xml.etree.ElementTree.parse(tmp_path / "a.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    for name in ("a.speedscope.json", "a.txt"):
        assert "speedscope" in json.loads((tmp_path / name).read_text())["$schema"]


def test_svg_says_what_it_is(busy, tmp_path):
    assert record_to(busy, tmp_path / "a.svg").code == 0
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "split.py" in text and str(busy.pid) in text
    assert "slow" in text
    # One file that needs nothing else.
    for outside in ('src="http', "@import", 'href="http', "url(http"):
        assert outside not in text
    assert record_to(busy, tmp_path / "b.svg", "--inverted").code == 0
    xml.etree.ElementTree.parse(tmp_path / "b.svg")


def test_speedscope_adds_up(busy, tmp_path):
    assert record_to(busy, tmp_path / "a.json", "-f", "speedscope").code == 0
    document = json.loads((tmp_path / "a.json").read_text())
    frames = document["shared"]["frames"]
    assert document["profiles"]
    for profile in document["profiles"]:
        assert profile["type"] == "sampled"
        assert len(profile["samples"]) == len(profile["weights"]) > 0
        assert all(0 <= index < len(frames) for sample in profile["samples"] for index in sample)
        span = profile["endValue"] - profile["startValue"]
        assert sum(profile["weights"]) <= span * 1.001 + 1e-6
    assert any("slow" in frame["name"] for frame in frames)


def test_labels(busy, tmp_path):
    out = tmp_path / "out.txt"
    assert record_to(busy, out, "-f", "collapsed").code == 0
    short = Collapsed(out.read_text())
    assert any(frame.name == "slow" and os.path.basename(frame.file) == "split.py" and frame.line > 0
               for stack, _ in short.stacks for frame in stack)
    assert record_to(busy, out, "-f", "collapsed", "-F").code == 0
    assert all(frame.line == 0 for stack, _ in Collapsed(out.read_text()).stacks for frame in stack)
    assert record_to(busy, out, "-f", "collapsed", "--full-filenames").code == 0
    script = str(harness.PROGRAMS / "split.py")
    assert any(frame.file == script for stack, _ in Collapsed(out.read_text()).stacks for frame in stack)


def test_empty_profile_is_a_valid_file(any_python, tmp_path):
    with Program(any_python, "oracle.py") as program:
        program.report_and_rest()
        for name in ("a.svg", "a.speedscope.json", "a.collapsed"):
            options = ["-f", "collapsed"] if name.endswith("collapsed") else []
            result = record_to(program, tmp_path / name, *options)
            assert result.code == harness.EXIT_NO_SAMPLES
            assert result.err.strip()
        program.finish()
    xml.etree.ElementTree.parse(tmp_path / "a.svg")
    assert "$schema" in json.loads((tmp_path / "a.speedscope.json").read_text())
    assert (tmp_path / "a.collapsed").read_text() == ""


def test_rates_and_durations(busy, tmp_path):
    """"10k", fractions, seconds with and without their letter."""
    stats = tmp_path / "stats.json"
    for rate, duration, ticks in (("1k", "0.5s", 500), ("2.5", "1", 2.5), ("0.2k", "500ms", 100)):
        result = pyprof("record", "--pid", busy.pid, "-r", rate, "-d", duration, "-f", "collapsed", "-o",
                        "/dev/null", "--stats", stats)
        if duration.endswith("ms") and result.code == harness.EXIT_USAGE:
            continue  # milliseconds are nobody's promise
        assert result.code in (0, harness.EXIT_NO_SAMPLES), result.err
        # A few samples of a slow rate spread widely: only the order of size is claimed.
        told = json.loads(stats.read_text())
        assert ticks * 0.3 <= told["ticks"] + told["late"] <= ticks * 1.5 + 6
