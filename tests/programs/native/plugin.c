/* SPDX-License-Identifier: Apache-2.0

Built twice, as two plugins of the same size: WORK names its function. */
volatile long sink;
__attribute__((noinline)) static void WORK(long rounds) {
    for (long i = 0; i < rounds; ++i) sink += i;
}
void run_plugin(long rounds) {
    WORK(rounds);
    sink += 1;
}
