// SPDX-License-Identifier: Apache-2.0
//
// What `pyprof top` shows and how: the data of one moment, the choices of the person, the lines that follow from
// both, and what each key changes. Pure: the command acts on what a key asks for.
#pragma once

#include "live/key.h"
#include "live/top_tree.h"
#include "sample/sampler.h"

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pyprof {

// The head of the screen. Counts and shares are of the last interval but for `refused`, `late`, `lost`, which are since the start.
struct TopFacts {
    pid_t pid = 0;
    std::string command;
    std::string python;
    std::chrono::nanoseconds elapsed{0};
    std::chrono::nanoseconds interval{0};
    double asked_hz = 0;
    double reached_hz = 0;  // looks at the process a second
    std::uint64_t ticks = 0;  // since the start
    std::uint64_t refused = 0;
    std::uint64_t late = 0;
    std::uint64_t lost = 0;
    std::optional<double> gil_share;  // percent of the looks; empty without a GIL
    double running = 0;               // threads, mean
    double threads = 0;
    std::optional<double> processors_used;
    unsigned processors = 1;
    std::optional<std::uint64_t> resident_bytes;
    std::vector<double> cpu_history;  // of all processors, 0 to 1, the newest last
    std::vector<double> gil_history;
    bool has_waiting_tasks = false;  // among the samples of all threads
    bool has_ended = false;
    bool is_stopped = false;  // by a signal
};

// One function as its source shows it.
struct TopDetails {
    struct Line {
        std::int32_t number = 0;
        TopCount count;
        std::string text;
    };
    struct Other {  // a caller or a callee
        std::string name;
        std::string where;
        std::uint64_t samples = 0;
    };
    std::string name;
    std::string where;
    TopCount count;              // since the start
    std::uint64_t samples = 0;   // the base
    std::vector<Line> lines;
    std::string note;            // why there is no source, or why not to trust it
    std::vector<Other> callers;
    std::vector<Other> callees;
};

struct TopData {
    TopFacts facts;
    WhichThreads which = WhichThreads::kRunning;
    TopTree tree;
};

enum class TopSort : std::uint8_t { kOwnShare, kTotalShare, kOwnTime, kTotalTime, kName };
constexpr int kTopSorts = 5;

struct TopView {
    TopSort sort = TopSort::kOwnShare;
    bool ascending = false;
    bool with_lines = false;
    bool per_thread = false;
    bool as_tree = false;
    bool with_errors = false;
    bool with_native = false;
    AsyncMode async = AsyncMode::kOff;
    bool is_paused = false;
    bool shows_help = false;
    WhichThreads which = WhichThreads::kRunning;
    std::chrono::milliseconds refresh{1000};
    std::string search;
    std::string filter;
    std::optional<TopDetails> details;
    int details_scroll = 0;
    std::string message;  // one line, until the next key

    std::uint64_t selected = 0;  // TopLine::id; 0: the first
    int first_shown = 0;         // line
    std::set<std::uint64_t> flipped;  // nodes of the tree that are not as they are by default

    enum class Prompt : std::uint8_t { kNone, kSearch, kFilter, kSave };
    Prompt prompt = Prompt::kNone;
    std::string typed;
};

struct TopLine {
    std::uint64_t id = 0;  // the same at every refresh
    int depth = 0;
    bool has_children = false;
    bool is_open = false;
    bool is_thread = false;
    std::string name;
    std::string where;  // file:line
    std::uint32_t function = 0;
    TopCount now;
    TopCount all;
    TopErrors errors;  // where the view has them
};
// Sorted, filtered, open as far as the person opened them.
std::vector<TopLine> make_top_lines(const TopData& data, const TopView& view);
int selected_line(const std::vector<TopLine>& lines, const TopView& view);  // -1: there are none

// Whether a name fits an extended regular expression; case counts when `pattern` has capitals. An expression that
// is none fits nothing.
class TopPattern {
public:
    explicit TopPattern(const std::string& pattern);
    ~TopPattern();
    TopPattern(const TopPattern&) = delete;
    TopPattern& operator=(const TopPattern&) = delete;
    [[nodiscard]] bool is_valid() const { return is_valid_; }
    [[nodiscard]] bool fits(const TopLine& line) const;

private:
    struct Compiled;
    std::unique_ptr<Compiled> compiled_;
    bool is_valid_ = false;
};

enum class TopAction : std::uint8_t {
    kNone,
    kRedraw,
    kQuit,
    kSuspend,
    kRecord,   // what is recorded has changed: native frames, tasks
    kRecount,  // which samples, or how they are put together, has changed
    kReset,
    kDetails,  // of the selected function
    kSave,     // to the file that was typed
};
// `first_row`, `page`: where the lines stand on the screen.
TopAction press(TopView& view, const Key& key, const std::vector<TopLine>& lines, int first_row, int page);

}  // namespace pyprof
