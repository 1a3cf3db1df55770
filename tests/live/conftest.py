# SPDX-License-Identifier: Apache-2.0
"""Parametrises the live tests over the interpreters of scripts/pythons, and prints the table at the end."""
import collections

import pytest

import harness

outcomes = collections.defaultdict(dict)


def pytest_configure(config):
    if not config.option.collectonly and not harness.PYPROF.exists():
        pytest.exit("%s is missing: cmake --preset release && cmake --build --preset release" % harness.PYPROF, 1)


def pytest_generate_tests(metafunc):
    if "python" in metafunc.fixturenames:
        found = harness.interpreters()
        metafunc.parametrize("python", found, ids=[python.name for python in found])
    if "any_python" in metafunc.fixturenames:
        # For what does not depend on the version: one interpreter is enough.
        found = [python for python in harness.interpreters() if python.root == "/" and python.has_gil][-1:]
        metafunc.parametrize("any_python", found, ids=[python.name for python in found])


def pytest_collection_modifyitems(items):
    """One interpreter after the other, so that a broken version shows early and together."""
    order = {python.name: number for number, python in enumerate(harness.interpreters())}

    def interpreter(item):
        python = getattr(item, "callspec", None) and item.callspec.params.get("python")
        return order[python.name] if python else -1

    items.sort(key=interpreter)


def pytest_runtest_logreport(report):
    if "[" not in report.nodeid:
        return
    scenario, _, rest = report.nodeid.rpartition("::")[2].partition("[")
    python = rest.rstrip("]").split("-in-")[0]
    scenario = scenario[len("test_"):]
    if report.failed:
        outcomes[scenario][python] = "FAIL"
    elif report.skipped:
        outcomes[scenario].setdefault(python, "skip")
    elif report.when == "call":
        outcomes[scenario].setdefault(python, "pass")


@pytest.fixture
def note(request):
    """Keeps a figure of a test that passed, such as the samples without a proved path, for the summary."""

    def add(text):
        notes.append("%s: %s" % (request.node.name, text))

    return add


notes = []


def pytest_terminal_summary(terminalreporter):
    names = [python.name for python in harness.interpreters()]
    matrix = {scenario: row for scenario, row in outcomes.items() if set(row) & set(names)}
    if matrix:
        width = max(map(len, matrix))
        terminalreporter.section("version x scenario")
        terminalreporter.write_line(" " * width + "".join("%10s" % name for name in names))
        for scenario, row in matrix.items():
            cells = "".join("%10s" % row.get(name, ".") for name in names)
            terminalreporter.write_line(scenario.ljust(width) + cells)
    if notes:
        terminalreporter.section("figures")
        for line in notes:
            terminalreporter.write_line(line)
