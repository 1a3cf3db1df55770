# SPDX-License-Identifier: Apache-2.0
"""Programs that can tell a stack that never was from their functions' names alone.

Each oracle takes the names from <module> on and says whether that stack can be. What a profiler marks as
incomplete is never shown to it.
"""
import dataclasses
import re
import typing

from program import loop_steps


def is_spelled(root):
    """Every name is its caller's with an index more."""

    def check(names):
        return names[0] == root and all(re.fullmatch(re.escape(above) + r"_\d+", below) for above, below in zip(names, names[1:]))

    return check


def is_shared(names):
    top = re.fullmatch(r"top_(\d+)", names[0])
    whole = ["h1", "h2", "h3", "leaf_" + top[1]] if top else []
    return top is not None and names[1:] == whole[:len(names) - 1]


def is_recursion(names):
    depth = {"a": 11, "b": 13, "c": 15}.get(names[0], 0)
    return names[1:] == (["rec"] * depth + ["work"])[:len(names) - 1]


def is_chain(names):
    letter = names[0][0]
    whole = ["%s%d" % (letter, level) for level in range(28)] + ["leaf" + letter]
    return letter in "AB" and names == whole[:len(names)]


def is_coroutine_stack(names):
    order = ["first", "second", "third", "fourth"]
    own = [at for at, name in enumerate(names) if name in order]
    if not own:
        return True
    inner = names[own[0]:own[0] + len(own)]
    above = names[own[-1] + 1:]
    return inner == order[:len(own)] and (not above or (len(own) == 4 and above[0] in ("sleep", "__sleep0")))


def is_one_generation(names):
    return len({match[1] for match in (re.fullmatch(r"(?:ephemeral|leaf)_(\d+)", name) for name in names) if match}) <= 1


@dataclasses.dataclass(frozen=True)
class Oracle:
    title: str
    command: typing.Callable  # of an interpreter
    check: typing.Callable = None
    unproved_aim: str = ""  # per cent after 20 s at 4 kHz


FOREVER = "1e9"
ORACLES = {
    "loop": Oracle("32 frames, 14 us", lambda python: ("moving.py", "-", 32, 14), None, "<= 1"),
    "recursion": Oracle("recursion, 5 us leaf", lambda python: ("recursion.py", FOREVER, loop_steps(python, 5)), is_recursion, "<= 1"),
    "pathtree": Oracle("pathtree, 30 to 300 ns", lambda python: ("pathtree.py", FOREVER), is_spelled("n"), "<= 5"),
    "shared": Oracle("shared helpers, 0.2 us leaf", lambda python: ("sharedmid.py", FOREVER, 5), is_shared, "<= 5"),
    "shared_slow": Oracle("shared helpers, 10 us leaf", lambda python: ("sharedmid.py", FOREVER, 200), is_shared, "<= 5"),
    "generators": Oracle("generator chains 8 deep", lambda python: ("genpath.py", FOREVER), is_spelled("g"), "<= 8"),
    "coroutines": Oracle("200 asyncio tasks", lambda python: ("coroutines.py", "-", 200, 13), is_coroutine_stack, "<= 5"),
    "chains": Oracle("chains that alternate, 1 us leaf", lambda python: ("chains.py", FOREVER, 20), is_chain),
    "chains_slow": Oracle("chains that alternate, 10 us leaf", lambda python: ("chains.py", FOREVER, 200), is_chain),
    "churn": Oracle("code objects that come and go", lambda python: ("churn.py", FOREVER), is_one_generation),
}


def judge(oracle, stacks):
    """(samples that claim to be whole, those that can't be, an example); of others the callers that they are sure of are judged."""
    accepted, impossible, example = 0, 0, ""
    for names, count in stacks.items():
        if "[unproved]" in names[1:]:
            names = names[:names.index("[unproved]")]
        elif any(name.startswith("[") for name in names):
            continue
        else:
            accepted += count
        below = list(names)
        while below and below[0] != "<module>":
            del below[0]
        if not below:
            is_possible = False
        else:
            # Newer versions run a program below frames of their own, and end a recording's first line with it.
            is_possible = len(below) == 1 or oracle.check(below[1:])
        if not is_possible:
            impossible += count
            example = example or ";".join(names)
    return accepted, impossible, example
