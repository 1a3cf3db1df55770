// SPDX-License-Identifier: Apache-2.0
//
// The whole address space of ProcessBuilder is one mapping of one file; _PyRuntime is a symbol in it.
#include "support/fake_target.h"

#include <algorithm>

namespace pyprof::test {

namespace {

constexpr Address kImage{0x7f1000000000};
constexpr std::uint64_t kImageBytes = std::uint64_t{1} << 32;
constexpr std::uint64_t kPthreadBytes = 2048;
constexpr std::uint64_t kGlibcTid = 0x2d0;  // of struct pthread, nptl/descr.h on x86-64

using Sections = std::map<std::string, std::pair<Address, std::uint64_t>, std::less<>>;

class ImageFile final : public ModuleFile {
public:
    ImageFile(Address runtime, Sections sections) : runtime_(runtime), sections_(std::move(sections)) {}
    std::optional<Section> find_section(std::string_view name) override {
        const auto found = sections_.find(name);
        if (found == sections_.end()) return std::nullopt;
        return Section{FileAddress{distance(kImage, found->second.first)}, found->second.second};
    }
    std::optional<Section> find_symbol(std::string_view name) override {
        if (name != "_PyRuntime") return std::nullopt;
        return Section{FileAddress{distance(kImage, runtime_)}, 64};
    }
    std::vector<Segment> load_segments() override { return {{FileAddress{0}, 0, kImageBytes, kImageBytes, false}}; }
    std::string build_id() override { return {}; }

private:
    Address runtime_;
    Sections sections_;
};

// "3.13.15t" -> "/usr/bin/python3.13"
std::string executable_of(const std::string& layout_name) {
    return "/usr/bin/python" + layout_name.substr(0, layout_name.find_first_not_of("0123456789", 2));
}

}  // namespace

void FakeTarget::block(pid_t tid) {
    Thread& thread = threads_[tid];
    thread.activity.kind = Activity::Kind::kBlocked;
    thread.activity.syscall = 0;
    ++thread.switches;
}

void FakeTarget::wake(pid_t tid) {
    Thread& thread = threads_[tid];
    thread.activity = {Activity::Kind::kRunning, -1, {}, {}, {}};
    ++thread.switches;
}

Result<ProcessFacts> FakeTarget::read_facts() { return ProcessFacts{kPid, {executable_}, executable_, "/"}; }

Result<std::vector<Mapping>> FakeTarget::read_mappings() {
    Mapping mapping;
    mapping.start = kImage;
    mapping.end = kImage + kImageBytes;
    mapping.inode = 1;
    mapping.readable = true;
    mapping.executable = true;
    mapping.path = executable_;
    std::vector<Mapping> all = stacks_;
    all.push_back(mapping);
    return all;
}

void FakeTarget::add_stack(Address begin, Address end, bool is_main) {
    Mapping mapping;
    mapping.start = begin;
    mapping.end = end;
    mapping.readable = mapping.writable = true;
    if (is_main) mapping.path = "[stack]";
    stacks_.push_back(mapping);
}

Result<std::unique_ptr<ModuleFile>> FakeTarget::open_module(const Mapping&) {
    return std::make_unique<ImageFile>(runtime_, sections_);
}

Result<std::vector<ThreadId>> FakeTarget::read_threads() {
    std::vector<ThreadId> ids;
    for (const auto& [tid, thread] : threads_) ids.push_back({tid, tid});
    return ids;
}

Activity FakeTarget::read_activity(pid_t tid) {
    ++looks_;
    const auto found = threads_.find(tid);
    if (found == threads_.end()) return {Activity::Kind::kGone, -1, {}, {}, {}};
    return found->second.activity;
}

std::optional<std::uint64_t> FakeTarget::read_switch_count(pid_t tid) {
    ++looks_;
    const auto found = threads_.find(tid);
    if (found == threads_.end()) return std::nullopt;
    return found->second.switches;
}

char FakeTarget::read_state_letter(pid_t tid) {
    return read_activity(tid).kind == Activity::Kind::kRunning ? 'R' : 'S';
}

std::string FakeTarget::read_thread_name(pid_t tid) {
    const auto found = threads_.find(tid);
    return found == threads_.end() ? std::string() : found->second.name;
}

FakePython::FakePython(const KnownLayout& known, const std::string& test_directory)
    : target(executable_of(known.name)), builder(target.fake(), known.layout) {
    interpreter = builder.interpreter();
    const auto start = read_file(test_directory + "/layouts/debug_offsets/" + known.name + ".bin");
    runtime = builder.runtime({interpreter}, start);
    builder.set_gil(runtime, interpreter, kNullAddress);
    target.set_runtime(runtime);
}

Address FakePython::add_thread(const ThreadSpec& spec) {
    ProcessBuilder::ThreadSpec made;
    made.interpreter = interpreter;
    made.leaf = spec.leaf;
    const Address pthread = builder.allocate(kPthreadBytes);
    made.thread_id = raw(pthread);
    made.native_id = static_cast<std::uint64_t>(spec.tid);
    made.stack = spec.stack;
    made.holds_gil = spec.holds_gil;
    const Address thread = builder.thread(made);
    pthreads_[raw(thread)] = pthread;
    set_tid(thread, spec.tid);
    target.thread(spec.tid);
    threads_.insert(threads_.begin(), thread);
    builder.set_threads(interpreter, threads_);
    if (spec.holds_gil) builder.set_gil(runtime, interpreter, thread);
    return thread;
}

void FakePython::remove_thread(Address thread) {
    threads_.erase(std::remove(threads_.begin(), threads_.end(), thread), threads_.end());
    builder.set_threads(interpreter, threads_);
}

void FakePython::set_pthread(Address thread, Address pthread, pid_t tid) {
    builder.put_field(thread, layout().thread.thread_id, raw(pthread));
    pthreads_[raw(thread)] = pthread;
    set_tid(thread, tid);
}

void FakePython::set_tid(Address thread, pid_t tid) {
    builder.put_field(thread, layout().thread.native_thread_id, static_cast<std::uint64_t>(tid));
    builder.put_field(pthreads_[raw(thread)] + kGlibcTid, 0, static_cast<std::uint64_t>(tid), 4);
}

}  // namespace pyprof::test
