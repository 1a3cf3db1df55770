// SPDX-License-Identifier: Apache-2.0
//
// Where a task was made, if the interpreter has noted it (cr_origin), or gevent (spawning_stack): the place of a task that nobody awaits. The
// note is found with the task, in one moment, and read a little later: that is believed once a later reading has found
// the very task with the very note again.
#include "sample/async_sampler.h"

#include "python/coroutine_origin.h"

namespace pyprof {

bool AsyncSampler::has_origin(const Reading& reading, TaskIndex index, View& view) {
    const AsyncTask& task = reading.sweep.tasks[index];
    if (task.origin == kNullAddress) return false;
    // A task with a number is never another one's successor; of one with a name the note is read each time.
    const bool is_read = view.origin_note == task.origin && task.identity != 0;
    if (!is_read) {
        auto noted = task.is_greenlet ? read_spawning_stack(memory_, layout_, task.origin) : read_origin_note(memory_, layout_, task.origin);
        strip_loop_frames(noted);
        std::vector<FrameId> origin;
        for (auto frame = noted.rbegin(); frame != noted.rend(); ++frame) {
            origin.push_back(stacks_.intern_frame({FrameKind::kPython, stacks_.intern_string(frame->function),
                                                   stacks_.intern_string(frame->file),
                                                   builder_.with_lines() ? frame->line : 0}));
        }
        if (view.origin_note != task.origin || view.origin != origin) {
            view.origin_read = reading.serial;
            must_look_again_ = true;
        }
        view.origin_note = task.origin;
        view.origin = std::move(origin);
    }
    return !view.origin.empty() && view.origin_read < reading.serial;
}

AsyncStacks::Place AsyncSampler::add_origin(AsyncStacks::Place place, const View& view) {
    for (const FrameId frame : view.origin) place = trie_.add_plain(place, frame);
    return trie_.marker(place, "[created]");
}

}  // namespace pyprof
