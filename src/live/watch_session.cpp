// SPDX-License-Identifier: Apache-2.0
#include "live/watch_session.h"

#include "profile/merge.h"
#include "profile/source_path.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

constexpr std::uint32_t kNoFunction = 0xFFFFFFFF;

struct Sum {
    std::uint64_t samples = 0;
    nanoseconds time{0};
    double variance = 0;  // square nanoseconds
    double prior = 0;     // the same; once, however many recordings there were
};

struct Row {
    Sum own;
    Sum total;
    nanoseconds first = nanoseconds::max();
    nanoseconds last{0};
};

void count(Sum& sum, const Profile::Weight& weight) {
    sum.samples += weight.samples;
    sum.time += weight.time;
}

WatchTime as_time(const Sum& sum) { return {sum.samples, sum.time, std::sqrt(sum.variance + sum.prior) / 1e9}; }

WatchRow as_row(std::string label, const Row& row) {
    return {std::move(label), as_time(row.own), as_time(row.total), row.first, row.last};
}

}  // namespace

struct WatchSession::Part {
    Part(std::shared_ptr<StackTable> table, ProfileFacts facts, nanoseconds when) : stacks(table), profile(std::move(table), true), began(when) {
        profile.facts = std::move(facts);
    }

    std::shared_ptr<StackTable> stacks;
    Profile profile;
    SampleSeries series;
    struct Seen {
        nanoseconds first{0};
        nanoseconds last{0};
    };
    tsl::robin_map<std::uint32_t, Seen> seen;  // by stack, since the part began
    std::vector<std::uint32_t> functions;      // by frame
    std::vector<bool> looked_at;               // stacks whose frames are in seen_
    nanoseconds began{0};
    nanoseconds cut{0};  // samples up to then are forgotten
    RunFigures before;   // figures at that time
    RunFigures latest;
};

// Rows of results while they are added up: first one for each name, then those of single functions.
struct WatchSession::Tally {
    std::vector<Row> names;
    std::map<std::uint32_t, Row> functions;                     // by index in seen_
    std::vector<std::vector<std::uint32_t>> names_of;           // of a function, by index in seen_
    std::uint64_t samples = 0;
    std::uint64_t unproved = 0;
    nanoseconds time{0};
};

Result<bool> WatchSession::add(std::string_view text) {
    auto name = WatchName::parse(text);
    if (!name) return tl::unexpected(name.error());
    for (const WatchName& known : names_) {
        if (known.text() == text) return false;
    }
    names_.push_back(std::move(*name));
    return true;
}

bool WatchSession::remove(std::string_view text) {
    const auto found = std::find_if(names_.begin(), names_.end(), [&](const WatchName& name) { return name.text() == text; });
    if (found == names_.end()) return false;
    names_.erase(found);
    return true;
}

void WatchSession::begin(std::shared_ptr<StackTable> stacks, ProfileFacts facts, nanoseconds when) {
    if (parts_.empty()) began_ = when;
    parts_.push_back(std::make_shared<Part>(std::move(stacks), std::move(facts), when));
}

void WatchSession::take(const SampleRecord& record, const std::vector<ProfiledThread>& threads) {
    check(!parts_.empty(), "a sample before its recording");
    Part& part = *parts_.back();
    if (record.when < part.cut) return;
    while (part.profile.threads().size() <= record.thread) part.profile.add_thread(threads.at(part.profile.threads().size()));
    part.profile.add(record.thread, record.stack, record.samples, record.weight, record.when);
    part.series.add(record, raw(record.stack));
    const nanoseconds first = std::max(record.when - record.weight, nanoseconds{0});
    const auto [entry, is_new] = part.seen.try_emplace(raw(record.stack), Part::Seen{first, record.when});
    if (is_new) return;
    entry.value().first = std::min(entry.value().first, first);
    entry.value().last = std::max(entry.value().last, record.when);
}

void WatchSession::update(const std::vector<ProfiledThread>& threads, const RunFigures& figures) {
    if (parts_.empty()) return;
    Part& part = *parts_.back();
    for (std::size_t i = 0; i < threads.size(); ++i) {
        if (i == part.profile.threads().size()) part.profile.add_thread(threads[i]);
        if (part.profile.threads()[i].name != threads[i].name) part.profile.name_thread(static_cast<ThreadIndex>(i), threads[i].name);
    }
    part.latest = figures;
    part.profile.figures = difference(figures, part.before);
}

void WatchSession::reset(nanoseconds when) {
    seen_.clear();
    index_of_.clear();
    began_ = when;
    if (parts_.empty()) return;
    const std::shared_ptr<Part> old = parts_.back();
    parts_.clear();
    auto fresh = std::make_shared<Part>(old->stacks, old->profile.facts, old->began);
    fresh->cut = when - old->began;
    fresh->before = fresh->latest = old->latest;
    for (const ProfiledThread& thread : old->profile.threads()) fresh->profile.add_thread(thread);
    parts_.push_back(std::move(fresh));
}

