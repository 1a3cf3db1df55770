/* SPDX-License-Identifier: Apache-2.0

A busy thread with many native frames that looks at the clock all the time: each gap is a moment in which it did not run.
Gaps of more than two microseconds go to a file, "BEGIN END" in nanoseconds of CLOCK_MONOTONIC. */
#include <stdio.h>
#include <time.h>

enum { kMost = 1 << 20, kGapNs = 2000 };
static long gaps[kMost][2];
static long count;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void watch(long end) {
    long last = now();
    while (last < end) {
        long next = now();
        if (next - last > kGapNs && count < kMost) {
            gaps[count][0] = last;
            gaps[count++][1] = next;
        }
        last = next;
    }
}

__attribute__((noinline)) static long down(int depth, long end) {
    volatile long kept = depth;
    if (depth > 0) {
        kept += down(depth - 1, end);
    } else {
        watch(end);
    }
    return kept;
}

long watch_deep(int depth, double seconds, const char *path) {
    long result = down(depth, now() + (long)(seconds * 1e9));
    FILE *file = fopen(path, "w");
    if (file == NULL) return -1;
    for (long i = 0; i < count; ++i) fprintf(file, "%ld %ld\n", gaps[i][0], gaps[i][1]);
    fclose(file);
    return result;
}
