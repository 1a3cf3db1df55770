// SPDX-License-Identifier: Apache-2.0
//
// Lib/concurrent/futures/thread.py: `_WorkItem.run(self)` sets self.future, whose _done_callbacks hold what
// asyncio.futures._chain_future() put there. anyio/_backends/_asyncio.py: `WorkerThread.run(self)` holds a future
// of asyncio in its variable `future`.
#include "python/executor_work.h"

#include "python/frame_locals.h"
#include "python/objects.h"

namespace pyprof {

std::optional<WorkerFrame::Kind> worker_kind(std::string_view name, std::string_view file) {
    if (name == "_WorkItem.run" || name == "run") {
        if (file.ends_with("concurrent/futures/thread.py")) return WorkerFrame::Kind::kThreadPool;
    }
    if (name == "WorkerThread.run" || name == "run") {
        if (file.ends_with("anyio/_backends/_asyncio.py")) return WorkerFrame::Kind::kAnyio;
    }
    return std::nullopt;
}

void WorkFinder::find(Memory& memory, const WorkerFrame& worker, FoundWork& found) {
    found = {};
    if (worker.kind == WorkerFrame::Kind::kAnyio) {
        const auto future = read_local(memory, *layout_, worker.frame, "future");
        if (!future || !can_be_object(*future)) return;
        const ObjectKind kind = kinds_->kind_of(memory, *future);
        if (!is_future(kind)) return;
        found.item = found.future = *future;
        awaiters_->find(memory, *future, kind, found.awaiters);
        return;
    }
    const auto item = read_local(memory, *layout_, worker.frame, "self");
    if (!item || !can_be_object(*item)) return;
    const auto type = read_type(memory, *layout_, *item);
    if (!type || kinds_->name_of_type(memory, *type) != "_WorkItem") return;
    const Address future = read_attribute(memory, *layout_, *item, "future").value_or(kNullAddress);
    if (!can_be_object(future)) return;
    found.item = *item;
    found.future = future;
    awaiters_->find_of_concurrent(memory, future, found.awaiters);
}

}  // namespace pyprof
