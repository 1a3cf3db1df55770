// SPDX-License-Identifier: Apache-2.0
//
// /proc/PID/mem: the right to write is checked when it is opened, and it stays that of the memory which the
// process had then (fs/proc/base.c, mem_open), so that the descriptor is all that the second process needs.
#include "target/write_back.h"

#include "target/proc_files.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace pyprof {

namespace {

constexpr std::size_t kMostWords = 64;

template <class T>
bool read_at(int memory, Address from, T& value) {
    ssize_t got = 0;
    do {
        got = ::pread64(memory, &value, sizeof value, static_cast<off64_t>(raw(from)));
    } while (got < 0 && errno == EINTR);
    return got == static_cast<ssize_t>(sizeof value);
}

bool write_at(int memory, Address to, std::int32_t value) {
    ssize_t put = 0;
    do {
        put = ::pwrite64(memory, &value, sizeof value, static_cast<off64_t>(raw(to)));
    } while (put < 0 && errno == EINTR);
    return put == static_cast<ssize_t>(sizeof value);
}

bool guards_hold(int memory, const WriteBack::Word& word) {
    return std::all_of(word.guards.begin(), word.guards.end(), [&](const WriteBack::Word::Guard& guard) {
        std::uint64_t value = 0;
        return guard.address == kNullAddress || (read_at(memory, guard.address, value) && value == guard.value);
    });
}

WriteBack::Outcome change(int memory, const WriteBack::Word& word, std::int32_t from, std::int32_t to) {
    std::int32_t stands = 0;
    if (!guards_hold(memory, word) || !read_at(memory, word.address, stands)) return WriteBack::Outcome::kGone;
    if (stands != from) return WriteBack::Outcome::kChanged;
    return write_at(memory, word.address, to) ? WriteBack::Outcome::kDone : WriteBack::Outcome::kRefused;
}

// What goes through the pipe: a word, or the farewell.
struct Message {
    bool is_farewell = false;
    WriteBack::Word word;
};

// In the second process. Only what is safe after a fork is called.
[[noreturn]] void keep(int memory, int pipe) {
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    ::setsid();
    ::prctl(PR_SET_NAME, "pyprof-undo", 0, 0, 0);
    // Nothing else may stay open: whoever reads our output waits for its end.
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && nothing >= 0; ++fd) ::dup2(nothing, fd);
    const int high = std::max(memory, pipe);
    const int low = std::min(memory, pipe);
    const auto close_between = [](int first, int last) {
        if (first <= last) ::syscall(SYS_close_range, static_cast<unsigned>(first), static_cast<unsigned>(last), 0U);
    };
    close_between(3, low - 1);
    close_between(low + 1, high - 1);
    ::syscall(SYS_close_range, static_cast<unsigned>(high) + 1, ~0U, 0U);

    std::array<WriteBack::Word, kMostWords> words;
    std::size_t count = 0;
    Message message;
    while (true) {
        const ssize_t got = ::read(pipe, &message, sizeof message);
        if (got < 0 && errno == EINTR) continue;
        if (got != static_cast<ssize_t>(sizeof message)) break;
        if (message.is_farewell) ::_exit(0);
        if (count < kMostWords) words[count++] = message.word;
    }
    while (count > 0) {
        --count;
        (void)change(memory, words[count], words[count].after, words[count].before);
    }
    ::_exit(0);
}

}  // namespace

Result<WriteBack> WriteBack::start(pid_t pid) {
    UniqueFd memory(::open(fmt::format("/proc/{}/mem", living_thread_of(pid)).c_str(), O_RDWR | O_CLOEXEC));
    if (!memory) {
        const int error = errno;
        return fail(error == EACCES || error == EPERM ? ExitCode::kPermission : ExitCode::kFailure,
                    fmt::format("the memory of process {} can't be written: {}", pid, std::strerror(error)),
                    "run pyprof as root, or without --track-creation");
    }
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return fail(ExitCode::kFailure, fmt::format("no pipe: {}", std::strerror(errno)));
    UniqueFd from(ends[0]);
    UniqueFd to(ends[1]);
    const pid_t keeper = ::fork();
    if (keeper < 0) return fail(ExitCode::kFailure, fmt::format("no second process: {}", std::strerror(errno)));
    if (keeper == 0) {
        to.reset();
        keep(memory.get(), from.get());
    }
    return WriteBack(std::move(memory), std::move(to), keeper);
}

WriteBack::~WriteBack() {
    if (!pipe_) return;
    for (auto word = words_.rbegin(); word != words_.rend(); ++word) {
        (void)change(memory_.get(), *word, word->after, word->before);
    }
    const Message farewell{true, {}};
    // Shorter than PIPE_BUF: whole or not at all. Should it fail, the end of the pipe has the same effect.
    [[maybe_unused]] const ssize_t sent = ::write(pipe_.get(), &farewell, sizeof farewell);
    pipe_.reset();
    while (::waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

WriteBack::Outcome WriteBack::put(const Word& word) {
    if (words_.size() >= kMostWords) return Outcome::kRefused;
    std::int32_t stands = 0;
    if (!guards_hold(memory_.get(), word) || !read_at(memory_.get(), word.address, stands)) return Outcome::kGone;
    if (stands != word.before) return Outcome::kChanged;
    const Message message{false, word};
    if (::write(pipe_.get(), &message, sizeof message) != static_cast<ssize_t>(sizeof message)) return Outcome::kRefused;
    const Outcome outcome = change(memory_.get(), word, word.before, word.after);
    if (outcome == Outcome::kDone) words_.push_back(word);
    return outcome;
}

WriteBack::Outcome WriteBack::undo(const Word& word) {
    const auto ours = std::find_if(words_.begin(), words_.end(), [&](const Word& one) { return one.address == word.address; });
    if (ours == words_.end()) return Outcome::kChanged;
    const Word known = *ours;
    words_.erase(ours);
    return change(memory_.get(), known, known.after, known.before);
}

}  // namespace pyprof
