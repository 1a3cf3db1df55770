# SPDX-License-Identifier: Apache-2.0
"""Several interpreters in one process."""
import pytest

from harness import Program, record


def start(python, *arguments):
    program = Program(python, *arguments)
    with_none = program.report()["interpreters"] == 0
    if with_none:
        program.__exit__()
        pytest.skip("this interpreter has no module for sub-interpreters")
    return program


def test_no_stack_holds_two_interpreters(python, tmp_path):
    """record does not join them: what it can't tell for sure it does not claim."""
    with start(python, "inner_loops.py", 60) as program:
        profile = record(program.pid, tmp_path, 2, 1000, "-F", "-t", codes=(0, 6)).profile
    for stack, _ in profile.stacks:
        names = [frame.name for frame in stack]
        assert not ("take_turns" in names and any(name.startswith("inner_") for name in names)), names
