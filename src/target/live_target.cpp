// SPDX-License-Identifier: Apache-2.0
//
// Everything of /proc is reached through one open /proc/PID directory, which belongs to the process and
// not to its number. process_vm_readv and ptrace do go by number; has_ended() tells when that is void. Where the main thread
// has ended by itself, memory and what belongs to it are reached through a thread that lives, as /proc/PID/task/TID.
#include "target/live_target.h"

#include "elf/elf_module.h"
#include "elf/memory_module.h"
#include "target/mapped_file.h"
#include "target/permission_facts.h"
#include "target/proc_files.h"
#include "target/proc_parse.h"
#include "target/process_memory.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

namespace pyprof {
namespace {

constexpr std::size_t kMostDescendants = 256;
constexpr std::size_t kNameLimit = 64;
constexpr std::size_t kStatLimit = 4096;

Error process_ended(pid_t pid) {
    return {ExitCode::kNoProcess, fmt::format("process {} has ended", pid), ""};
}

// Half of what we may open; the rest of the program needs some, too.
std::size_t most_open_files() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
    return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 20)) / 2;
}

class LiveTarget final : public Target {
public:
    LiveTarget(pid_t pid, UniqueFd directory, UniqueFd pidfd, UniqueFd image, bool is_our_child)
        : process_{pid, is_our_child},
          directory_(std::move(directory)),
          pidfd_(std::move(pidfd)),
          image_(std::move(image)),
          memory_(pid),
          files_(directory_.get(), most_open_files()) {
        memory_.on_end([this] { return find_living(); });
    }
    LiveTarget(const LiveTarget&) = delete;
    LiveTarget& operator=(const LiveTarget&) = delete;

    pid_t pid() const override { return process_.pid; }
    Memory& memory() override { return memory_; }
    Result<ProcessFacts> read_facts() override;
    Result<std::vector<Mapping>> read_mappings() override;
    Result<std::unique_ptr<ModuleFile>> open_module(const Mapping& mapping) override;
    Result<std::vector<ThreadId>> read_threads() override;
    Activity read_activity(pid_t tid) override { return files_.read_activity(tid); }
    std::optional<std::uint64_t> read_switch_count(pid_t tid) override {
        return files_.read_switch_count(tid);
    }
    char read_state_letter(pid_t tid) override { return files_.read_state_letter(tid); }
    std::string read_thread_name(pid_t tid) override;
    void forget_thread(pid_t tid) override;
    bool has_ended() override;
    std::vector<ProcessFacts> read_descendants() override { return read_descendants_of(pid()); }
    Result<std::unique_ptr<Stop>> stop() override;

private:
    [[nodiscard]] bool has_lost_memory() const;
    // Another thread than the one that memory was read by; empty: the process has ended.
    std::optional<pid_t> find_living();
    // /proc/PID, or /proc/PID/task/TID of a thread that lives, where the main one does not.
    [[nodiscard]] int living() { return find_living() && living_ ? living_.get() : directory_.get(); }
    // What errno means for a file of this process.
    Error explain(int error, std::string_view file);
    // The number of a thread in the target's own pid namespace.
    pid_t namespace_tid(pid_t tid);

    TracedProcess process_;
    UniqueFd directory_;
    UniqueFd pidfd_;
    UniqueFd image_;
    UniqueFd living_;  // /proc/PID/task/TID, where the main thread has ended
    ProcessMemory memory_;
    ThreadFiles files_;
    std::optional<bool> is_other_namespace_;
    tsl::robin_map<pid_t, pid_t> namespace_tids_;
};

Error LiveTarget::explain(int error, std::string_view file) {
    if (error == ESRCH || error == ENOENT) return process_ended(pid());
    if (error == EACCES || error == EPERM) return explain_refusal(pid(), Access::kRead);
    return {ExitCode::kFailure, fmt::format("cannot read /proc/{}/{}: {}", pid(), file, std::strerror(error)),
            ""};
}

ProcessFacts facts_at(int directory, pid_t pid) {
    ProcessFacts facts;
    facts.pid = pid;
    if (const auto text = read_file_at(directory, "cmdline", 4 << 20))
        facts.command = parse_command_line(*text);
    facts.executable = read_link_at(directory, "exe").value_or(std::string());
    constexpr std::string_view kDeleted = " (deleted)";
    if (std::string_view(facts.executable).ends_with(kDeleted)) {
        facts.executable.resize(facts.executable.size() - kDeleted.size());
    }
    facts.working_directory = read_link_at(directory, "cwd").value_or(std::string());
    return facts;
}

