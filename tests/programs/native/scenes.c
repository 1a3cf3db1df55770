/* SPDX-License-Identifier: Apache-2.0

What scenes.py calls by ctypes. No Python header is needed: it serves every interpreter. Build it without sibling call
optimisation, so that each call has a frame. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef int (*callback)(int);
volatile long sink;

__attribute__((noinline)) static void burn(long rounds) {
    for (long i = 0; i < rounds; ++i) sink += i;
}

/* Python -> through_c -> inner_call -> Python */
__attribute__((noinline)) static int inner_call(callback call, int value) {
    int result = call(value);
    sink += result;
    return result;
}

int through_c(callback call, int value) {
    int result = inner_call(call, value);
    sink += result;
    return result;
}

void burn_in_c(long rounds) {
    burn(rounds);
    sink += 1;
}

/* A handler that takes long, over whatever was interrupted. */
static void slow_handler(int number) {
    (void)number;
    burn(2000000);
    sink += 1;
}

void install_slow_handler(int number) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = slow_handler;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, NULL);
}

/* Threads that never run Python. */
static atomic_int begun;

static void *pool_main(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "pool-thread");
    ++begun;
    while (1) burn_in_c(100000);
    return NULL;
}

/* One that has attached to Python, and calls none: it has a thread state, and no frame. */
static void *attached_main(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "attached");
    int (*ensure)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    void *(*save)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyEval_SaveThread");
    ensure();
    save();
    ++begun;
    while (1) burn_in_c(100000);
    return NULL;
}

/* Returns when the thread is at work: one that has not run yet has no frame of its own. */
static int start(void *(*thread_main)(void *)) {
    pthread_t thread;
    const int before = begun;
    const int error = pthread_create(&thread, NULL, thread_main, NULL);
    while (error == 0 && begun == before) sched_yield();
    return error;
}

int start_pool(void) { return start(pool_main); }
int start_attached(void) { return start(attached_main); }

/* Sleeps for ever and counts what wakes it. */
static atomic_int interruptions;

void wait_for_ever(int epoll) {
    struct epoll_event event;
    while (epoll_wait(epoll, &event, 1, -1) < 0) {
        if (errno == EINTR) ++interruptions;
    }
}

int interruption_count(void) { return interruptions; }

/* A timer each of whose ticks is counted, those that came while one was pending included. */
static atomic_long ticks;

static void count_tick(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    ticks += 1 + info->si_overrun;
}

static timer_t timer;

int start_timer(long period_ns) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = count_tick;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGRTMIN, &action, NULL);
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGRTMIN;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return -1;
    struct itimerspec period = {{0, period_ns}, {0, period_ns}};
    return timer_settime(timer, 0, &period, NULL);
}

/* No tick comes after this; one that is pending has been counted when it returns. */
long stop_timer(void) {
    struct itimerspec none;
    memset(&none, 0, sizeof none);
    timer_settime(timer, 0, &none, NULL);
    return ticks;
}

/* The caller waits in vfork until its child has read a byte. */
int vfork_and_read(int from) {
    pid_t child = vfork();
    if (child == 0) {
        char byte;
        while (read(from, &byte, 1) < 0) {
        }
        _exit(0);
    }
    return child;
}

/* Code made at run time, told of in a jitdump as perf(1) reads it (tools/perf/Documentation/jitdump-specification.txt): a
loop that counts down. */
static long (*made)(long);

int make_code(const char *directory) {
    static const unsigned char code[] = {0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3};
    static const char name[] = "made_by_jit";
    unsigned char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return -1;
    memcpy(memory, code, sizeof code);
    made = (long (*)(long))memory;
    char path[4096];
    snprintf(path, sizeof path, "%s/jit-%d.dump", directory, getpid());
    FILE *file = fopen(path, "w+");
    if (file == NULL) return -1;
    const uint32_t header[] = {0x4A695444, 1, 40, 62, 0, (uint32_t)getpid(), 0, 0, 0, 0};
    const uint32_t head[] = {0, 56 + sizeof name + sizeof code, 1, 0, (uint32_t)getpid(), (uint32_t)getpid()};
    const uint64_t load[] = {(uint64_t)memory, (uint64_t)memory, sizeof code, 0};
    fwrite(header, sizeof header, 1, file);
    fwrite(head, sizeof head, 1, file);
    fwrite(load, sizeof load, 1, file);
    fwrite(name, sizeof name, 1, file);
    fwrite(code, sizeof code, 1, file);
    fflush(file);
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(file), 0) == MAP_FAILED ? -1 : 0;
}

void run_made(long rounds) {
    sink += made(rounds);
}

/* What Cython makes of hello.pyx: def run(f): inner(f), and a helper of its own. */
#line 7 "hello.pyx"
__attribute__((noinline)) static int __pyx_f_5hello_inner(callback call, int value) { int r = call(value); sink += r; return r; }
__attribute__((noinline)) static int __Pyx_PyObject_Call(callback call, int value) { int r = __pyx_f_5hello_inner(call, value); sink += r; return r; }
#line 12 "hello.pyx"
int __pyx_pw_5hello_1run(callback call, int value) { int r = __Pyx_PyObject_Call(call, value); sink += r; return r; }
