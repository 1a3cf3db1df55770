// SPDX-License-Identifier: Apache-2.0
//
// Greenlets that a running task has switched to, as SQLAlchemy does it. While such a greenlet runs, the stack of the thread
// ends at the greenlet's outermost frame, and the task and the loop stand in the main greenlet of the thread. Which one that
// is is learnt from a task that waits within a greenlet. While a coroutine runs that a greenlet has handed to its task, the
// greenlet is suspended, and the stack of the thread does not show it.
#include "python/asyncio_state.h"

#include <algorithm>

namespace pyprof {

namespace {

constexpr std::size_t kMostMains = 256;  // loops that have ended are forgotten with all others

}  // namespace

void AsyncioReader::note_main_greenlet(Interpreter& interpreter, Address loop) const {
    if (interpreter.mains.size() >= kMostMains) interpreter.mains.clear();
    interpreter.mains[raw(loop)] = chain_.main_greenlet;
}

AsyncioReader::Interpreter* AsyncioReader::interpreter_at(Address address) const {
    const auto found = std::find_if(interpreters_.begin(), interpreters_.end(), [&](const auto& known) { return known->address == address; });
    return found == interpreters_.end() ? nullptr : found->get();
}

bool AsyncioReader::has_moved(const RunningLoop& loop, std::uint64_t version) {
    if (version == 0) return false;
    const Address counter = loop.thread + at(asyncio_.thread.context_version);
    return read_value<std::uint64_t>(target_->memory(), counter) != version;
}

bool AsyncioReader::knows_greenlets(const RunningLoop& loop, Address interpreter) const {
    const Interpreter* known = interpreter_at(interpreter);
    return known != nullptr && known->mains.contains(raw(loop.loop));
}

// Nothing has been switched to since the counter stood there, so what is read before it is asked again was so all the time.
bool AsyncioReader::read_callers(const RunningLoop& loop, Address interpreter, std::uint64_t version, std::vector<RawFrame>& frames) {
    if (!knows_greenlets(loop, interpreter) || has_moved(loop, version)) return false;
    Interpreter& known = *interpreter_at(interpreter);
    pages_ = &part_;
    part_.begin_part({});
    return known.greenlets.find_callers(part_, known.mains.at(raw(loop.loop)), frames) && !has_moved(loop, version);
}

bool AsyncioReader::read_between(const RunningLoop& loop, Address interpreter, std::uint64_t version, const RawFrame& caller,
                                 const RawFrame& called, std::vector<RawFrame>& frames) {
    frames.clear();
    if (!knows_greenlets(loop, interpreter)) return true;
    pages_ = &part_;
    part_.begin_part({});
    interpreter_at(interpreter)->greenlets.find_between_frames(part_, caller, called.address, frames);
    return !has_moved(loop, version);
}

}  // namespace pyprof
