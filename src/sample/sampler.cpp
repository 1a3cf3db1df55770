// SPDX-License-Identifier: Apache-2.0
#include "sample/sampler.h"

#include "base/clock.h"

#include <algorithm>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

// Above this rate the target notices (docs/how-it-works.md), and what moves slowly is looked at less
// often than at every sample.
constexpr double kFastHz = 20'000;
constexpr nanoseconds kFastReuse = std::chrono::microseconds(50);
constexpr nanoseconds kFastSlices = std::chrono::milliseconds(1);
constexpr nanoseconds kRefreshAtLeast = std::chrono::seconds(1);
constexpr std::uint32_t kSandwichAfterDoubt = 64;
constexpr std::uint32_t kFreshPlans = 4;
constexpr int kMostLooks = 4;  // at one thread after one sample
// Accepted samples of a leaf after which the one path to it is taken for the only one.
constexpr std::uint32_t kInferSightings = 4;

std::uint64_t at(Offset offset) { return static_cast<std::uint64_t>(offset); }

bool is_fast(const SamplerOptions& options) { return options.rate_hz == 0 || options.rate_hz > kFastHz; }

struct Slice {
    std::uint32_t begin = 0;
    std::uint32_t bytes = 0;
};

// The smallest range that holds all fields that there are; each is at most 8 bytes long.
Slice slice_over(std::initializer_list<Offset> offsets) {
    Offset first = kAbsent;
    Offset last = kAbsent;
    for (const Offset offset : offsets) {
        if (!has(offset)) continue;
        first = has(first) ? std::min(first, offset) : offset;
        last = std::max(last, offset);
    }
    if (!has(first)) return {};
    return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last - first) + 8};
}

}  // namespace

Sampler::Sampler(Target& target, PythonProcess& process, StackTable& stacks, const SamplerOptions& options, Sink& sink,
                 ThreadStopper* stopper)
    : target_(target),
      memory_(target.memory()),
      process_(process),
      layout_(process.layout()),
      shape_(process.layout()),
      stacks_(stacks),
      options_(options),
      sink_(sink),
      codes_(memory_, layout_, stacks),
      builder_(codes_, stacks, options.with_lines),
      prover_(memory_, layout_, shape_, codes_, stacks, builder_),
      mender_(shape_, codes_, stacks),
      epoch_(codes_, stacks, builder_),
      stopper_(stopper) {
    if (options_.async.mode != AsyncMode::kOff) {
        async_ = std::make_unique<AsyncSampler>(target_, layout_, stacks_, codes_, builder_, epoch_, options_.async);
    }
    const Layout::Interpreter& i = layout_.interpreter;
    const Offset holder = has(i.own_gil) ? i.own_gil + layout_.gil.last_holder : kAbsent;
    const Offset locked = has(i.own_gil) ? i.own_gil + layout_.gil.locked : kAbsent;
    const Slice slice = slice_over({i.threads_head, i.gc_collecting, holder, locked, i.code_object_generation});
    slice_begin_ = slice.begin;
    slice_bytes_ = slice.bytes;
    const Layout::Runtime& r = layout_.runtime;
    const Slice runtime = slice_over({r.gc_collecting, r.gil_last_holder, r.gil_locked, r.tstate_current});
    runtime_begin_ = runtime.begin;
    runtime_slice_.resize(runtime.bytes);
    if (options.natives == nullptr) return;
    no_stopper_ = std::make_unique<ThreadStopper>(TracedProcess{});
    native_ = std::make_unique<NativeStacks>(target, layout_, stacks, *options.natives, stopper == nullptr ? *no_stopper_ : *stopper);
}

Sampler::Interpreter* Sampler::interpreter_of(const Thread& thread) {
    for (Interpreter& interpreter : interpreters_) {
        if (interpreter.state.address == thread.state.interpreter) return &interpreter;
    }
    return nullptr;
}

