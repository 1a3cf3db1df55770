# SPDX-License-Identifier: Apache-2.0
"""A terminal of tmux with a shell in it, for tests of what draws on the whole screen. Nothing sleeps: a test waits for
what it wants to see."""
import contextlib
import os
import re
import subprocess
import unicodedata

import harness
from harness import wait_until


class Screen:
    """A terminal of tmux with a shell in it."""

    def __init__(self, directory, columns=100, rows=30):
        self.socket = str(directory / "tmux")
        self.directory = directory
        environment = {key: value for key, value in os.environ.items() if key not in ("TMUX", "NO_COLOR")}
        environment.update(LC_ALL="C.UTF-8", PS1="$ ")
        subprocess.run(["tmux", "-S", self.socket, "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
                        "bash", "--norc", "-i"], env=environment, check=True, cwd=directory)

    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-S", self.socket, *map(str, arguments)], capture_output=True, text=True).stdout

    def text(self):
        return self.tmux("capture-pane", "-p")

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def sees(self, pattern):
        def seen():
            return re.search(pattern, self.text(), re.M)

        try:
            wait_until(seen)
        except AssertionError:
            raise AssertionError("no %r on the screen:\n%s" % (pattern, self.text())) from None

    def run(self, command):
        # Into files: what the shell shows is wrapped anew when the window's size changes meanwhile.
        self.keys("stty -g > before; %s; echo $? > rc; stty -g > after" % command, "Enter")

    def is_put_back(self, code):
        def is_over():
            return (self.directory / "after").exists() and (self.directory / "after").read_text()

        wait_until(is_over)
        assert (self.directory / "rc").read_text() == "%d\n" % code, self.text()
        assert (self.directory / "before").read_text() == (self.directory / "after").read_text()

    def is_a_shell_again(self):
        """No other screen, a cursor, no mouse: what a program may leave behind."""
        def found():
            return self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}").strip() == "0 1 0"

        wait_until(found)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", columns, "-y", rows)

    def lines(self):
        return self.text().split("\n")[:-1]

    def pid_of_pyprof(self, program):
        """The process that looks at this program."""
        found = subprocess.run(["pgrep", "-f", "pyprof top --pid %d" % program.pid], capture_output=True, text=True).stdout.split()
        return [int(pid) for pid in found if os.readlink("/proc/%s/exe" % pid) == str(harness.PYPROF.resolve())][0]


@contextlib.contextmanager
def screen(directory, **more):
    terminal = Screen(directory, **more)
    try:
        yield terminal
    finally:
        terminal.tmux("kill-server")


def columns_of(text):
    """The columns that a terminal takes for it."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def top(pid, *options):
    return "%s top --pid %d --interval 200ms %s" % (harness.PYPROF, pid, " ".join(options))
