# SPDX-License-Identifier: Apache-2.0
"""How true: samples without a proved path, impossible stacks, shares against a stopped truth and the program's clock."""
import collections
import math
import random
import re
import subprocess

import machine
import measure
from oracles import FOREVER, ORACLES, judge
from peers import BUILD, OTHERS, PYPROFS, Pyprof, Request, available, collapsed_names, harness
from program import Program, place_of
from table import Figure


# --- samples without a proved path --------------------------------------------------------------


def percent(part, whole):
    return 100 * part / whole if whole else float("nan")


def unproved_figures(python, oracle, runs):
    """Of one profiler: what it kept without a path, and what it dropped, of all that it looked at."""
    figures = []
    for name, found in runs.items():
        counts = [run.counts for run in found]
        looked = [c.accepted + c.unproved + c.refused for c in counts]
        is_own = name.startswith("pyprof")
        share = [percent(c.unproved + c.refused, n) for c, n in zip(counts, looked)]
        figures.append(Figure("unproved", oracle.title + ", %", python.name, name, measure.median(share),
                              oracle.unproved_aim if is_own else "", error=measure.half_range(share),
                              runs=len(found), noisy=measure.noisy(found)))
        if is_own:
            dropped = [percent(c.refused + c.stats["lost"], n) for c, n in zip(counts, looked)]
            inferred = [percent(c.stats["inferred"], n) for c, n in zip(counts, looked)]
            figures.append(Figure("unproved", oracle.title + ", dropped, %", python.name, name, measure.median(dropped)))
            figures.append(Figure("unproved", oracle.title + ", callers inferred, %", python.name, name, measure.median(inferred)))
    return figures


def unproved(python, settings):
    figures = []
    for oracle in ORACLES.values():
        if not oracle.unproved_aim:
            continue
        with Program(python, *oracle.command(python)) as program:
            own, other = Request(settings.unproved_seconds, 4000), Request(settings.seconds, 4000)
            tasks = {p.name: lambda p=p: measure.record(p, program, own) for p in PYPROFS}
            tasks.update({p.name: lambda p=p: measure.record(p, program, other) for p in available(python, OTHERS)})
            figures += unproved_figures(python, oracle, measure.interleaved(tasks, settings.repeats))
    return figures


# --- impossible stacks --------------------------------------------------------------------------


def judged_until(profiler, program, oracle, wanted, rate):
    """Recordings of a minute at most until so many samples were accepted, or one brings no more."""
    accepted, impossible, example, noisy, runs = 0, 0, "", 0, 0
    while accepted < wanted:
        seconds = min(60, max(2, 1.1 * (wanted - accepted) / rate))
        run = measure.record_once(profiler, program, Request(seconds, rate, wants_stacks=True))
        more, wrong, first = judge(oracle, run.stacks)
        accepted, impossible, example = accepted + more, impossible + wrong, example or first
        noisy += run.delay > measure.DELAY_LIMIT
        runs += 1
        if more < rate * seconds / 100:
            break
    return accepted, impossible, example, noisy, runs


def impossible(python, settings):
    figures = []
    for oracle in ORACLES.values():
        if oracle.check is None:
            continue
        with Program(python, *oracle.command(python)) as program:
            for profiler in available(python):
                is_own = profiler in PYPROFS
                wanted = settings.oracle_samples if is_own else settings.peer_samples
                rate = 10_000 if is_own else 1_000
                try:
                    accepted, wrong, example, noisy, runs = judged_until(profiler, program, oracle, wanted, rate)
                except RuntimeError as error:
                    measure.say("%s: %s" % (profiler.name, error))
                    continue
                if example:
                    measure.say("%s, %s, %s: impossible: %s" % (python.name, oracle.title, profiler.name, example))
                figures.append(Figure("impossible", oracle.title, python.name, profiler.name, wrong,
                                      "<= 0" if is_own else "", base=accepted, runs=runs, noisy=noisy, note=example))
    return figures


