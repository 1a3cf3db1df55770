# SPDX-License-Identifier: Apache-2.0
"""Parametrises the live tests over the interpreters of scripts/pythons, and prints the table at the end."""
import collections
import os

import pytest

import harness

outcomes = collections.defaultdict(dict)


def pytest_configure(config):
    if not config.option.collectonly and not harness.PYPROF.exists():
        pytest.exit("%s is missing: cmake --preset release && cmake --build --preset release --target pyprof" % harness.PYPROF, 1)


def pytest_generate_tests(metafunc):
    if "python" in metafunc.fixturenames:
        found = harness.interpreters()
        metafunc.parametrize("python", found, ids=[python.name for python in found])
    if "native_python" in metafunc.fixturenames:
        # The three ways in which a Python stack and a native one are joined; PYPROF_LONG=1 tries every version.
        wanted = () if os.environ.get("PYPROF_LONG") else ("3.9", "3.12", "3.15")
        found = [python for python in harness.interpreters() if not wanted or python.name in wanted]
        metafunc.parametrize("native_python", found or harness.interpreters()[-1:], ids=lambda python: python.name)
    if "any_python" in metafunc.fixturenames:
        # For what does not depend on the version: one interpreter is enough.
        found = [python for python in harness.interpreters() if python.root == "/" and python.has_gil][-1:]
        metafunc.parametrize("any_python", found, ids=[python.name for python in found])


def pytest_collection_modifyitems(items):
    """One interpreter after the other, so that a broken version shows early and together."""
    order = {python.name: number for number, python in enumerate(harness.interpreters())}

    def interpreter(item):
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        python = parameters.get("python") or parameters.get("native_python")
        return python.name if python else None

    items.sort(key=lambda item: order.get(interpreter(item), -1))
    for item in items:
        item.user_properties.append(("python", interpreter(item)))


RANKS = ["skip", "pass", "FAIL"]


def pytest_runtest_logreport(report):
    """A scenario of several tests has the worst of their outcomes."""
    python = dict(report.user_properties).get("python")
    if python is None or not (report.failed or report.skipped or report.when == "call"):
        return
    scenario = report.nodeid.rpartition("::")[2].partition("[")[0][len("test_"):]
    outcome = "FAIL" if report.failed else "skip" if report.skipped else "pass"
    row = outcomes[scenario]
    row[python] = max(row.get(python, "skip"), outcome, key=RANKS.index)


@pytest.fixture
def note(request):
    """Keeps a figure of a test that passed, such as the samples without a proved path, for the summary."""

    def add(text):
        notes.append("%s: %s" % (request.node.name, text))

    return add


notes = []


def pytest_terminal_summary(terminalreporter):
    names = [python.name for python in harness.interpreters()]
    if outcomes:
        width = max(map(len, outcomes))
        terminalreporter.section("version x scenario")
        terminalreporter.write_line(" " * width + "".join("%10s" % name for name in names))
        for scenario, row in outcomes.items():
            cells = "".join("%10s" % row.get(name, ".") for name in names)
            terminalreporter.write_line(scenario.ljust(width) + cells)
    if notes:
        terminalreporter.section("figures")
        for line in notes:
            terminalreporter.write_line(line)