const Sampler::Interpreter* Sampler::interpreter_of(const Thread& thread) const {
    return const_cast<Sampler*>(this)->interpreter_of(thread);
}

void Sampler::refresh_threads() {
    must_refresh_ = false;
    ThreadList list = process_.read_threads(target_);
    figures_.errors += list.broken_lists;

    std::vector<Interpreter> interpreters;
    for (const InterpreterState& state : list.interpreters) {
        const auto known = std::find_if(interpreters_.begin(), interpreters_.end(), [&](const Interpreter& candidate) {
            return candidate.state.address == state.address && candidate.state.id == state.id;
        });
        if (known != interpreters_.end()) {
            interpreters.push_back(std::move(*known));
        } else {
            Interpreter fresh{state, ThreadNames(layout_, state.address), {}, {}, {}, false};
            fresh.slice.resize(slice_bytes_);
            if (has(layout_.interpreter.gil)) {
                fresh.gil = read_pointer(memory_, state.address + at(layout_.interpreter.gil)).value_or(kNullAddress);
            }
            interpreters.push_back(std::move(fresh));
        }
        interpreters.back().threads_head = kNullAddress;
    }
    interpreters_ = std::move(interpreters);

    std::vector<std::unique_ptr<Thread>> threads;
    for (const ThreadState& state : list.threads) {
        for (Interpreter& interpreter : interpreters_) {
            if (interpreter.state.address == state.interpreter && interpreter.threads_head == kNullAddress) {
                interpreter.threads_head = state.address;  // the first of its list
            }
        }
        const auto known = std::find_if(threads_.begin(), threads_.end(), [&](const std::unique_ptr<Thread>& candidate) {
            return candidate && candidate->state.address == state.address &&
                   candidate->state.pthread == state.pthread &&
                   candidate->state.native_thread_id == state.native_thread_id && candidate->triage.tid() != 0 &&
                   candidate->seen != ThreadTriage::State::kGone;  // up to 3.10 a successor differs by nothing else
        });
        if (known != threads_.end()) {
            threads.push_back(std::move(*known));
            continue;
        }
        auto fresh = std::make_unique<Thread>(layout_, shape_, state, process_.tid_of(target_, state));
        register_thread(*fresh);
        threads.push_back(std::move(fresh));
    }
    for (const auto& old : threads_) {
        if (!old) continue;
        figures_.busiest_thread_samples = std::max(figures_.busiest_thread_samples, old->samples);
        target_.forget_thread(old->triage.tid());
        if (Interpreter* interpreter = interpreter_of(*old)) interpreter->names.forget(old->state.pthread);
        process_.forget_thread_ids();
    }
    threads_ = std::move(threads);
    if (native_ != nullptr) refresh_bare_threads();
    if (async_ != nullptr) async_->set_threads(list);
}

const std::string* Sampler::program_name_of(Thread& thread) {
    Interpreter* interpreter = interpreter_of(thread);
    const std::string* name = interpreter == nullptr ? nullptr : interpreter->names.find(memory_, thread.state.pthread);
    thread.is_named = name != nullptr;
    return name;
}

void Sampler::register_thread(Thread& thread) {
    ProfiledThread facts;
    facts.native_id = static_cast<std::uint64_t>(thread.triage.tid());
    facts.is_main = thread.state.is_main;
    if (const std::string* name = program_name_of(thread)) {
        facts.name = *name;
    } else if (thread.triage.tid() != 0) {
        facts.name = target_.read_thread_name(thread.triage.tid());
    }
    thread.index = next_index_++;
    sink_.add_thread(facts);
}

