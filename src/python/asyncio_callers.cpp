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

constexpr std::size_t kMostMains = 256;  // threads that have ended are forgotten with all others

}  // namespace

void AsyncioReader::note_main_greenlet(Interpreter& interpreter, const AsyncTask& task, Address main) const {
    if (main == kNullAddress || task.thread == kNullAddress) return;
    if (interpreter.mains.size() >= kMostMains) interpreter.mains.clear();
    interpreter.mains[raw(task.thread)] = {task.loop, main};
}

const RunningLoop* AsyncioReader::loop_of(Address thread) const {
    const auto found = std::find_if(watched_.begin(), watched_.end(), [&](const RunningLoop& loop) { return loop.thread == thread; });
    return found == watched_.end() ? nullptr : &*found;
}

bool AsyncioReader::has_greenlets(Address interpreter) const {
    const Interpreter* known = interpreter_at(interpreter);
    return known != nullptr && known->has_greenlets;
}

// Of the thread of that loop; null: not known.
Address AsyncioReader::main_greenlet_of(const RunningLoop& loop, Address interpreter) const {
    const Interpreter* known = interpreter_at(interpreter);
    if (known == nullptr) return kNullAddress;
    const auto main = known->mains.find(raw(loop.thread));
    return main != known->mains.end() && main->second.loop == loop.loop ? main->second.address : kNullAddress;
}

bool AsyncioReader::knows_greenlets(const RunningLoop& loop, Address interpreter) const {
    return main_greenlet_of(loop, interpreter) != kNullAddress;
}

// Nothing has been switched to since the counter stood at `version`, so what is read before it is asked again was so all the
// time.
template <class Read>
bool AsyncioReader::read_unmoved(const RunningLoop& loop, std::uint64_t version, Read&& read) {
    bool is_found = false;
    read_known_pages(loop.thread, [&] { is_found = read(); });
    if (version == 0) return is_found;
    return is_found && read_value<std::uint64_t>(target_->memory(), loop.thread + at(asyncio_.thread.context_version)) == version;
}

bool AsyncioReader::read_callers(const RunningLoop& loop, Address interpreter, std::uint64_t version, std::vector<RawFrame>& frames) {
    const Address main = main_greenlet_of(loop, interpreter);
    if (main == kNullAddress) return false;
    GreenletReader& greenlets = interpreter_at(interpreter)->greenlets;
    return read_unmoved(loop, version, [&] { return greenlets.find_callers(part_, main, frames); });
}

bool AsyncioReader::read_between(const RunningLoop& loop, Address interpreter, std::uint64_t version, std::span<const RawFrame> frames,
                                 std::vector<Between>& found) {
    found.clear();
    if (frames.size() < 2 || !knows_greenlets(loop, interpreter)) return true;
    GreenletReader& greenlets = interpreter_at(interpreter)->greenlets;
    return read_unmoved(loop, version, [&] {
        Between between;
        for (between.inner = 1; between.inner < frames.size(); ++between.inner) {
            const Address called = frames[between.inner].address;
            if (greenlets.find_between_frames(part_, frames[between.inner - 1], called, between.frames) == kNullAddress) continue;
            std::reverse(between.frames.begin(), between.frames.end());
            found.push_back(between);
        }
        return true;
    });
}

}  // namespace pyprof
