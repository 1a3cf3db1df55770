# SPDX-License-Identifier: Apache-2.0
"""Figures, as JSON and as Markdown: a table a row of the comparison, a column a Python version."""
import dataclasses
import json
import math


@dataclasses.dataclass
class Figure:
    row: str  # key of ROWS
    name: str  # what is measured, with its unit
    python: str
    profiler: str
    value: float
    aim: str = ""  # "<= 1", ">= 3": what issue 4 asks for
    base: float = None  # the value is a count out of so many
    error: float = None  # standard error, or half the range of several runs, in the value's unit
    runs: int = 1
    noisy: int = 0  # of them disturbed by other work
    note: str = ""

    def is_met(self):
        if not self.aim:
            return True
        sign, limit = self.aim.split()
        return self.value <= float(limit) if sign == "<=" else self.value >= float(limit)

    @property
    def key(self):
        return self.row, self.name, self.python, self.profiler


def number(value):
    if math.isnan(value):
        return "?"
    size = abs(value)
    if size >= 1000:
        return "{:,.0f}".format(value)
    if size >= 100:
        return "%.0f" % value
    if size >= 10:
        return "%.1f" % value
    return "0" if value == 0 else "%.2f" % value if size >= 0.095 else "%.3f" % value


def cell(figure):
    text = number(figure.value)
    if figure.base is not None:
        text += " of " + number(figure.base)
        if figure.value and figure.base:
            text += " (%s %%)" % number(100 * figure.value / figure.base)
    elif figure.error is not None:
        text += " ±" + number(figure.error)
    if figure.noisy:
        text += " ~"
    return text if figure.is_met() else "**%s**" % text


def version_order(name):
    return tuple(int(part) for part in name.split("-")[0].split("."))


def row_table(title, figures):
    pythons = sorted({figure.python for figure in figures}, key=version_order)
    lines = list(dict.fromkeys((figure.name, figure.profiler) for figure in figures))
    found = {figure.key[1:]: figure for figure in figures}
    text = ["### " + title, "", "| figure | profiler | %s | aim |" % " | ".join(pythons), "|---|---|%s---|" % ("---|" * len(pythons))]
    for name, profiler in lines:
        cells = [found.get((name, python, profiler)) for python in pythons]
        aim = next((figure.aim for figure in cells if figure and figure.aim), "")
        text.append("| %s | %s | %s | %s |" % (
            name, profiler, " | ".join(cell(figure) if figure else "" for figure in cells), aim.replace("<=", "≤").replace(">=", "≥")))
    return "\n".join(text)


def misses(figures, titles):
    lines = []
    for row, title in titles.items():
        for figure in figures:
            if figure.row == row and not figure.is_met():
                lines.append("- %s, %s, %s, %s: %s, aim %s%s" % (
                    title, figure.name, figure.python, figure.profiler, cell(figure).strip("*"),
                    figure.aim.replace("<=", "≤").replace(">=", "≥"), "; " + figure.note if figure.note else ""))
    return lines


def machine_text(machine, versions, conditions):
    kind = "virtual machine" if machine["virtual"] else "machine"
    peers = ", ".join("%s %s" % item for item in versions.items() if item[1])
    text = ["A %d-core %s, %s, %d GiB, Linux %s. %s." % (
        machine["cores"], kind, machine["processor"], machine["memory_gib"], machine["kernel"], peers)]
    text.append("Target and profiler %s%s." % (
        "each had a core" if machine["own_cores"] else "shared the only core",
        ", both under SCHED_RR (a target of several threads: nice -20)" if machine["real_time"] else ""))
    text.append(conditions)
    return " ".join(text)


def markdown(data, titles):
    figures = [Figure(**fields) for fields in data["figures"]]
    text = [machine_text(data["machine"], data["versions"], data["conditions"]), ""]
    missed = misses(figures, titles)
    text += ["## Below its aim", "", *(missed or ["Nothing."]), "", "## All figures", ""]
    for row, title in titles.items():
        of_row = [figure for figure in figures if figure.row == row]
        if of_row:
            text += [row_table(title, of_row), ""]
    return "\n".join(text).rstrip() + "\n"


def merge(old, figures):
    """The figures of a new run over those of an earlier one: a cell that was measured again is replaced."""
    new = {figure.key for figure in figures}
    kept = [figure for figure in map(lambda fields: Figure(**fields), old) if figure.key not in new]
    return [dataclasses.asdict(figure) for figure in [*kept, *figures]]


def write(path, data):
    with open(path, "w") as file:
        json.dump(data, file, indent=1)
        file.write("\n")