bool Sampler::wants(const Thread& thread) const {
    using State = ThreadTriage::State;
    const bool is_idle_loop = async_ != nullptr && async_->wants_idle(thread.state.address);
    switch (is_idle_loop ? WhichThreads::kAll : options_.which) {
        case WhichThreads::kRunning:
            return thread.seen == State::kRunning;
        case WhichThreads::kAll:
        case WhichThreads::kGilHolder:
            return thread.seen == State::kRunning || thread.seen == State::kBlocked ||
                   (thread.seen == State::kStillBlocked && !thread.has_last && !thread.has_nothing);
    }
    return false;
}

void Sampler::plan_read(nanoseconds when) {
    ranges_.clear();
    planned_.clear();
    native_planned_.clear();
    interpreter_ranges_ = 0;
    const bool fast = is_fast(options_);
    if (!fast || when - last_slices_ >= kFastSlices) {
        last_slices_ = when;
        for (Interpreter& interpreter : interpreters_) {
            ranges_.push_back({interpreter.state.address + slice_begin_, interpreter.slice});
        }
        if (!runtime_slice_.empty()) ranges_.push_back({process_.runtime() + runtime_begin_, runtime_slice_});
        interpreter_ranges_ = ranges_.size();
    }
    for (const auto& thread : threads_) {
        thread->seen = thread->triage.look(target_, when, fast ? kFastReuse : nanoseconds{0});
        if (thread->seen == ThreadTriage::State::kGone) must_refresh_ = true;
        ++figures_.thread_looks;
        if (thread->seen == ThreadTriage::State::kRunning) ++figures_.running_looks;
        if (thread->seen == ThreadTriage::State::kUnknown) ++figures_.unknown;
        if (!wants(*thread)) continue;
        const bool moves = thread->seen == ThreadTriage::State::kRunning;
        const bool sandwich = moves && (thread->sandwich_samples > 0 || (!fast && shape_.on_data_stack()));
        if (native_ != nullptr && (stopper_ != nullptr || !moves)) {
            native_planned_.push_back(thread.get());
            continue;
        }
        if (sandwich && thread->plan_samples > 0 && looks_.allows()) {
            --thread->plan_samples;
            looks_.spend();
            bring_plan_up_to_date(*thread);
        }
        thread->first_range = ranges_.size();
        thread->reader.plan(ranges_, sandwich);
        thread->range_count = ranges_.size() - thread->first_range;
        thread->version_range = ranges_.size();
        thread->context_version = 0;
        if (async_ != nullptr && async_->has_loop(thread->state.address) && has(async_->context_version_offset())) {
            ranges_.push_back({thread->state.address + at(async_->context_version_offset()),
                               std::as_writable_bytes(std::span(&thread->context_version, 1))});
        }
        planned_.push_back(thread.get());
    }
}

// process_vm_readv stops at the first range that it can't read: go on behind it, so that one freed frame
// costs no other thread its sample.
void Sampler::read_all(std::span<const ReadRange> ranges, std::vector<std::uint8_t>& filled) {
    filled.assign(ranges.size(), 0);
    std::size_t done = 0;
    while (done < ranges.size()) {
        const ReadOutcome outcome = memory_.read(ranges.subspan(done));
        std::fill_n(filled.begin() + static_cast<std::ptrdiff_t>(done), outcome.complete, std::uint8_t{1});
        done += outcome.complete;
        if (done >= ranges.size()) break;
        if (outcome.fault == ReadFault::kGone || outcome.fault == ReadFault::kDenied) break;
        ++done;
    }
}

// A sample proves its own path only if its plan held all of its frames. While paths are new, the plan of the last
// sample is too old for that: then the thread is copied once just before the sample, for the plan alone.
void Sampler::bring_plan_up_to_date(Thread& thread) {
    look_ranges_.clear();
    thread.reader.plan(look_ranges_, false);
    read_all(look_ranges_, look_filled_);
    (void)thread.reader.take(memory_, look_filled_);
}

