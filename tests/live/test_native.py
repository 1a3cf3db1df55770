# SPDX-License-Identifier: Apache-2.0
"""record --native: Python and C frames in the order in which the program called them."""
from harness import Program, plain, record



def test_native_callbacks(python, tmp_path, note):
    with Program(python, "callbacks.py") as program:
        program.ready()
        recording = record(program.pid, tmp_path, 2, 200, "--native")
        stacks = [([plain(frame.name) for frame in stack], count) for stack, count in recording.profile.stacks]
    stats = recording.stats
    note("%d native, %d cut, %d unplaced, %d none" % tuple(
        stats["native" + suffix] for suffix in ("", "_cut", "_unplaced", "_none")))
    assert stats["native"] > 0
    assert stats["native_unplaced"] == 0
    for names, _ in stacks:
        # Nothing of the loop is shown, and nothing below the program's first frame.
        assert names[0] in ("<module>", "[unproved]"), names
        assert not {"_PyEval_EvalFrameDefault", "_start", "main", "clone3"} & set(names), names
        # A callback is called by the C function, not beside it.
        if "builtin_sorted" in names and "key" in names:
            assert names.index("work") < names.index("builtin_sorted") < names.index("key"), names


def test_native_nonblocking_stops_nothing(any_python, tmp_path):
    with Program(any_python, "callbacks.py") as program:
        program.ready()
        recording = record(program.pid, tmp_path, 1, 100, "--native", "--nonblocking")
    assert recording.stats["stops"] == 0
    assert recording.profile.total > 0