Result<ProcessFacts> LiveTarget::read_facts() {
    if (has_ended()) return tl::unexpected<Error>(process_ended(pid()));
    return facts_at(living(), pid());
}

std::optional<pid_t> LiveTarget::find_living() {
    if (has_ended()) return {};
    const pid_t tid = living_thread_of(pid());
    if (tid == 0) return {};
    living_.reset();
    if (tid == pid()) return tid;
    living_ = open_at(directory_.get(), fmt::format("task/{}", tid), O_PATH | O_DIRECTORY).value_or(UniqueFd());
    return living_ ? std::optional(tid) : std::nullopt;
}

Result<std::vector<Mapping>> LiveTarget::read_mappings() {
    const auto text = read_file_at(living(), "maps");
    if (!text) return tl::unexpected<Error>(explain(text.error(), "maps"));
    auto mappings = parse_maps(*text);
    // A process that is on its way out has given up its memory before it is seen to have ended.
    if (mappings.empty()) return tl::unexpected<Error>(process_ended(pid()));
    return mappings;
}

Result<std::unique_ptr<ModuleFile>> LiveTarget::open_module(const Mapping& mapping) {
    auto file = open_mapped_file(living(), mapping, memory_);
    if (file) return open_elf_module(std::move(*file), mapping.path);
    if (mapping.file_offset == 0 && mapping.readable) {
        if (auto module = open_memory_module(memory_, mapping.start, mapping.path)) return module;
    }
    const char* reason =
        file.error() == ESTALE ? "another file stands there now" : std::strerror(file.error());
    return fail(ExitCode::kFailure, fmt::format("cannot open '{}': {}", mapping.path, reason));
}

Result<std::vector<ThreadId>> LiveTarget::read_threads() {
    const auto tids = list_numbers_at(directory_.get(), "task");
    if (!tids) return tl::unexpected<Error>(explain(tids.error(), "task"));
    if (tids->empty()) return tl::unexpected<Error>(process_ended(pid()));
    std::vector<ThreadId> threads;
    for (const pid_t tid : *tids) threads.push_back({tid, namespace_tid(tid)});
    return threads;
}

pid_t LiveTarget::namespace_tid(pid_t tid) {
    if (is_other_namespace_ == false) return tid;
    if (const auto known = namespace_tids_.find(tid); known != namespace_tids_.end()) return known->second;
    const auto text = read_file_at(directory_.get(), fmt::format("task/{}/status", tid));
    const auto status = text ? parse_status(*text) : std::nullopt;
    if (!status || status->namespace_ids.empty()) return tid;
    // A process never changes its pid namespace, so the first thread speaks for all.
    is_other_namespace_ = status->namespace_ids.size() > 1;
    if (!*is_other_namespace_) return tid;
    return namespace_tids_[tid] = status->namespace_ids.back();
}

std::string LiveTarget::read_thread_name(pid_t tid) {
    std::string name =
        read_file_at(directory_.get(), fmt::format("task/{}/comm", tid), kNameLimit).value_or(std::string());
    if (!name.empty() && name.back() == '\n') name.pop_back();
    return name;
}

void LiveTarget::forget_thread(pid_t tid) {
    files_.forget(tid);
    namespace_tids_.erase(tid);
}

// An open /proc/PID/mem belongs to the memory that the process had at that moment. When that is given up, by
// exec or exit, a read returns nothing; before, address 0 can't be read (mem_rw in fs/proc/base.c).
bool LiveTarget::has_lost_memory() const {
    char byte = 0;
    return image_ && ::pread(image_.get(), &byte, 1, 0) == 0;
}

bool LiveTarget::has_ended() {
    if (has_lost_memory()) return true;
    if (pidfd_) {
        // Readable once the whole process has ended (pidfd_open(2)).
        pollfd poll{pidfd_.get(), POLLIN, 0};
        return ::poll(&poll, 1, 0) > 0;
    }
    const auto text = read_file_at(directory_.get(), "stat", kStatLimit);
    const auto stat = text ? parse_stat(*text) : std::nullopt;
    // A zombie leader with other threads alive is a process that goes on.
    return !stat || ((stat->state == 'Z' || stat->state == 'X') && stat->thread_count <= 1);
}