void Sampler::parse_interpreters() {
    if (interpreter_ranges_ == 0) return;
    for (std::size_t i = 0; i < interpreters_.size(); ++i) {
        Interpreter& interpreter = interpreters_[i];
        interpreter.has_slice = filled_[i] != 0;
        if (!interpreter.has_slice) {
            must_refresh_ = true;
            continue;
        }
        const auto head = load<std::uint64_t>(interpreter.slice.data(), at(layout_.interpreter.threads_head) - slice_begin_);
        if (Address{head} != interpreter.threads_head) must_refresh_ = true;
    }
    has_runtime_slice_ = interpreter_ranges_ > interpreters_.size() && filled_[interpreter_ranges_ - 1] != 0;
}

bool Sampler::holds_gil(const Thread& thread) const {
    GilFacts facts;
    if (layout_.gil_kind == GilKind::kNone) return false;
    if (layout_.gil_kind == GilKind::kRuntimeCurrent) {
        if (!has_runtime_slice_) return false;
        facts.holder = Address{load<std::uint64_t>(runtime_slice_.data(), at(layout_.runtime.tstate_current) - runtime_begin_)};
    } else if (layout_.gil_kind == GilKind::kLockedHolder) {
        const Interpreter* own = interpreter_of(thread);
        if (own == nullptr) return false;
        // A sub-interpreter may share the GIL that stands in another one's state.
        for (const Interpreter& interpreter : interpreters_) {
            if (interpreter.state.address + at(layout_.interpreter.own_gil) != own->gil || !interpreter.has_slice) continue;
            const auto field = [&](Offset offset) { return at(layout_.interpreter.own_gil + offset) - slice_begin_; };
            if (load<std::int32_t>(interpreter.slice.data(), field(layout_.gil.locked)) == 1) {
                facts.holder = Address{load<std::uint64_t>(interpreter.slice.data(), field(layout_.gil.last_holder))};
            }
        }
    }
    return thread_holds_gil(layout_, facts, thread.state.address, thread.reader.thread_bytes());
}

bool Sampler::is_collecting(const Thread& thread) const {
    if (has(layout_.runtime.gc_collecting)) {
        return has_runtime_slice_ &&
               load<std::int32_t>(runtime_slice_.data(), at(layout_.runtime.gc_collecting) - runtime_begin_) != 0;
    }
    const Interpreter* interpreter = interpreter_of(thread);
    return interpreter != nullptr && interpreter->has_slice && has(layout_.interpreter.gc_collecting) &&
           load<std::int32_t>(interpreter->slice.data(), at(layout_.interpreter.gc_collecting) - slice_begin_) != 0;
}

bool Sampler::is_complete(const Walk& walk, const StackBuilder::Chain& chain, StackBuilder::Built built) const {
    if (walk.end != WalkEnd::kRoot || built == StackBuilder::Built::kTorn || chain.steps.empty()) return false;
    // Up to 3.10 a generator's frame loses its caller when it yields, and only its code tells what it is.
    return layout_.frame_root != FrameRoot::kThreadFrame || !codes_.entry(chain.steps.front().code).is_generator;
}

// A code object that was first read after the frames were copied may be another one by now. As long as
// its frame still stands there, it holds a reference to it.
bool Sampler::still_stands(const StackBuilder::Chain& chain) {
    std::vector<std::uint64_t> codes(chain.frames.size());
    std::vector<ReadRange> ranges;
    for (std::size_t i = 0; i < codes.size(); ++i) {
        ranges.push_back({chain.frames[i].address + at(layout_.frame.code),
                          std::as_writable_bytes(std::span(codes).subspan(i, 1))});
    }
    if (memory_.read(ranges).complete != ranges.size()) return false;
    for (std::size_t i = 0; i < codes.size(); ++i) {
        if (Address{codes[i] & layout_.pointer_mask} != chain.frames[i].code) return false;
    }
    return true;
}

