# SPDX-License-Identifier: Apache-2.0
"""A launched program: copies stdin to stdout in upper case, says so on stderr, and ends as it is told.

Usage: child.py SECONDS exit CODE | child.py SECONDS signal NUMBER
"""
import os
import sys
import time

end = time.time() + float(sys.argv[1])
sys.stdout.write(sys.stdin.read().upper())
sys.stdout.flush()
sys.stderr.write("copied\n")
while time.time() < end:
    sum(range(1000))
if sys.argv[2] == "signal":
    os.kill(os.getpid(), int(sys.argv[3]))
sys.exit(int(sys.argv[3]))