Result<std::unique_ptr<Stop>> LiveTarget::stop() {
    const ProcessStop::Threads threads{
        [this] { return list_numbers_at(directory_.get(), "task").value_or(std::vector<pid_t>()); },
        [this](pid_t tid) {
            const auto text = read_file_at(directory_.get(), fmt::format("task/{}/stat", tid), kStatLimit);
            return text ? parse_state_letter(*text) : 'X';
        }};
    auto stopped = ProcessStop::stop_all(process_, threads);
    if (stopped) return std::unique_ptr<Stop>(std::move(*stopped));
    if (stopped.error() == ESRCH) return tl::unexpected<Error>(process_ended(pid()));
    return tl::unexpected<Error>(explain_refusal(pid(), Access::kStop));
}

// One byte at address 0: the right is checked before the address is looked at.
Result<void> check_readable(pid_t pid, pid_t living) {
    ProcessMemory memory(living);
    std::byte byte{};
    const ReadRange range{kNullAddress, {&byte, 1}};
    switch (memory.read({&range, 1}).fault) {
        case ReadFault::kDenied:
            return tl::unexpected<Error>(explain_refusal(pid, Access::kRead));
        case ReadFault::kGone:
            return fail(ExitCode::kNotPython, fmt::format("process {} is a kernel thread", pid));
        case ReadFault::kUnmapped:
        case ReadFault::kNone:
            break;
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<Target>> open_live_target(pid_t pid) {
    // The directory comes first and is looked at last: what happened in between concerned that process.
    auto directory = open_at(AT_FDCWD, fmt::format("/proc/{}", pid), O_PATH | O_DIRECTORY);
    AccessFacts facts = gather_access_facts(pid, AccessSources::real());
    facts.exists = facts.exists && directory.has_value();
    if (facts.is_proc_foreign || !facts.exists || facts.is_zombie || facts.thread_of != 0) {
        return tl::unexpected<Error>(explain_refusal(facts, Access::kRead));
    }
    const pid_t living = living_thread_of(pid);
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // from Linux 5.3 on
    const auto readable = check_readable(pid, living);
    const auto stat_text = read_file_at(directory->get(), "stat", kStatLimit);
    const auto stat = stat_text ? parse_stat(*stat_text) : std::nullopt;
    if (!stat) return tl::unexpected<Error>(process_ended(pid));
    if (!readable) {
        const bool has_ended = stat->state == 'Z' || stat->state == 'X';
        return tl::unexpected<Error>(has_ended ? process_ended(pid) : readable.error());
    }
    UniqueFd image(open_at(directory->get(), fmt::format("task/{}/mem", living), O_RDONLY).value_or(UniqueFd()));
    return std::make_unique<LiveTarget>(pid, std::move(*directory), std::move(pidfd), std::move(image),
                                        stat->parent == ::getpid());
}

std::vector<ProcessFacts> read_descendants_of(pid_t pid) {
    std::vector<ProcessFacts> found;
    std::vector<pid_t> parents{pid};
    for (std::size_t i = 0; i < parents.size() && found.size() < kMostDescendants; ++i) {
        const std::string task = fmt::format("/proc/{}/task", parents[i]);
        for (const pid_t tid : list_numbers_at(AT_FDCWD, task).value_or(std::vector<pid_t>())) {
            const auto text = read_file_at(AT_FDCWD, fmt::format("{}/{}/children", task, tid), 64 << 10);
            for (const pid_t child : parse_children(text.value_or(std::string()))) {
                const auto directory =
                    open_at(AT_FDCWD, fmt::format("/proc/{}", child), O_PATH | O_DIRECTORY);
                if (!directory || found.size() >= kMostDescendants) continue;
                found.push_back(facts_at(directory->get(), child));
                parents.push_back(child);
            }
        }
    }
    return found;
}

TracedProcess traced_process(pid_t pid) {
    const auto text = read_file_at(AT_FDCWD, fmt::format("/proc/{}/stat", pid), kStatLimit);
    const auto stat = text ? parse_stat(*text) : std::nullopt;
    return {pid, stat && stat->parent == ::getpid()};
}

}  // namespace pyprof