// The leaf is known, its callers are lost: as long as only one path to it is known, they follow.
std::optional<StackBuilder::Step> Sampler::infer(Thread& thread) {
    const Walk& walk = thread.reader.walk();
    if (walk.frames.empty() || walk.frames.front().address != thread.reader.leaf()) return std::nullopt;
    const RawFrame& leaf = walk.frames.front();
    if (const std::byte* copy = thread.reader.copy_of(leaf.address, true)) {
        const FrameShape::Parsed before = shape_.parse(copy, leaf.address);
        // Another frame stood there earlier. The later one will do if it lives: then it was the leaf itself,
        // at most some microseconds after the pointer was read.
        const bool differs = before.is_valid && before.frame.code != leaf.code;
        const bool executes = shape_.on_data_stack() != shape_.is_suspended(leaf);
        const bool lives = executes || (shape_.clears_popped_frames() && !leaf.of_generator);
        if (differs && !lives) return std::nullopt;
    }
    return builder_.sole_stack(leaf, kInferSightings);
}

Sampler::Sampled Sampler::assess(Thread& thread) {
    using Built = StackBuilder::Built;
    Sampled sampled;
    const auto use = [&](StackBuilder::Chain& chain, bool known) {
        sampled.chain = &chain;
        sampled.stack = builder_.stack_of(chain);
        sampled.path = builder_.path_of(chain);
        sampled.names = sampled.path;
        sampled.is_known = known;
        if (known && chain.unchanged < chain.steps.size()) builder_.note_accepted(chain);
        return sampled;
    };
    const auto keep_leaf = [&](const RawFrame* leaf) {
        sampled.stack = builder_.unproved(leaf);
        const CodeIndex code = leaf == nullptr ? kNoCode : codes_.find(leaf->code);
        if (code != kNoCode) sampled.names = builder_.child_path(kRootPath, code);
        sampled.is_truncated = true;
        return sampled;
    };

    if (thread.reader.leaf() == kNullAddress) return keep_leaf(nullptr);  // it could not be read
    const Walk& walk = thread.reader.walk();
    const RawFrame* leaf = walk.frames.empty() ? nullptr : &walk.frames.front();
    const Built built = builder_.build(walk, thread.chain);
    if (thread.chain.read_code && !still_stands(thread.chain)) {
        thread.chain.steps.clear();
        thread.chain.frames.clear();
        return keep_leaf(nullptr);
    }
    const bool complete = is_complete(walk, thread.chain, built);
    if (complete && stacks_.is_proved(builder_.path_of(thread.chain))) {
        epoch_.mark_used(thread.chain);
        return use(thread.chain, true);
    }
    if (complete && thread.seen != ThreadTriage::State::kRunning && thread.triage.stayed_blocked(target_)) {
        builder_.prove(builder_.path_of(thread.chain));  // nothing moved while it was copied
        epoch_.mark_used(thread.chain);
        return use(thread.chain, true);
    }

    thread.sandwich_samples = kSandwichAfterDoubt;
    thread.plan_samples = kFreshPlans;
    const Walk& before = thread.reader.walk_before();
    if (complete && prover_.prove(thread.reader, thread.chain)) {
        looks_.note_proof();
        epoch_.mark_used(thread.chain);
        return use(thread.chain, true);
    }
    // The pointer to the leaf was read between the copies: the earlier one may hold what the later lost.
    const auto build_other = [&](const Walk& other) {
        const Built state = builder_.build(other, thread.chain_before);
        if (thread.chain_before.read_code && !still_stands(thread.chain_before)) {
            thread.chain_before = {};
            return false;
        }
        return is_complete(other, thread.chain_before, state);
    };
    const bool complete_before = !before.frames.empty() && build_other(before);
    if (complete_before && stacks_.is_proved(builder_.path_of(thread.chain_before))) {
        epoch_.mark_used(thread.chain_before);
        return use(thread.chain_before, true);
    }
    if (const Walk* mended = mender_.mend(thread.reader); mended != nullptr && build_other(*mended)) {
        epoch_.mark_used(thread.chain_before);
        return use(thread.chain_before, true);
    }
    if (const auto inferred = infer(thread)) {
        epoch_.mark_used(inferred->code);
        sampled.stack = inferred->stack;
        sampled.path = inferred->path;
        sampled.names = inferred->path;
        sampled.is_inferred = true;
        return sampled;
    }
    if (!complete && complete_before && build_other(before)) {
        epoch_.mark_used(thread.chain_before);
        return use(thread.chain_before, false);
    }
    epoch_.mark_used(thread.chain);
    return complete ? use(thread.chain, false) : keep_leaf(leaf);
}