# --- bias against the program's own clock -------------------------------------------------------

LENGTHS = (1, 2, 5, 10, 20)


def line_samples(text, lines):
    """Samples by line of run(): that of the function that it calls, else its own; and those whose two differ."""
    samples, differ, rest = collections.Counter(), 0, 0
    for row in text.splitlines():
        stack, _, count = row.rpartition(" ")
        frames = [harness.parse_label(label) for label in stack.split(";")]
        called = [int(found[1]) for found in (re.fullmatch(r"takes_(\d+)", harness.plain(frame.name)) for frame in frames) if found]
        own = [lines[frame.line] for frame in frames if harness.plain(frame.name) == "run" and frame.line in lines]
        if called and own and called[0] != own[-1]:
            differ += int(count)
        length = called[0] if called else own[-1] if own else None
        if length is None:
            rest += int(count)
        else:
            samples[length] += int(count)
    return samples, differ, rest


def deviations(found, total, truth):
    return (found / total - truth) / math.sqrt(truth * (1 - truth) / total)


def clock(python, settings):
    """Shares of the lines that call functions of 1 to 20 us, in standard errors from the program's own account."""
    figures = []
    with Program(python, "timed.py", Program.COUNTS, slots=len(LENGTHS)) as program:
        lines = dict(zip(map(int, program.ready_words[1:]), LENGTHS))
        out = place_of(python).scratch + "/profile"
        for profiler in PYPROFS:
            for rate in (1000, 4000):
                before = program.counts()
                run = measure.record(profiler, program, Request(settings.bias_seconds, rate))
                spent = [after - first for after, first in zip(program.counts(), before)]
                samples, differ, rest = line_samples(open(out).read(), lines)
                total = sum(samples.values())
                by_length = {length: deviations(samples[length], total, own / sum(spent)) for length, own in zip(LENGTHS, spent)}
                worst = max(by_length, key=lambda length: abs(by_length[length]))
                note = "; ".join("%d us: %+.2f" % item for item in by_length.items())
                figures.append(Figure("clock", "worst of 5 shares at %d Hz, standard errors" % rate, python.name, profiler.name,
                                      abs(by_length[worst]), "<= 3", noisy=measure.noisy([run]), note=note))
                figures.append(Figure("clock", "caller's line and callee differ at %d Hz" % rate, python.name, profiler.name,
                                      differ, "<= 0", base=total))
                figures.append(Figure("clock", "on no line at %d Hz" % rate, python.name, profiler.name, rest, base=total + rest))
    return figures


# --- bias against a stopped truth ---------------------------------------------------------------


