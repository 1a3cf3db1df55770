# SPDX-License-Identifier: Apache-2.0
"""A small program that is slower than it should be: a report over the log of a web server.

It makes up an access log, parses it, and prints for each page how often and how slowly it was
served. Where does its time go? A guess would be the regular expression; a profile knows better.

Usage: log_report.py [SECONDS]   works for about that long, 10 by default
"""
import bisect
import random
import re
import sys
import time
from collections import defaultdict

LINE = re.compile(r'(?P<host>\S+) \[(?P<when>[^\]]+)\] "(?P<method>\S+) (?P<page>\S+)" (?P<status>\d+) (?P<ms>\d+)')
PAGES = ["/", "/search", "/basket", "/login", "/item/%d", "/static/site.css"]


def make_log(lines, numbers):
    """Lines as a server would write them."""
    for _ in range(lines):
        page = numbers.choice(PAGES)
        if "%d" in page:
            page %= numbers.randrange(40)
        yield '10.0.0.%d [12/Mar/2024:10:%02d:%02d] "GET %s" %d %d' % (
            numbers.randrange(256), numbers.randrange(60), numbers.randrange(60), page,
            numbers.choice((200, 200, 200, 304, 404, 500)), int(numbers.expovariate(0.02)),
        )


def parse(line):
    match = LINE.match(line)
    return match["page"], int(match["status"]), int(match["ms"])


class Page:
    """What is known of one page."""

    def __init__(self):
        self.times = []
        self.errors = 0

    def add(self, status, ms):
        self.errors += status >= 500
        bisect.insort(self.times, ms)

    def median(self):
        return self.times[len(self.times) // 2]

    def slowest(self, share):
        return self.times[int(len(self.times) * (1 - share)) - 1]

    def roughness(self):
        """The mean distance of each time to every other. Here lies the hot spot: it is quadratic."""
        total = 0
        sample = self.times[:: max(1, len(self.times) // 150)]
        for one in sample:
            for other in sample:
                total += abs(one - other)
        return total / len(sample) ** 2


class Report:
    def __init__(self):
        self.pages = defaultdict(Page)

    def read(self, log):
        for line in log:
            page, status, ms = parse(line)
            self.pages[page].add(status, ms)

    def rows(self):
        for name, page in sorted(self.pages.items()):
            yield name, len(page.times), page.errors, page.median(), page.slowest(0.01), page.roughness()


def print_report(rows):
    print("%-18s %8s %7s %7s %7s %10s" % ("page", "served", "errors", "median", "99 %", "roughness"))
    for row in rows:
        print("%-18s %8d %7d %7d %7d %10.1f" % row)


def main(seconds):
    report = Report()
    numbers = random.Random(1)
    end = time.monotonic() + seconds
    rows = []
    print("reading the log")
    while time.monotonic() < end:
        report.read(make_log(2000, numbers))
        rows = list(report.rows())
    print_report(rows)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