// The plan has learnt now what the sample missed, so that a second sandwich at once may hold what the first did
// not. It proves the stack of its own moment, and takes no sample: where the thread has stayed until then, that is
// the sample's path.
bool Sampler::prove_by_looks(Thread& thread) {
    const int most = thread.wanted == kRootPath ? 1 : kMostLooks;
    for (int look = 0; look < most && looks_.allows(); ++look) {
        looks_.spend();
        look_ranges_.clear();
        thread.reader.plan(look_ranges_, true);
        read_all(look_ranges_, look_filled_);
        if (thread.reader.take(memory_, look_filled_) != ThreadReader::Status::kOk) return false;
        const StackBuilder::Built built = builder_.build(thread.reader.walk(), other_chain_);
        if (other_chain_.read_code && !still_stands(other_chain_)) {
            other_chain_ = {};
            continue;
        }
        if (!is_complete(thread.reader.walk(), other_chain_, built)) continue;
        const bool is_new = !stacks_.is_proved(builder_.path_of(other_chain_));
        if (is_new && prover_.prove(thread.reader, other_chain_)) looks_.note_proof();
        if (thread.wanted != kRootPath && stacks_.is_proved(thread.wanted)) return true;
    }
    return false;
}

// The stack at which the thread happens to stand is real. It proves that path and takes no sample: a
// sample taken by a stop would be of another moment than the one that was due.
void Sampler::prove_by_stop(Thread& thread) {
    ranges_.clear();
    thread.reader.plan(ranges_, false);
    const nanoseconds began = monotonic_now();
    if (!stopper_->stop(thread.triage.tid())) {
        budget_.spend(monotonic_now() - began);
        return;
    }
    read_ranges();
    const ThreadReader::Status status = thread.reader.take(memory_, filled_);
    stopper_->resume();
    budget_.spend(monotonic_now() - began);
    if (status != ThreadReader::Status::kOk) return;
    const StackBuilder::Built built = builder_.build(thread.reader.walk(), other_chain_);
    if (other_chain_.read_code && !still_stands(other_chain_)) {
        other_chain_ = {};
        return;
    }
    if (is_complete(thread.reader.walk(), other_chain_, built)) builder_.prove(builder_.path_of(other_chain_));
}

// What became of one thread's read, before its frames are looked at.
bool Sampler::has_stack_to_show(Thread& thread, ThreadReader::Status status) {
    thread.has_last = false;
    thread.has_nothing = false;
    thread.shows_tasks_only = false;
    if (status == ThreadReader::Status::kGone) {
        must_refresh_ = true;
        ++figures_.refused;
        return false;
    }
    thread.holds_gil = holds_gil(thread);
    is_gil_held_ |= thread.holds_gil;
    if (status == ThreadReader::Status::kNoFrame ||
        (options_.which == WhichThreads::kGilHolder && !thread.holds_gil)) {
        thread.has_nothing = thread.seen == ThreadTriage::State::kBlocked;
        return false;
    }
    return true;
}

