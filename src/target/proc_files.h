// SPDX-License-Identifier: Apache-2.0
//
// Reading files of /proc whole and bounded, and the three files of each thread that are read at every
// tick, kept open: a pread of an open one costs about 1 us, opening it anew 6 us.
#pragma once

#include "base/unique_fd.h"

#include <pyprof/target.h>

#include <tsl/robin_map.h>
#include <tl/expected.hpp>

#include <sys/types.h>
#include <optional>
#include <string>
#include <vector>

namespace pyprof {

// The value or errno.
template <class T>
using OrErrno = tl::expected<T, int>;

constexpr std::size_t kProcFileLimit = std::size_t{64} << 20;  // a maps file of 65,530 lines has about 8 MiB

// `directory` may be AT_FDCWD. A file longer than `limit` is cut there.
OrErrno<UniqueFd> open_at(int directory, const std::string& path, int flags);
// A regular file to read; nothing where the name leads to something else. It never waits, on a FIFO say.
UniqueFd open_regular(const std::string& path);
OrErrno<std::string> read_file_at(int directory, const std::string& path, std::size_t limit = kProcFileLimit);
OrErrno<std::string> read_link_at(int directory, const std::string& path);
// The entries whose names are numbers.
OrErrno<std::vector<pid_t>> list_numbers_at(int directory, const std::string& path);

// By which number a process is to be read: its own, or, where its main thread alone has ended (pthread_exit), that of one
// of the others: what is left of the main one has neither memory nor executable. 0: all have ended. `root` stands
// before "/proc".
pid_t living_thread_of(pid_t pid, const std::string& root = {});

// The kept-open files below /proc/PID/task.
class ThreadFiles {
public:
    // `process` is an open /proc/PID and stays the caller's. Files beyond `most_open` are opened, read and
    // closed each time.
    ThreadFiles(int process, std::size_t most_open) : process_(process), most_open_(most_open) {}

    [[nodiscard]] Activity read_activity(pid_t tid);
    [[nodiscard]] std::optional<std::uint64_t> read_switch_count(pid_t tid);
    [[nodiscard]] char read_state_letter(pid_t tid);
    void forget(pid_t tid);

private:
    enum File : std::size_t { kSyscall, kSchedstat, kStat, kFileCount };
    struct Open {
        UniqueFd files[kFileCount];
    };
    struct Text;  // a bounded buffer on the stack
    // Zero or the errno of the failure.
    int read(pid_t tid, File file, Text& text);

    int process_;
    std::size_t most_open_;
    std::size_t open_count_ = 0;
    tsl::robin_map<pid_t, Open> threads_;
};

}  // namespace pyprof
