// SPDX-License-Identifier: Apache-2.0
//
// The outside world as one interface: memory, mappings, threads, files and, where needed, a stop. A
// live process, a recorded snapshot and a recorder around either implement it; what stands above
// cannot tell them apart. All calls come from one thread, the sampler's.
#pragma once

#include <pyprof/error.h>
#include <pyprof/memory.h>
#include <pyprof/registers.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace pyprof {

// One line of /proc/PID/maps.
struct Mapping {
    Address start{};
    Address end{};
    std::uint64_t file_offset = 0;
    std::uint64_t device = 0;  // major << 32 | minor
    std::uint64_t inode = 0;   // 0: not a file
    bool readable = false;
    bool writable = false;
    bool executable = false;
    bool deleted = false;  // the kernel's " (deleted)", taken off the path
    std::string path;      // as the target sees it; "[stack]" and the like for special mappings
};

// A loaded ELF file, as far as finding things in it goes. Addresses are those of the file.
class ModuleFile {
public:
    struct Section {
        FileAddress address{};
        std::uint64_t size = 0;
    };
    struct Segment {  // PT_LOAD
        FileAddress address{};
        std::uint64_t file_offset = 0;
        std::uint64_t file_size = 0;
        std::uint64_t memory_size = 0;
        bool writable = false;
    };

    virtual ~ModuleFile() = default;
    [[nodiscard]] virtual std::optional<Section> find_section(std::string_view name) = 0;
    // Defined symbols of .dynsym, then of .symtab.
    [[nodiscard]] virtual std::optional<Section> find_symbol(std::string_view name) = 0;
    [[nodiscard]] virtual std::vector<Segment> load_segments() = 0;
    [[nodiscard]] virtual std::string build_id() = 0;  // lower-case hex, empty when absent

    struct Contents {
        FileAddress address{};  // 0 for a section that is not loaded
        std::vector<std::byte> bytes;
    };
    // A section whole, unpacked where it is compressed. Without section headers .eh_frame_hdr and .eh_frame are
    // found by the program headers; the second then goes on to the end of its segment.
    [[nodiscard]] virtual std::optional<Contents> read_section(std::string_view) { return {}; }
    // The open file, for whoever wants to read more of it; it stays this object's. -1: there is none.
    [[nodiscard]] virtual int descriptor() const { return -1; }
};

// A thread has a number in our view of /proc and one in the target's own pid namespace, which is what
// CPython stores as native_thread_id. They are equal outside containers.
struct ThreadId {
    pid_t tid = 0;
    pid_t namespace_tid = 0;
    friend bool operator==(const ThreadId&, const ThreadId&) = default;
};

// What the kernel says a thread does (/proc/PID/task/TID/syscall).
struct Activity {
    enum class Kind : std::uint8_t {
        kUnknown,  // the kernel does not tell us
        kRunning,  // on a processor or ready to run
        kBlocked,  // asleep in a system call or a fault
        kGone,
    };
    Kind kind = Kind::kUnknown;
    std::int64_t syscall = -1;         // number while blocked in one, -1 else
    std::uint64_t arguments[6] = {};   // of that call
    Address stack_pointer{};           // while blocked
    Address program_counter{};         // while blocked
};

struct ProcessFacts {
    pid_t pid = 0;
    std::vector<std::string> command;  // argv
    std::string executable;            // as the target sees it
    std::string working_directory;     // as the target sees it
};

// While it lives, every thread of the target is stopped; its destructor lets all of them run.
class Stop {
public:
    virtual ~Stop() = default;
    // Of a thread that is stopped; empty where they can't be had.
    [[nodiscard]] virtual std::optional<RegisterSet> read_registers(pid_t) const { return {}; }
};

class Target {
public:
    virtual ~Target() = default;

    [[nodiscard]] virtual pid_t pid() const = 0;
    [[nodiscard]] virtual Memory& memory() = 0;
    [[nodiscard]] virtual Result<ProcessFacts> read_facts() = 0;
    [[nodiscard]] virtual Result<std::vector<Mapping>> read_mappings() = 0;
    [[nodiscard]] virtual Result<std::unique_ptr<ModuleFile>> open_module(const Mapping& mapping) = 0;

    [[nodiscard]] virtual Result<std::vector<ThreadId>> read_threads() = 0;
    // Files behind these three are kept open for each thread; forget_thread closes them.
    [[nodiscard]] virtual Activity read_activity(pid_t tid) = 0;
    // How often the thread was put on a processor (third field of schedstat); it moves with every
    // switch, so an unchanged count of a thread that was seen blocked means that it still is.
    [[nodiscard]] virtual std::optional<std::uint64_t> read_switch_count(pid_t tid) = 0;
    // The state letter of /proc/PID/task/TID/stat: D, a disk wait, is told apart from S by it alone.
    [[nodiscard]] virtual char read_state_letter(pid_t tid) = 0;
    [[nodiscard]] virtual std::string read_thread_name(pid_t tid) = 0;  // comm; empty when gone
    virtual void forget_thread(pid_t tid) = 0;

    [[nodiscard]] virtual bool has_ended() = 0;
    // Processes below this one, nearest first and at most some hundred; for messages only.
    [[nodiscard]] virtual std::vector<ProcessFacts> read_descendants() { return {}; }
    // Stops every thread. Short by contract: copy, then destroy the Stop.
    [[nodiscard]] virtual Result<std::unique_ptr<Stop>> stop() = 0;
};

}  // namespace pyprof