void Sampler::take_thread(Thread& thread, nanoseconds when, nanoseconds weight) {
    const auto filled = std::span(filled_).subspan(thread.first_range, thread.range_count);
    if (!has_stack_to_show(thread, thread.reader.take(memory_, filled))) return;
    if (thread.sandwich_samples > 0) --thread.sandwich_samples;
    const Sampled sampled = assess(thread);
    const bool moves = thread.seen == ThreadTriage::State::kRunning;
    thread.wanted = sampled.is_known || sampled.is_truncated ? kRootPath : sampled.path;
    if (stacks_.is_proved(sampled.path)) thread.wanted = kRootPath;
    looks_.note_sample();
    if (!sampled.is_known && moves) in_doubt_.push_back(&thread);
    if (sampled.is_truncated) ++figures_.truncated;
    if (sampled.is_inferred) ++figures_.inferred;
    if (async_ != nullptr && async_->has_loop(thread.state.address)) {
        loop_samples_.push_back({&thread, sampled});
        return;
    }
    record_sampled(thread, sampled, when, weight);
}

// What runs in a loop's thread hangs below what waits for it. An idle loop has nothing to show but its tasks.
void Sampler::take_loops(nanoseconds when, nanoseconds weight) {
    const bool with_waiting = options_.async.mode == AsyncMode::kAll;
    for (LoopSample& taken : loop_samples_) {
        Thread& thread = *taken.thread;
        Sampled& sampled = taken.sampled;
        const bool moves = thread.seen == ThreadTriage::State::kRunning;
        const std::uint64_t version = thread.version_range < filled_.size() && filled_[thread.version_range] != 0 ? thread.context_version : 0;
        if (sampled.chain == nullptr) {
            async_->note_unlinked();
        } else if (const auto spliced = async_->splice(thread.state.address, *sampled.chain, version)) {
            sampled.stack = spliced->place.stack;
            sampled.names = spliced->place.names;
        } else if (with_waiting && !moves) {
            thread.shows_tasks_only = true;
            continue;
        }
        record_sampled(thread, sampled, when, weight);
    }
    for (const auto& thread : threads_) {
        if (!with_waiting || !async_->has_loop(thread->state.address)) continue;
        using State = ThreadTriage::State;
        if (thread->seen == State::kGone || thread->seen == State::kUnknown) continue;
        const bool has_tasks = async_->record_waiting(thread->state.address, thread->index, thread->seen == State::kStillBlocked,
                                                      thread->seen == State::kRunning);
        if (!thread->shows_tasks_only) continue;
        thread->has_nothing = thread->seen == State::kBlocked || thread->seen == State::kStillBlocked;
        if (has_tasks || options_.which == WhichThreads::kRunning) continue;
        for (const LoopSample& taken : loop_samples_) {
            if (taken.thread == thread.get()) record_sampled(*thread, taken.sampled, when, weight);
        }
    }
    loop_samples_.clear();
}

void Sampler::record_sampled(Thread& thread, const Sampled& sampled, nanoseconds when, nanoseconds weight) {
    StackId stack = sampled.stack;
    if (options_.gc_marker && thread.holds_gil && is_collecting(thread)) {
        stack = builder_.marker(stack, stacks_.node(stack).path, "[gc]");
    }
    ++figures_.samples;
    ++thread.samples;
    thread.last_stack = stack;
    thread.last_names = sampled.names;
    thread.has_last = sampled.is_known && thread.seen == ThreadTriage::State::kBlocked;
    record(thread, stack, sampled.names, when, weight);
}

void Sampler::record(Thread& thread, StackId stack, PathId names, nanoseconds when, nanoseconds weight) {
    const SampleMarks marks{thread.seen == ThreadTriage::State::kRunning, thread.holds_gil};
    epoch_.add(thread.index, stack, names, weight, when - start_, marks);
}

