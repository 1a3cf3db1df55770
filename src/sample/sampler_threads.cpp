// SPDX-License-Identifier: Apache-2.0
//
// Who is there: the target's interpreters and threads as of the last look at its lists, their names, and what a
// tick's slice of an interpreter says of its lock and its collector. It judges no stack.
#include "sample/sampler.h"

#include <algorithm>

namespace pyprof {

Sampler::Interpreter* Sampler::interpreter_of(const Thread& thread) {
    for (Interpreter& interpreter : interpreters_) {
        if (interpreter.state.address == thread.state.interpreter) return &interpreter;
    }
    return nullptr;
}

const Sampler::Interpreter* Sampler::interpreter_of(const Thread& thread) const {
    return const_cast<Sampler*>(this)->interpreter_of(thread);
}

const Sampler::Thread* Sampler::thread_of(Address thread_state) const {
    const auto found = std::find_if(threads_.begin(), threads_.end(), [&](const auto& thread) { return thread && thread->state.address == thread_state; });
    return found == threads_.end() ? nullptr : found->get();
}

void Sampler::refresh_threads() {
    must_refresh_ = false;
    new_threads_.clear();
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
            Interpreter fresh{state, ThreadNames(layout_, state.address), {}, {}, {}, {}, false};
            if (native_ != nullptr) fresh.gil_facts = read_gil_facts(memory_, layout_, process_.runtime(), state.address);
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
                   candidate->state.native_thread_id == state.native_thread_id &&
                   (candidate->is_inner ||
                    (candidate->triage.tid() != 0 &&
                     // Up to 3.10 a successor differs by nothing else. A state that has outlived its thread has none.
                     (candidate->seen != ThreadTriage::State::kGone || process_.tid_of(target_, state) == candidate->triage.tid())));
        });
        if (known != threads_.end()) {
            threads.push_back(std::move(*known));
            continue;
        }
        threads.push_back(std::make_unique<Thread>(layout_, shape_, state, process_.tid_of(target_, state)));
        new_threads_.push_back(threads.back().get());
    }
    for (const auto& old : threads_) {
        if (!old) continue;
        figures_.busiest_thread_samples = std::max(figures_.busiest_thread_samples, old->samples);
        const bool is_shared = old->is_inner && std::any_of(threads.begin(), threads.end(), [&](const auto& thread) {
            return thread->triage.tid() == old->triage.tid();
        });
        if (!is_shared) target_.forget_thread(old->triage.tid());
        if (Interpreter* interpreter = interpreter_of(*old)) interpreter->names.forget(old->state.pthread);
        process_.forget_thread_ids();
    }
    threads_ = std::move(threads);
    find_c_stacks();
    place_turn_reader();
    for (const auto& thread : threads_) {
        if (!thread->is_inner) (void)index_of(*thread);  // the others when they have a stack of their own
    }
    if (native_ != nullptr) refresh_bare_threads();
    if (async_ != nullptr) async_->set_threads(list);
}

void Sampler::place_turn_reader() {
    turn_ = {};
    const bool is_wanted = is_fast() && options_.which != WhichThreads::kRunning && native_ == nullptr && interpreters_.size() == 1;
    if (!is_wanted || layout_.gil_kind == GilKind::kNone) {
        turn_reader_ = {};
    } else if (has(layout_.gil.last_holder)) {
        const Address gil = interpreters_.front().gil;
        turn_reader_.place(layout_, gil == kNullAddress ? gil : gil + at(layout_.gil.last_holder));
    } else {
        turn_reader_.place(layout_, process_.runtime() + at(layout_.runtime.gil_last_holder));
    }
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
    thread.is_registered = true;
    sink_.add_thread(facts);
}

ThreadIndex Sampler::index_of(Thread& thread) {
    if (!thread.is_registered) register_thread(thread);
    return thread.index;
}

bool Sampler::is_as_listed(const Interpreter& interpreter) const {
    const auto head = load<std::uint64_t>(interpreter.slice.data(), at(layout_.interpreter.threads_head) - slice_begin_);
    return Address{head} == interpreter.threads_head;
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
        if (!is_as_listed(interpreter)) must_refresh_ = true;
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

}  // namespace pyprof
