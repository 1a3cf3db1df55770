// SPDX-License-Identifier: Apache-2.0
//
// Looks at tasks while they move. A moment is one copy of pages between two readings of the loops' counters: what
// a loop whose counter stood still owns is as of that moment (one callback at most was being called, and it moves
// no task but its own, which executes). Tasks whose loop moved are read again in parts, each a moment of its own:
// a few tasks with all above them, whose pages are known from before and are copied faster than a step takes.
// Where steps are shorter than that (10 us; the copy takes 20), the thread is held for one copy of everything.
#include "python/asyncio_state.h"

#include "python/objects.h"

#include <algorithm>

namespace pyprof {

namespace {

constexpr std::uint32_t kForgetClassesAfter = 256;  // looks
constexpr int kMostCopies = 3;            // of everything, for one look
constexpr std::size_t kMostOfPart = 256;  // tasks in a moment that is not the whole
constexpr std::size_t kTasksOfPart = 4;   // that are asked for at once; what is left over then each by itself
// Of very many tasks those that neighbour each other share pages: of 10,000 sleepers 64 stand on few more than 4.
constexpr std::size_t kTasksOfLargePart = 64;
constexpr std::size_t kManyTasks = 1024;
constexpr int kMostTries = 4;             // at a part
constexpr std::size_t kMostPaths = 1U << 15;
constexpr std::uint32_t kNoNode = ~0U;
constexpr std::size_t kMostInVain = 16;         // parts in a row, then the others are not tried
constexpr std::size_t kMostInVainUnheld = 128;  // where there is nothing else to try
constexpr std::size_t kMostHeldPages = 1024;    // some 0.3 ms
constexpr std::size_t kFewLeft = 64;            // one of so many tasks is not worth a stop

}  // namespace

void AsyncioReader::forget_now_and_then() {
    if (++looks_ % kForgetClassesAfter != 0) return;
    for (const auto& interpreter : interpreters_) {
        interpreter->kinds.forget_python_classes();
        interpreter->awaiters.forget_functions();
    }
}

void AsyncioReader::watch(const std::vector<RunningLoop>& loops) {
    watched_ = loops;
    std::vector<Address> counters;
    if (has(asyncio_.thread.context_version)) {
        for (const RunningLoop& loop : loops) counters.push_back(loop.thread + at(asyncio_.thread.context_version));
    }
    whole_.watch(counters);
    part_.watch(counters);
}

bool AsyncioReader::is_watched(const std::vector<RunningLoop>& loops) const {
    return std::equal(loops.begin(), loops.end(), watched_.begin(), watched_.end(),
                      [](const RunningLoop& a, const RunningLoop& b) { return a.thread == b.thread && a.loop == b.loop; });
}

void AsyncioReader::take_counters(std::vector<RunningLoop>& loops) const {
    for (std::size_t i = 0; i < loops.size(); ++i) {
        loops[i].is_still = has(asyncio_.thread.context_version) && pages_->stood_still(i);
        loops[i].context_version = loops[i].is_still ? pages_->counted(i) : 0;
    }
}

const std::vector<RunningLoop>& AsyncioReader::find_loops(const ThreadList& threads) {
    pages_ = &part_;
    part_.begin_part({});
    find_runs_by_frames(threads);
    std::vector<RunningLoop> loops;
    read_loops(threads, loops);
    if (!is_watched(loops)) watch(loops);
    return watched_;
}

Address AsyncioReader::current_task(const RunningLoop& loop, Address interpreter) {
    Memory& memory = target_->memory();
    if (has(asyncio_.thread.running_task)) {
        return read_pointer(memory, loop.thread + at(asyncio_.thread.running_task)).value_or(kNullAddress);
    }
    for (const auto& known : interpreters_) {
        if (known->address != interpreter || known->modules.current_tasks == kNullAddress) continue;
        constexpr std::size_t kMostLoops = 256;
        const auto entries = read_dict(memory, *layout_, known->modules.current_tasks, kMostLoops);
        if (!entries) return kNullAddress;
        for (const DictEntry& entry : *entries) {
            if (entry.key == loop.loop) return entry.value;
        }
    }
    return kNullAddress;
}

void AsyncioReader::begin_moment() {
    node_count_ = 0;
    group_ = {};
    // To clear a map takes as long as it once was large, and parts are many.
    if (pages_ == &part_ && index_.bucket_count() > 4 * kMostOfPart) index_ = {};
    index_.clear();
    edges_.clear();
}

void AsyncioReader::judge(Node& node, ObjectKind kind, bool makes_sense) const {
    using Verdict = Node::Verdict;
    node.is_missing = !pages_->is_log_of_look();
    node.verdict = Verdict::kMoved;
    if (node.is_missing) return;
    if (!is_task(kind)) {
        node.verdict = Verdict::kGone;  // its memory may hold anything by now
        return;
    }
    if (!makes_sense) return;
    AsyncTask& task = node.found.task;
    bool is_still = true;
    for (const RunningLoop& loop : watched_) {
        if (loop.loop != task.loop) continue;
        is_still = loop.is_still;
        task.thread = loop.thread;
    }
    if (!node.found.is_pending) {
        node.verdict = Verdict::kGone;  // for good
    } else if (is_still) {
        node.verdict = Verdict::kWhole;
    }
}

// The node of a task in this moment; read if it was not yet.
std::uint32_t AsyncioReader::node_of(Interpreter& interpreter, Address address) {
    const auto known = index_.find(raw(address));
    if (known != index_.end()) return known->second;
    const std::size_t most = pages_ == &whole_ ? kMostAsyncTasks : kMostOfPart;
    if (!can_be_object(address) || node_count_ >= most) return kNoNode;
    const auto index = static_cast<std::uint32_t>(node_count_++);
    index_[raw(address)] = index;
    if (nodes_.size() < node_count_) nodes_.emplace_back();
    Node& node = nodes_[index];
    node.is_start = node.is_in_doubt = false;
    node.edge_count = 0;
    node.found.task.address = address;
    node.pages.clear();
    interpreter.awaiters.begin_look();  // so that all that is read for a node stands in its log
    pages_->start_log();
    const ObjectKind kind = interpreter.kinds.kind_of(*pages_, address);
    const bool makes_sense = is_task(kind) && read_task(interpreter, address, kind, node.found);
    pages_->stop_log();
    if (wants_pages_) pages_->add_log_pages(node.pages);
    judge(node, kind, makes_sense);
    if (node.verdict == Node::Verdict::kWhole) note_main_greenlet(interpreter, node.found.task, node.found.main_greenlet);
    node.frames.clear();
    if (makes_sense && node.found.is_pending) node.frames.assign(chain_.frames.rbegin(), chain_.frames.rend());
    if (!makes_sense) node.found.awaiters.clear();
    return index;
}

// How many coroutines of `above` lead to the one that has opened the group; it stands there as long as a task of the group
// lives. 1 where that was not read with all else.
std::uint32_t AsyncioReader::depth_of_group(Interpreter& interpreter, std::uint32_t node, std::uint32_t above, Address group) {
    if (group == kNullAddress) return 1;
    if (group_.node == above && group_.group == group) return group_.depth;
    pages_->start_log();
    const std::uint32_t depth = interpreter.holders.depth_of(*pages_, nodes_[above].frames, group);
    pages_->stop_log();
    if (wants_pages_) pages_->add_log_pages(nodes_[node].pages);
    group_ = {above, group, pages_->is_log_of_look() ? depth : 1};
    return group_.depth;
}

// Edges of all nodes; what awaits them and is no node yet becomes one.
void AsyncioReader::connect_nodes(Interpreter& interpreter) {
    using Verdict = Node::Verdict;
    for (std::uint32_t i = 0; i < node_count_; ++i) {
        nodes_[i].first_edge = edges_.size();
        const bool is_whole = nodes_[i].verdict == Verdict::kWhole;
        // Of one that moved the pages above it are still worth knowing.
        if (nodes_[i].verdict == Verdict::kGone || (!is_whole && !wants_pages_)) continue;
        for (std::size_t k = 0; k < nodes_[i].found.awaiters.size(); ++k) {
            const FoundAwaiter awaiter = nodes_[i].found.awaiters[k];
            const std::uint32_t above = node_of(interpreter, awaiter.task);
            if (above == kNoNode) {
                nodes_[i].is_in_doubt |= can_be_object(awaiter.task);
                continue;
            }
            const Node& node = nodes_[above];
            if (node.verdict == Verdict::kGone) continue;
            const Address waits_for = node.found.task.waits_for;
            const bool is_wait = waits_for != kNullAddress && waits_for == awaiter.through;
            if (node.verdict == Verdict::kWhole && !is_wait && is_claim_alone(awaiter)) continue;
            edges_.push_back({i, above, awaiter.source, is_wait, is_wait ? 1 : depth_of_group(interpreter, i, above, awaiter.group)});
        }
        nodes_[i].edge_count = edges_.size() - nodes_[i].first_edge;
    }
}

// Below what is not of the moment nothing is sure.
void AsyncioReader::spread_doubt() {
    bool has_doubt = false;
    for (std::size_t i = 0; i < node_count_; ++i) {
        nodes_[i].is_in_doubt |= nodes_[i].verdict == Node::Verdict::kMoved;
        has_doubt |= nodes_[i].is_in_doubt;
    }
    while (has_doubt) {
        has_doubt = false;
        for (const TaskEdge& edge : edges_) {
            if (nodes_[edge.task].is_in_doubt || !nodes_[edge.awaiter].is_in_doubt) continue;
            nodes_[edge.task].is_in_doubt = has_doubt = true;
        }
    }
}

// Moves what is sure into the sweep, as a moment of its own.
void AsyncioReader::keep_nodes(TaskSweep& sweep) {
    const std::uint32_t moment = sweep.moments++;
    const auto is_kept = [&](const Node& node) { return node.verdict == Node::Verdict::kWhole && !node.is_in_doubt; };
    for (std::size_t i = 0; i < node_count_; ++i) {
        Node& node = nodes_[i];
        if (!is_kept(node)) continue;
        AsyncTask& task = node.found.task;
        task.first_frame = static_cast<std::uint32_t>(sweep.frames.size());
        task.frame_count = static_cast<std::uint32_t>(node.frames.size());
        task.moment = moment;
        task.is_listed = node.is_start;
        sweep.frames.insert(sweep.frames.end(), node.frames.begin(), node.frames.end());
        node.kept_as = static_cast<TaskIndex>(sweep.tasks.size());
        sweep.order.push_back(raw(task.address));
        sweep.tasks.push_back(task);
    }
    for (const TaskEdge& edge : edges_) {
        if (!is_kept(nodes_[edge.task]) || !is_kept(nodes_[edge.awaiter])) continue;
        sweep.edges.push_back({nodes_[edge.task].kept_as, nodes_[edge.awaiter].kept_as, edge.source, edge.is_wait, edge.depth});
    }
}

// The pages of a task and of all above it: what a moment must copy that is to show it.
void AsyncioReader::learn_pages(std::uint32_t start) {
    std::vector<std::uint32_t>& open = open_nodes_;
    open.assign(1, start);
    numbers_.clear();
    for (std::size_t next = 0; next < open.size(); ++next) {
        const Node& node = nodes_[open[next]];
        numbers_.insert(numbers_.end(), node.pages.begin(), node.pages.end());
        for (std::size_t k = node.first_edge; k < node.first_edge + node.edge_count; ++k) {
            const std::uint32_t above = edges_[k].awaiter;
            if (std::find(open.begin(), open.end(), above) == open.end()) open.push_back(above);
        }
    }
    sort_once(numbers_);
    if (paths_pages_.size() >= kMostPaths) paths_pages_.clear();
    paths_pages_[raw(nodes_[start].found.task.address)] = numbers_;
}

void AsyncioReader::read_part(Interpreter& interpreter, std::span<const Address> starts, TaskSweep& sweep,
                              std::vector<Address>& left) {
    numbers_.clear();
    for (const Address start : starts) {
        const auto known = paths_pages_.find(raw(start));
        if (known == paths_pages_.end()) continue;
        numbers_.insert(numbers_.end(), known->second.begin(), known->second.end());
    }
    sort_once(numbers_);
    pages_ = &part_;
    part_.begin_part(numbers_);
    take_counters(watched_);
    begin_moment();
    wants_pages_ = true;
    for (const Address start : starts) {
        const std::uint32_t node = node_of(interpreter, start);
        if (node != kNoNode) nodes_[node].is_start = true;
    }
    connect_nodes(interpreter);
    spread_doubt();
    for (const Address start : starts) {
        const auto known = index_.find(raw(start));
        if (known == index_.end() || nodes_[known->second].verdict == Node::Verdict::kGone) continue;
        learn_pages(known->second);
        if (nodes_[known->second].is_in_doubt) left.push_back(start);
    }
    wants_pages_ = false;
    keep_nodes(sweep);
}

// Where the tasks stand that no part has read yet: in the whole there are their pages, though of mixed moments.
void AsyncioReader::learn_from_whole(Interpreter& interpreter) {
    pages_ = &whole_;
    wants_pages_ = true;
    begin_moment();
    for (const Address start : left_) {
        if (paths_pages_.find(raw(start)) == paths_pages_.end()) (void)node_of(interpreter, start);
    }
    const std::size_t starts = node_count_;
    connect_nodes(interpreter);
    for (std::uint32_t i = 0; i < starts; ++i) learn_pages(i);
    wants_pages_ = false;
}

void AsyncioReader::read_parts(Interpreter& interpreter, TaskSweep& sweep, bool can_hold) {
    if (left_.empty()) return;
    learn_from_whole(interpreter);
    if (can_hold && is_too_fast_) return;
    const std::size_t most_in_vain = can_hold ? kMostInVain : kMostInVainUnheld;
    std::size_t in_vain = 0;
    if (left_.size() >= kManyTasks) {
        std::sort(left_.begin(), left_.end(), [](Address a, Address b) { return raw(a) < raw(b); });
        read_parts_of(kTasksOfLargePart, most_in_vain, in_vain, interpreter, sweep);
        in_vain = 0;
    }
    for (const std::size_t size : {kTasksOfPart, std::size_t{1}}) read_parts_of(size, most_in_vain, in_vain, interpreter, sweep);
}

// `in_vain`: parts in a row of which nothing was had; after so many the others are left over untried.
void AsyncioReader::read_parts_of(std::size_t size, std::size_t most_in_vain, std::size_t& in_vain, Interpreter& interpreter,
                                  TaskSweep& sweep) {
    const std::vector<Address> starts = std::move(left_);
    left_.clear();
    for (std::size_t i = 0; i < starts.size(); i += size) {
        const auto part = std::span(starts).subspan(i, std::min(size, starts.size() - i));
        if (in_vain >= most_in_vain) {
            left_.insert(left_.end(), part.begin(), part.end());
            continue;
        }
        const std::size_t before = left_.size();
        read_until_still(interpreter, part, sweep);
        in_vain = left_.size() == before + part.size() ? in_vain + 1 : 0;
    }
}

// All pages once more, while the thread of a loop that moved is held: its tasks, but those that were read before.
void AsyncioReader::read_held(Interpreter& interpreter, const ThreadList& threads, TaskSweep& sweep, const Hold& hold) {
    if (left_.size() * kFewLeft < interpreter.listed.size() || whole_.page_count() > kMostHeldPages) return;
    const std::vector<RunningLoop> loops = watched_;
    for (const RunningLoop& loop : loops) {
        const bool is_of_ours = std::any_of(threads.threads.begin(), threads.threads.end(), [&](const ThreadState& thread) {
            return thread.address == loop.thread && thread.interpreter == interpreter.address;
        });
        if (loop.is_still || !is_of_ours || left_.empty()) continue;
        pages_ = &whole_;
        whole_.arrange_look();
        if (!hold(loop.thread, [&] { whole_.copy_look(false); })) return;
        sweep.was_held = true;
        take_counters(watched_);
        list_tasks(interpreter, threads, sweep);
        const tsl::robin_set<std::uint64_t> known(sweep.order.begin(), sweep.order.end());
        begin_moment();
        for (const Address task : interpreter.listed) {
            const std::uint32_t node = known.contains(raw(task)) ? kNoNode : node_of(interpreter, task);
            if (node != kNoNode) nodes_[node].is_start = true;
        }
        connect_nodes(interpreter);
        spread_doubt();
        left_.clear();
        for (std::uint32_t i = 0; i < node_count_; ++i) {
            const Node& node = nodes_[i];
            if (node.is_start && node.is_in_doubt && node.verdict != Node::Verdict::kGone) left_.push_back(node.found.task.address);
        }
        keep_nodes(sweep);
    }
}

// At once again with what was left over, as long as its pages are those that were just learnt.
void AsyncioReader::read_until_still(Interpreter& interpreter, std::span<const Address> starts, TaskSweep& sweep) {
    open_.assign(starts.begin(), starts.end());
    for (int i = 0; i < kMostTries && !open_.empty(); ++i) {
        again_.clear();
        read_part(interpreter, open_, sweep, again_);
        std::swap(open_, again_);
    }
    left_.insert(left_.end(), open_.begin(), open_.end());
}

std::optional<TaskIndex> AsyncioReader::read_path(Address task, Address interpreter, TaskSweep& sweep) {
    sweep.clear();
    is_stopped_ = false;
    Interpreter* known = interpreter_at(interpreter);
    if (known == nullptr) return std::nullopt;
    forget_now_and_then();
    left_.clear();
    read_until_still(*known, std::span(&task, 1), sweep);
    sweep.loops = watched_;
    if (!left_.empty()) return std::nullopt;
    for (TaskIndex i = 0; i < sweep.tasks.size(); ++i) {
        if (sweep.tasks[i].address == task && sweep.tasks[i].is_listed) return i;
    }
    return std::nullopt;
}

std::optional<TaskWork> AsyncioReader::find_work(const WorkerFrame& worker, Address interpreter, std::vector<RunningLoop>& loops) {
    Interpreter* known = interpreter_at(interpreter);
    if (known == nullptr) return std::nullopt;
    read_known_pages(worker.thread, [&] {
        take_counters(watched_);
        known->work.find(part_, worker, work_);
    });
    // Else not all of it was copied between the counters.
    loops = part_.is_log_of_look() ? watched_ : std::vector<RunningLoop>();
    for (const FoundAwaiter& awaiter : work_.awaiters) {
        if (awaiter.must_wait) return TaskWork{worker.thread, work_.item, work_.future, awaiter.task, awaiter.through};
    }
    return std::nullopt;
}

// What can be had of the whole at once; what is left over stays in left_.
void AsyncioReader::look_at(Interpreter& interpreter, const ThreadList& threads, TaskSweep& sweep) {
    std::vector<RunningLoop> loops;
    bool has_nodes = false;
    for (int copy = 0; copy < kMostCopies; ++copy) {
        pages_ = &whole_;
        whole_.begin_look(false);
        loops.clear();
        read_loops(threads, loops);
        const bool was_watched = is_watched(loops);
        if (!was_watched) watch(loops);
        if (was_watched) take_counters(watched_);
        list_tasks(interpreter, threads, sweep);
        begin_moment();
        has_nodes = was_watched && (watched_.empty() || std::any_of(watched_.begin(), watched_.end(),
                                                                    [](const RunningLoop& loop) { return loop.is_still; }));
        if (!was_watched) continue;
        if (!has_nodes) break;
        for (const Address task : interpreter.listed) {
            const std::uint32_t node = node_of(interpreter, task);
            if (node != kNoNode) nodes_[node].is_start = true;
        }
        connect_nodes(interpreter);
        spread_doubt();
        const auto missing = static_cast<std::size_t>(
            std::count_if(nodes_.begin(), nodes_.begin() + static_cast<std::ptrdiff_t>(node_count_),
                          [](const Node& node) { return node.is_missing; }));
        constexpr std::size_t kFewMissing = 16;
        if (missing < kFewMissing) break;
    }
    left_.clear();
    for (const Address task : interpreter.listed) {
        const auto known = has_nodes ? index_.find(raw(task)) : index_.end();
        const bool is_read = known != index_.end() && (nodes_[known->second].verdict == Node::Verdict::kGone ||
                                                       !nodes_[known->second].is_in_doubt);
        if (!is_read) left_.push_back(task);
    }
    // Greenlets that were found, but have ended: one that comes to their place is found anew.
    std::erase_if(interpreter.greenlets_found, [&](Address greenlet) {
        const auto known = has_nodes ? index_.find(raw(greenlet)) : index_.end();
        return known != index_.end() && nodes_[known->second].verdict == Node::Verdict::kGone;
    });
    if (!has_nodes) return;
    const auto first = static_cast<TaskIndex>(sweep.tasks.size());
    keep_nodes(sweep);
    if (wants_holders_ && left_.empty()) add_holders(interpreter, sweep, first);
}

void AsyncioReader::look(const ThreadList& threads, TaskSweep& sweep, const Hold& hold) {
    sweep.clear();
    is_stopped_ = false;
    is_single_ = true;
    forget_now_and_then();
    for (const auto& interpreter : interpreters_) {
        find_new_greenlets(*interpreter, threads);
        look_at(*interpreter, threads, sweep);
        if (left_.empty()) is_too_fast_ = false;
        read_parts(*interpreter, sweep, static_cast<bool>(hold));
        if (hold && !left_.empty()) read_held(*interpreter, threads, sweep, hold);
        is_too_fast_ |= sweep.was_held;
        sweep.torn += static_cast<std::uint32_t>(left_.size());
        sweep.torn_tasks.insert(sweep.torn_tasks.end(), left_.begin(), left_.end());
        interpreter->callbacks.clear();
    }
    is_single_ = false;
    sweep.loops = watched_;
}

}  // namespace pyprof
