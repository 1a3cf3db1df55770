#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What --async costs and how much of it is true, on a machine that does nothing else:

    tests/bench/async_rows.py [--seconds 10] [--stacks 1000000] [--pythons "3.12 3.15"]

Rows: looks at 200 tasks in a second, refused paths of 200 tasks that step one after the other, reads of a loop at
rest, 10,000 sleeping tasks beside a busy one, and false paths in a tree of tasks whose functions are named by their path.
"""
import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "live"))


def percent(part, whole):
    return 100 * part / whole if whole else 0.0


def names_in(stack, file):
    return [harness.plain(frame.name) for frame in stack if not frame.is_marker and frame.file.endswith(file)]


def looks_at_200(python, seconds, scratch):
    """All of 200 tasks, as often as can be: tasks that wait (beside one that works), and tasks that step."""
    for kind, program, arguments in (("waiting", "many.py", [200]), ("stepping", "steps.py", [600, 200])):
        with harness.Program(python, "async/" + program, *arguments) as target:
            recording = harness.record(target.ready().pid, scratch, seconds, 5000, "--async=all")
        stats = recording.stats
        yield "200 %s tasks, looks/s" % kind, stats["task_looks"] / stats["elapsed_s"]
        # While a step goes on nothing moves: such a tick needs no look.
        yield "200 %s tasks, ticks/s that show all" % kind, stats["task_samples"] / stats["elapsed_s"] / 200


def refused(python, seconds, scratch):
    with harness.Program(python, "async/steps.py", 600, 200) as target:
        recording = harness.record(target.ready().pid, scratch, seconds, 100, "--async=all")
    stats = recording.stats
    yield "200 stepping tasks, refused %", percent(stats["tasks_torn"], stats["tasks_torn"] + stats["task_samples"])
    yield "200 stepping tasks, processor %", 100 * stats["profiler_cpu_s"] / stats["elapsed_s"]
    yield "200 stepping tasks, unlinked %", percent(stats["tasks_unlinked"], stats["samples"])
    mixed = 0
    for stack, count in recording.profile.stacks:
        numbers = {name.rsplit("_", 1)[1] for name in names_in(stack, "steps.py") if re.search(r"_\d+$", name)}
        mixed += count if len(numbers) > 1 and any(frame.name.startswith("[task") for frame in stack) else 0
    yield "200 stepping tasks, stacks of two tasks", mixed


def at_rest(python, seconds, scratch):
    """A loop whose thread sleeps: reads of the target a tick."""
    with harness.Program(python, "async/waiting.py") as target:
        target.report()
        recording = harness.record(target.ready().pid, scratch, seconds, 1000, "--async=all")
    stats = recording.stats
    yield "loop at rest, reads a tick", stats["remote_reads"] / stats["ticks"]
    yield "loop at rest, processor %", 100 * stats["profiler_cpu_s"] / stats["elapsed_s"]


def ten_thousand(python, seconds, scratch):
    with harness.Program(python, "async/many.py", 10000) as target:
        recording = harness.record(target.ready().pid, scratch, seconds, 100, "--async=all")
    stats = recording.stats
    yield "10,000 tasks, weight of sleepers %", percent(recording.profile.containing("sleeper"), 10000 * stats["ticks"])
    yield "10,000 tasks, busy one in ticks %", percent(recording.profile.containing("work"), stats["ticks"])
    yield "10,000 tasks, processor %", 100 * stats["profiler_cpu_s"] / stats["elapsed_s"]
    yield "10,000 tasks, looks", stats["task_looks"]
    yield "10,000 tasks, MB copied", stats["remote_bytes"] / 1e6


def path_is_spelled(names):
    return all(re.fullmatch(re.escape(above) + r"_\d", below) for above, below in zip(names, names[1:]))


def false_paths(python, stacks, scratch):
    for kind, trees in (("busy", 20), ("wait", 200)):
        seen, false = 0, []
        with harness.Program(python, "async/pathtasks.py", 36000, trees, kind) as target:
            target.ready()
            while seen < stacks:
                recording = harness.record(target.pid, scratch, 20, 1000, "--async=all", "-F", "--no-inferred")
                seen += recording.stats["task_samples"]
                for stack, count in recording.profile.stacks:
                    if not any(frame.name.startswith("[task") for frame in stack):
                        continue
                    names = names_in(stack, "tree.py")
                    below_main = any(frame.name == "[task main]" for frame in stack)
                    if names and (below_main and names[0] != "n" or not path_is_spelled(names)):
                        false.append(names)
        yield "false paths of %d task stacks (%s)" % (seen, kind), len(false)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--stacks", type=int, default=1_000_000)
    parser.add_argument("--pythons", default="3.12 3.15")
    parser.add_argument("--rows", default="looks refused rest many false")
    options = parser.parse_args()
    os.environ["PYPROF_PYTHONS"] = options.pythons
    global harness
    import harness
    for python in harness.interpreters():
        with tempfile.TemporaryDirectory() as directory:
            scratch = Path(directory)
            rows = {
                "looks": lambda: looks_at_200(python, options.seconds, scratch),
                "refused": lambda: refused(python, options.seconds, scratch),
                "rest": lambda: at_rest(python, options.seconds, scratch),
                "many": lambda: ten_thousand(python, options.seconds, scratch),
                "false": lambda: false_paths(python, options.stacks, scratch),
            }
            for row in options.rows.split():
                for name, value in rows[row]():
                    print("%-8s %-50s %12.2f" % (python.name, name, value), flush=True)


if __name__ == "__main__":
    main()