def stopped_truth(program, seconds):
    command = [*machine.pinned(machine.PROFILER_CORE), BUILD / "tests/bench/truth", str(program.pid), "%g" % seconds, "2000"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/")
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return collapsed_names(done.stdout, harness.plain)


def subsample(stacks, size, rng):
    return collections.Counter(rng.sample(list(stacks.elements()), size))


def variation_distance(a, b):
    """Half the sum of the differences of shares: 0 for equal distributions, 1 for disjoint ones."""
    total_a, total_b = sum(a.values()), sum(b.values())
    return sum(abs(a[key] / total_a - b[key] / total_b) for key in a.keys() | b.keys()) / 2


def leaf_deviations(profile, truth):
    """The largest difference of a leaf's share in standard errors of the difference."""
    leaves = [collections.Counter(), collections.Counter()]
    for counter, stacks in zip(leaves, (profile, truth)):
        for names, count in stacks.items():
            counter[names[-1]] += count
    sizes = [sum(counter.values()) for counter in leaves]
    worst = 0.0
    for name in leaves[0].keys() | leaves[1].keys():
        pooled = (leaves[0][name] + leaves[1][name]) / sum(sizes)
        if pooled * min(sizes) < 25:  # too few for a normal deviate
            continue
        error = math.sqrt(pooled * (1 - pooled) * sum(1 / size for size in sizes))
        worst = max(worst, abs(leaves[0][name] / sizes[0] - leaves[1][name] / sizes[1]) / error)
    return worst


BIAS_TARGETS = {
    "functions of 1 to 20 us": (lambda python: ("timed.py", Program.COUNTS), "<= 1.2", "<= 3"),
    "recursion, 5 us leaf": (ORACLES["recursion"].command, "<= 1.2", "<= 3"),
    "32 frames, 14 us": (ORACLES["loop"].command, "<= 1.2", "<= 3"),
    "pathtree, 30 to 300 ns": (ORACLES["pathtree"].command, "", ""),
    "shared helpers, 0.2 us leaf": (ORACLES["shared"].command, "", ""),
    "callbacks from C, 0.05 to 0.5 us": (lambda python: ("short_callbacks.py", FOREVER), "", ""),
}


BIAS_SLICE_S = 1.5
SPLITS = 50


def merged(slices):
    return sum(slices, collections.Counter())


def distance_ratio(profile, truths, rng):
    """The distance of a profile to a truth, over that of two truths; all cut to one size, which is returned, too. The slices of the truth
    are split into two in many ways, as the distance of two samples scatters by a third of itself where there are few stacks."""
    half = len(truths) // 2
    beside, between, sizes = 0.0, 0.0, []
    for _ in range(SPLITS):
        slices = rng.sample(truths, 2 * half)
        halves = [merged(slices[:half]), merged(slices[half:])]
        size = min(sum(found.values()) for found in (profile, *halves))
        cut, *halves = [subsample(found, size, rng) for found in (profile, *halves)]
        beside += sum(variation_distance(cut, found) for found in halves) / 2
        between += variation_distance(*halves)
        sizes.append(size)
    return beside / between, measure.median(sizes)


def truth(python, settings):
    """Truth, profiles and truth of one process in short slices of random order, so that what drifts drifts alike in all."""
    rng = random.Random(1)
    figures = []
    for title, (command, distance_aim, leaf_aim) in BIAS_TARGETS.items():
        ratios, leaves, sizes, noisy = collections.defaultdict(list), collections.defaultdict(collections.Counter), [], collections.Counter()
        truths = collections.Counter()
        with Program(python, *command(python), slots=len(LENGTHS)) as program:
            for _ in range(settings.repeats):
                true_slices, runs = [], collections.defaultdict(list)
                rate = 2000
                tasks = ["truth", "truth", *PYPROFS]
                for _ in range(math.ceil(settings.bias_seconds / BIAS_SLICE_S)):
                    for task in rng.sample(tasks, len(tasks)):
                        if task == "truth":
                            true_slices.append(stopped_truth(program, BIAS_SLICE_S))
                            rate = max(1000, min(4000, sum(true_slices[-1].values()) / BIAS_SLICE_S * 1.05))
                        else:
                            runs[task.name].append(measure.record_once(task, program, Request(BIAS_SLICE_S, rate, wants_stacks=True)))
                truths += merged(true_slices)
                for name, found in runs.items():
                    profile = merged(run.stacks for run in found)
                    ratio, size = distance_ratio(profile, true_slices, rng)
                    ratios[name].append(ratio)
                    sizes.append(size)
                    leaves[name] += profile
                    noisy[name] += measure.noisy(found)
        note = "%d samples each" % measure.median(sizes)
        for name, found in ratios.items():
            figures.append(Figure("truth", title + ", distance over that of two truths", python.name, name, measure.median(found),
                                  distance_aim, error=measure.half_range(found), runs=len(found), noisy=noisy[name], note=note))
            figures.append(Figure("truth", title + ", worst leaf, standard errors", python.name, name,
                                  leaf_deviations(leaves[name], truths), leaf_aim))
    return figures