std::uint64_t WatchSession::samples() const {
    std::uint64_t samples = 0;
    for (const auto& part : parts_) samples += part->profile.total_samples();
    return samples;
}

// The index in seen_ of a Python frame.
std::uint32_t WatchSession::index_of(Part& part, FrameId id) {
    if (raw(id) >= part.functions.size()) part.functions.resize(raw(id) + 1, kNoFunction);
    if (part.functions[raw(id)] != kNoFunction) return part.functions[raw(id)];
    const Frame& frame = part.stacks->frame(id);
    const std::string_view name = part.stacks->string(frame.name);
    const std::string_view file = part.stacks->string(frame.file);
    std::string key(file);
    key.push_back('\0');
    key += name;
    const auto [entry, is_new] = index_of_.try_emplace(std::move(key), static_cast<std::uint32_t>(seen_.size()));
    if (is_new) {
        const std::string_view brief = shorten(file, part.profile.facts.working_directory).short_path;
        seen_.push_back({std::string(name), std::string(file), std::string(brief)});
    }
    return part.functions[raw(id)] = entry->second;
}

// Of a stack that was never proved its leaf is known, and the callers that are sure, as in every output
// (src/profile/resolve.cpp).
void WatchSession::see_functions(Part& part) {
    const StackTable& stacks = *part.stacks;
    const auto see = [&](StackId stack, bool leaf_alone) {
        for (; stack != kRootStack; stack = stacks.node(stack).parent) {
            if (raw(stack) >= part.looked_at.size()) part.looked_at.resize(raw(stack) + 1, false);
            if (part.looked_at[raw(stack)]) break;
            const FrameId frame = stacks.node(stack).frame;
            const bool is_python = stacks.frame(frame).kind == FrameKind::kPython;
            if (!leaf_alone) part.looked_at[raw(stack)] = true;
            if (is_python) index_of(part, frame);
            if (is_python && leaf_alone) break;
        }
    };
    for (const Profile::Weight& weight : part.profile.weights()) {
        const StackTable::Shown shown = stacks.shown(weight.stack);
        see(shown.stack, !shown.is_proved);
        see(shown.sure_callers(), false);
    }
}

WatchSession::Walked WatchSession::walk(Part& part, StackId recorded, std::vector<std::uint32_t>& functions) {
    const StackTable& stacks = *part.stacks;
    const StackTable::Shown shown = stacks.shown(recorded);
    Walked walked;
    functions.clear();
    walked.proved = shown.is_proved;
    const auto take = [&](StackId stack, bool leaf_alone) {
        for (; stack != kRootStack; stack = stacks.node(stack).parent) {
            const FrameId id = stacks.node(stack).frame;
            const Frame& frame = stacks.frame(id);
            if (frame.kind != FrameKind::kPython) {
                if (stacks.string(frame.name) == "[unproved]") walked.proved = false;
                continue;
            }
            const std::uint32_t function = index_of(part, id);
            if (walked.own == kNoFunction) walked.own = function;
            functions.push_back(function);
            if (leaf_alone) break;
        }
    };
    take(shown.stack, !shown.is_proved);
    take(shown.sure_callers(), false);
    std::sort(functions.begin(), functions.end());
    functions.erase(std::unique(functions.begin(), functions.end()), functions.end());
    return walked;
}

void WatchSession::tally(Part& part, Tally& tally) {
    std::vector<std::uint32_t> functions;
    std::vector<std::uint32_t> names;
    for (const Profile::Weight& weight : part.profile.weights()) {
        const Walked walked = walk(part, weight.stack, functions);
        tally.samples += weight.samples;
        tally.time += weight.time;
        if (!walked.proved) tally.unproved += weight.samples;
        const Part::Seen seen = part.seen.at(raw(weight.stack));
        const auto add_total = [&](Row& row) {
            count(row.total, weight);
            row.first = std::min(row.first, seen.first + part.began - began_);
            row.last = std::max(row.last, seen.last + part.began - began_);
        };
        names.clear();
        for (const std::uint32_t function : functions) {
            const std::vector<std::uint32_t>& of = tally.names_of[function];
            if (of.empty()) continue;
            Row& row = tally.functions[function];
            add_total(row);
            if (function == walked.own) count(row.own, weight);
            names.insert(names.end(), of.begin(), of.end());
        }
        std::sort(names.begin(), names.end());
        names.erase(std::unique(names.begin(), names.end()), names.end());
        for (const std::uint32_t name : names) add_total(tally.names[name]);
        if (walked.own == kNoFunction) continue;
        for (const std::uint32_t name : tally.names_of[walked.own]) count(tally.names[name].own, weight);
    }
}

