// SPDX-License-Identifier: Apache-2.0
//
// From a tree and the choices of a person to the lines of the screen.
#include "live/top_view.h"

#include "profile/hash.h"

#include <fmt/format.h>

#include <regex.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

namespace pyprof {

namespace {

constexpr std::size_t kLongestName = 1000;  // a regular expression sees no more of a name
constexpr int kDeepest = 500;               // of the tree as shown

std::string where_of(const TopFunction& function) {
    if (function.file.empty()) return function.module;
    return function.line > 0 ? fmt::format("{}:{}", function.file, function.line) : function.file;
}

// The same function has the same id at every refresh, whatever its index is.
std::uint64_t id_of(std::uint64_t above, const TopFunction& function, bool with_lines) {
    std::uint64_t id = mix(above + 1);
    for (const char c : function.name + '\0' + function.full_file + '\0' + function.module) id = (id ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
    if (with_lines) id ^= static_cast<std::uint64_t>(function.line);
    return mix(id) | 1;
}

bool is_before(const TopLine& a, const TopLine& b, const TopView& view) {
    const auto by = [&](auto x, auto y) { return view.ascending ? x < y : y < x; };
    switch (view.sort) {
        case TopSort::kOwnShare:
            if (a.now.own != b.now.own) return by(a.now.own, b.now.own);
            break;
        case TopSort::kTotalShare:
            if (a.now.total != b.now.total) return by(a.now.total, b.now.total);
            break;
        case TopSort::kOwnTime:
            if (a.all.own_time != b.all.own_time) return by(a.all.own_time, b.all.own_time);
            break;
        case TopSort::kTotalTime:
            if (a.all.total_time != b.all.total_time) return by(a.all.total_time, b.all.total_time);
            break;
        case TopSort::kName:
            if (a.name != b.name) return view.ascending ? b.name < a.name : a.name < b.name;
            break;
    }
    // What happens not to be in the last interval keeps its place.
    if (a.all.own != b.all.own) return a.all.own > b.all.own;
    if (a.all.total != b.all.total) return a.all.total > b.all.total;
    return a.name != b.name ? a.name < b.name : a.where < b.where;
}

TopLine line_of(const TopData& data, const TopView& view, std::uint32_t function, std::uint64_t above, const TopCount& now,
                const TopCount& all, const TopErrors& errors) {
    const TopFunction& what = data.tree.functions[function];
    TopLine line;
    line.id = id_of(above, what, view.with_lines);
    line.name = what.name;
    line.where = where_of(what);
    line.function = function;
    line.now = now;
    line.all = all;
    line.errors = errors;
    return line;
}

class TreeLines {
public:
    TreeLines(const TopData& data, const TopView& view) : data_(data), view_(view), pattern_(view.filter), fits_(data.tree.nodes.size(), 1) {
        if (view.filter.empty()) return;
        std::fill(fits_.begin(), fits_.end(), std::uint8_t{0});
        for (std::uint32_t i = static_cast<std::uint32_t>(fits_.size()); i-- > 1;) {
            const TopTree::Node& node = data.tree.nodes[i];
            if (pattern_.fits(line_of(data, view, node.function, 0, node.now, node.all, node.errors))) fits_[i] = 1;
            if (fits_[i] != 0) fits_[node.parent] = 1;
        }
    }

    std::vector<TopLine> run() {
        add_children(0, 0, 0, true);
        return std::move(lines_);
    }

private:
    void add_children(std::uint32_t node, std::uint64_t above, int depth, bool opens) {
        std::vector<std::pair<TopLine, std::uint32_t>> children;
        for (const std::uint32_t child : data_.tree.nodes[node].children) {
            const TopTree::Node& each = data_.tree.nodes[child];
            if (fits_[child] == 0 || each.all.total + each.now.total == 0) continue;
            children.emplace_back(line_of(data_, view_, each.function, above, each.now, each.all, each.errors), child);
        }
        std::sort(children.begin(), children.end(), [&](const auto& a, const auto& b) { return is_before(a.first, b.first, view_); });
        for (auto& [line, child] : children) {
            line.depth = depth;
            line.is_thread = depth == 0 && data_.tree.per_thread;
            line.has_children = !data_.tree.nodes[child].children.empty();
            // A chain without branches is open, down to where it branches.
            const bool by_default = opens && children.size() == 1;
            line.is_open = line.has_children && (by_default || line.is_thread) != (view_.flipped.count(line.id) > 0);
            lines_.push_back(line);
            if (line.is_open && depth < kDeepest) add_children(child, line.id, depth + 1, by_default || line.is_thread);
        }
    }

    const TopData& data_;
    const TopView& view_;
    TopPattern pattern_;
    std::vector<std::uint8_t> fits_;
    std::vector<TopLine> lines_;
};

std::vector<TopLine> table_lines(const TopData& data, const TopView& view) {
    const TopPattern pattern(view.filter);
    std::map<std::uint32_t, std::vector<TopLine>> by_thread;
    std::vector<std::pair<TopLine, std::uint32_t>> threads;
    for (const TopRow& row : make_top_rows(data.tree)) {
        std::uint64_t above = 0;
        if (row.thread != 0) {
            const TopTree::Node& thread = data.tree.nodes[row.thread];
            TopLine head = line_of(data, view, thread.function, 0, thread.now, thread.all, thread.errors);
            above = head.id;
            head.is_thread = true;
            if (by_thread.count(row.thread) == 0) threads.emplace_back(std::move(head), row.thread);
        }
        TopLine line = line_of(data, view, row.function, above, row.now, row.all, row.errors);
        line.depth = row.thread != 0 ? 1 : 0;
        std::vector<TopLine>& group = by_thread[row.thread];
        if (view.filter.empty() || pattern.fits(line)) group.push_back(std::move(line));
    }
    const auto before = [&](const TopLine& a, const TopLine& b) { return is_before(a, b, view); };
    std::vector<TopLine> lines;
    if (!data.tree.per_thread) {
        lines = std::move(by_thread[0]);
        std::sort(lines.begin(), lines.end(), before);
        return lines;
    }
    std::sort(threads.begin(), threads.end(), [](const auto& a, const auto& b) {
        return a.first.all.total != b.first.all.total ? a.first.all.total > b.first.all.total : a.first.name < b.first.name;
    });
    for (const auto& [head, thread] : threads) {
        std::vector<TopLine>& group = by_thread[thread];
        std::sort(group.begin(), group.end(), before);
        if (group.empty()) continue;
        lines.push_back(head);
        lines.insert(lines.end(), group.begin(), group.end());
    }
    return lines;
}

}  // namespace

struct TopPattern::Compiled {
    regex_t expression;
};

TopPattern::TopPattern(const std::string& pattern) : compiled_(std::make_unique<Compiled>()) {
    const bool has_capitals = std::any_of(pattern.begin(), pattern.end(), [](unsigned char c) { return std::isupper(c) != 0; });
    is_valid_ = ::regcomp(&compiled_->expression, pattern.c_str(), REG_EXTENDED | REG_NOSUB | (has_capitals ? 0 : REG_ICASE)) == 0;
}

TopPattern::~TopPattern() {
    if (is_valid_) ::regfree(&compiled_->expression);
}

bool TopPattern::fits(const TopLine& line) const {
    if (!is_valid_) return false;
    const std::string text = line.name.substr(0, kLongestName) + " " + line.where.substr(0, kLongestName);
    return ::regexec(&compiled_->expression, text.c_str(), 0, nullptr, 0) == 0;
}

std::vector<TopLine> make_top_lines(const TopData& data, const TopView& view) {
    return view.as_tree ? TreeLines(data, view).run() : table_lines(data, view);
}

int selected_line(const std::vector<TopLine>& lines, const TopView& view) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (lines[i].id == view.selected) return static_cast<int>(i);
    }
    return lines.empty() ? -1 : 0;
}

}  // namespace pyprof