Sampler::Outcome Sampler::tick(nanoseconds when, nanoseconds weight) {
    if (!has_start_) {
        start_ = when;
        has_start_ = true;
    }
    ++figures_.ticks;
    if (must_refresh_ || when - last_refresh_ >= kRefreshAtLeast) {
        if (target_.has_ended()) return Outcome::kTargetEnded;
        last_refresh_ = when;
        refresh_threads();
    }
    plan_read(when);
    read_ranges();
    parse_interpreters();
    in_doubt_.clear();
    is_gil_held_ = false;
    if (async_ != nullptr) async_->begin_tick(when, weight);
    for (Thread* thread : planned_) take_thread(*thread, when, weight);
    for (Thread* thread : native_planned_) take_native_thread(*thread, when, weight);
    if (native_ != nullptr) take_bare_threads(when, weight);
    if (async_ != nullptr) take_loops(when, weight);
    for (Thread* thread : in_doubt_) {
        if (prove_by_looks(*thread)) continue;
        if (stopper_ != nullptr && budget_.allows(when - start_)) prove_by_stop(*thread);
    }
    if (stopper_ != nullptr && stopper_->has_late()) stopper_->release_late();
    if (options_.which != WhichThreads::kRunning || async_ != nullptr) {
        for (const auto& thread : threads_) {
            if (thread->seen != ThreadTriage::State::kStillBlocked) continue;
            const bool is_wanted = options_.which != WhichThreads::kRunning || async_->wants_idle(thread->state.address);
            if (!is_wanted) continue;
            is_gil_held_ |= thread->holds_gil;  // it has not run since it was read
            if (!thread->has_last) continue;
            if (options_.which == WhichThreads::kGilHolder && !thread->holds_gil) continue;
            ++figures_.reused;
            record(*thread, thread->last_stack, thread->last_names, when, weight);
            epoch_.mark_used(thread->chain);
        }
    }
    if (is_gil_held_) ++figures_.gil_ticks;
    if (epoch_.tick(when) || epoch_.is_due(when)) end_epoch(when);
    return Outcome::kOk;
}

void Sampler::end_epoch(nanoseconds now) {
    std::uint64_t generation = 0;
    const std::uint64_t* known = nullptr;
    if (has(layout_.interpreter.code_object_generation)) {
        known = &generation;
        for (const Interpreter& interpreter : interpreters_) {
            const auto value =
                read_value<std::uint64_t>(memory_, interpreter.state.address + at(layout_.interpreter.code_object_generation));
            if (!value) known = nullptr;
            // Of all interpreters together: one that ends must not hide what another has dropped.
            generation = (generation ^ raw(interpreter.state.address) ^ value.value_or(0)) * 0x9E3779B97F4A7C15ULL;
        }
    }
    const Epoch::Result& result = epoch_.end(now, known);
    figures_.truncated += result.demoted;
    if (result.has_stale) {
        for (const auto& thread : threads_) {
            thread->chain = {};
            thread->chain_before = {};
            thread->has_last = false;
        }
        other_chain_ = {};
        if (async_ != nullptr) async_->forget_codes();
        codes_.reuse_retired();
    }
    for (const SampleRecord& record : result.records) sink_.add_sample(record);
    // A thread is seen before `threading` knows it; misses are remembered, so that asking costs little.
    for (const auto& thread : threads_) {
        if (thread->is_named) continue;
        if (const std::string* name = program_name_of(*thread)) sink_.name_thread(thread->index, *name);
    }
    if (target_.has_ended()) must_refresh_ = true;
}

void Sampler::finish(nanoseconds now) {
    for (const auto& thread : threads_) {
        if (async_ != nullptr && thread != nullptr) async_->flush(thread->state.address, thread->index);
    }
    end_epoch(now);
}

RunFigures Sampler::figures() const {
    RunFigures figures = figures_;
    figures.stops = budget_.stops();
    figures.stopped = budget_.spent();
    if (async_ != nullptr) async_->add_figures(figures);
    figures.longest_stop = budget_.longest();
    for (const auto& thread : threads_) {
        figures.busiest_thread_samples = std::max(figures.busiest_thread_samples, thread->samples);
    }
    return figures;
}

}  // namespace pyprof