// Row 2 n is the own time of the nth of `rows`, row 2 n + 1 its total; names come first, as in the tally.
void WatchSession::add_errors(Part& part, Tally& tally) {
    std::vector<Row*> rows;
    for (Row& row : tally.names) rows.push_back(&row);
    std::map<std::uint32_t, std::uint32_t> row_of;  // of a function
    for (auto& [function, row] : tally.functions) {
        row_of[function] = static_cast<std::uint32_t>(rows.size());
        rows.push_back(&row);
    }
    tsl::robin_map<std::uint32_t, std::vector<std::uint32_t>> rows_of;
    std::vector<std::uint32_t> functions;
    for (const auto& [stack, seen] : part.seen) {
        const Walked walked = walk(part, StackId{stack}, functions);
        std::vector<std::uint32_t>& of = rows_of[stack];
        for (const std::uint32_t function : functions) {
            const bool is_own = function == walked.own;
            const auto note = [&](std::uint32_t row) {
                of.push_back(2 * row + 1);
                if (is_own) of.push_back(2 * row);
            };
            for (const std::uint32_t name : tally.names_of[function]) note(name);
            if (const auto row = row_of.find(function); row != row_of.end()) note(row->second);
        }
        std::sort(of.begin(), of.end());
        of.erase(std::unique(of.begin(), of.end()), of.end());
    }
    const auto found = part.series.spreads(
        [&](std::uint32_t stack) -> std::span<const std::uint32_t> { return rows_of.at(stack); }, 2 * rows.size());
    const double square = part.series.square_weight();
    for (std::size_t i = 0; i < rows.size(); ++i) {
        for (Sum* sum : {&rows[i]->own, &rows[i]->total}) {
            const double variance = found[2 * i + (sum == &rows[i]->own ? 0 : 1)].variance;
            // A function that ran only in blocks that were left out: as if its samples were independent.
            sum->variance += variance == 0 && part.series.is_thinned() ? static_cast<double>(sum->samples) * square : variance;
            sum->prior = std::max(sum->prior, SampleSeries::kPrior * square);
        }
    }
}

WatchResults WatchSession::results() {
    WatchResults results;
    Tally tally;
    tally.names.resize(names_.size());
    for (const auto& part : parts_) see_functions(*part);
    for (const SeenFunction& function : seen_) {
        std::vector<std::uint32_t>& of = tally.names_of.emplace_back();
        for (std::uint32_t i = 0; i < names_.size(); ++i) {
            if (names_[i].matches(function)) of.push_back(i);
        }
    }
    for (const auto& part : parts_) {
        this->tally(*part, tally);
        results.processes.push_back(part->profile.facts);
        add_figures(results.figures, part->profile.figures);
    }
    results.sampled = results.figures.elapsed;
    results.samples = tally.samples;
    results.thread_time = tally.time;
    results.unproved = tally.unproved;
    for (const auto& part : parts_) add_errors(*part, tally);

    for (std::uint32_t i = 0; i < names_.size(); ++i) {
        WatchEntry entry;
        entry.name = names_[i].text();
        std::vector<std::uint32_t> meant;
        for (const auto& [function, row] : tally.functions) {
            const std::vector<std::uint32_t>& of = tally.names_of[function];
            if (std::find(of.begin(), of.end(), i) != of.end()) meant.push_back(function);
        }
        entry.matches = meant.size();
        if (meant.empty()) {
            for (const SeenFunction* near : near_misses(names_[i], seen_)) entry.near_misses.push_back(label_of(*near));
        } else {
            entry.sum = as_row(meant.size() == 1 ? label_of(seen_[meant.front()]) : entry.name, tally.names[i]);
        }
        std::stable_sort(meant.begin(), meant.end(), [&](std::uint32_t a, std::uint32_t b) {
            return tally.functions[a].total.time > tally.functions[b].total.time;
        });
        if (meant.size() > WatchResults::kMostFunctions) meant.resize(WatchResults::kMostFunctions);
        if (meant.size() > 1) {
            for (const std::uint32_t function : meant) {
                entry.functions.push_back(as_row(label_of(seen_[function]), tally.functions[function]));
            }
        }
        results.entries.push_back(std::move(entry));
    }
    return results;
}

std::optional<ResolvedProfile> WatchSession::resolved() const {
    std::optional<ResolvedProfile> whole;
    for (const auto& part : parts_) {
        ResolvedProfile one = resolve(part->profile, {});
        if (whole) {
            merge(*whole, one, part->began - parts_.front()->began);
        } else {
            whole = std::move(one);
        }
    }
    return whole;
}

const std::vector<SeenFunction>& WatchSession::functions() {
    for (const auto& part : parts_) see_functions(*part);
    return seen_;
}

}  // namespace pyprof
