// SPDX-License-Identifier: Apache-2.0
#include "live/top_screen.h"

#include "live/text_width.h"
#include "live/top_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace pyprof {

namespace {

constexpr Style kHead{Colour::kDefault, false, false, true};
constexpr Style kBold{Colour::kDefault, true, false, false};
constexpr Style kDim{Colour::kDefault, false, true, false};
constexpr Style kFound{Colour::kCyan, true, false, false};
constexpr int kLeastName = 20;
constexpr std::size_t kLongestSpark = 20;
constexpr int kIndent = 2;
constexpr int kDeepestIndent = 40;

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

std::string bytes_text(std::uint64_t bytes) {
    const double mebibytes = static_cast<double>(bytes) / (1U << 20U);
    return mebibytes < 10240 ? fmt::format("{:.1f} MiB", mebibytes) : fmt::format("{:.1f} GiB", mebibytes / 1024);
}

std::string spark(const std::vector<double>& history) {
    constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    std::string text;
    const std::size_t count = std::min(history.size(), kLongestSpark);
    for (std::size_t i = history.size() - count; i < history.size(); ++i) {
        const double share = std::clamp(history[i], 0.0, 1.0);
        text += kBars[std::min(static_cast<std::size_t>(share * 8), std::size_t{7})];
    }
    return text;
}

struct Item {
    std::string text;
    Style style;
};

// In the order of weight: what does not fit is left out from the end.
std::vector<Item> head_items(const TopData& data, const TopView& view) {
    const TopFacts& f = data.facts;
    std::vector<Item> items;
    items.push_back({fmt::format("pyprof top {}", f.pid), kBold});
    if (f.is_stopped && !f.has_ended) items.push_back({"[stopped]", {Colour::kRed, true, false, false}});
    if (f.has_ended) items.push_back({"[ended]", {Colour::kRed, true, false, false}});
    if (view.is_paused) items.push_back({"[paused]", {Colour::kYellow, true, false, false}});
    if (view.with_native) items.push_back({"[native]", {Colour::kCyan, true, false, false}});
    if (view.async != AsyncMode::kOff) items.push_back({view.async == AsyncMode::kAll ? "[all tasks]" : "[tasks]", {Colour::kCyan, true, false, false}});
    items.push_back({fmt::format("{:.1f} s", seconds(f.elapsed)), {}});
    if (f.gil_share) items.push_back({fmt::format("GIL {:.0f} % of looks {}", *f.gil_share, spark(f.gil_history)), {}});
    if (f.processors_used) {
        items.push_back({fmt::format("CPU {:.2f} of {} {}", *f.processors_used, f.processors, spark(f.cpu_history)), {}});
    }
    items.push_back({fmt::format("{:.1f} of {:.1f} threads run", f.running, f.threads), {}});
    items.push_back({f.asked_hz > 0 ? fmt::format("{:.1f}/s of {:g}", f.reached_hz, f.asked_hz) : fmt::format("{:.1f}/s", f.reached_hz), {}});
    const bool has_losses = f.refused + f.late + f.lost > 0;
    std::string losses = fmt::format("{} refused, {} late of {}", f.refused, f.late, f.ticks + f.late);
    if (f.lost > 0) losses += fmt::format(", {} lost", f.lost);
    items.push_back({losses, has_losses ? Style{Colour::kYellow} : Style{}});
    if (f.resident_bytes) items.push_back({"RSS " + bytes_text(*f.resident_bytes), {}});
    items.push_back({"Python " + f.python, {}});
    items.push_back({fmt::format("every {:g} s", seconds(view.refresh)), kDim});
    items.push_back({f.command, kDim});
    return items;
}

void draw_head(Grid& grid, const TopData& data, const TopView& view, int rows) {
    int row = 0;
    int column = 0;
    for (const Item& item : head_items(data, view)) {
        const int width = columns_of(item.text);
        if (column > 0 && column + 2 + width > grid.columns()) {
            ++row;
            column = 0;
        }
        if (row >= rows) return;
        if (column > 0) column += 2;
        column = grid.put(row, column, item.text, item.style);
    }
}

struct Columns {
    bool with_errors = false;
    bool own_time = false;
    bool total_time = false;
    int share_width = 7;
    int time_width = 9;
    int name = 0;       // where it begins
    int where = 0;      // where it begins
};

Columns columns_for(const TopView& view, int width) {
    Columns c;
    c.with_errors = view.with_errors;
    if (c.with_errors) {
        c.share_width = 12;
        c.time_width = 16;
    }
    const int shares = 2 * c.share_width;
    c.own_time = shares + c.time_width + kLeastName <= width;
    c.total_time = shares + 2 * c.time_width + kLeastName <= width;
    c.name = shares + (c.own_time ? c.time_width : 0) + (c.total_time ? c.time_width : 0) + 1;
    c.where = c.name + std::max((width - c.name) * 6 / 10, 1);
    return c;
}

std::string share_text(std::uint64_t n, std::uint64_t samples, double error, bool with_error) {
    if (samples == 0) return "-";  // nothing was sampled: that is no zero
    if (!with_error) return fmt::format("{:.1f}", share_of(n, samples));
    return fmt::format("{:.1f}±{:.1f}", share_of(n, samples), error);
}

std::string time_with_error(std::chrono::nanoseconds time, std::chrono::nanoseconds error, bool with_error) {
    return with_error ? fmt::format("{}±{}", time_text(time), time_text(error)) : time_text(time);
}

Style heat(std::uint64_t n, std::uint64_t samples) {
    const double share = share_of(n, samples);
    if (share >= 50) return {Colour::kRed};
    if (share >= 20) return {Colour::kYellow};
    return {};
}

void draw_titles(Grid& grid, int row, const Columns& c, const TopView& view) {
    grid.fill(row, 0, grid.columns(), " ", kHead);
    int end = 0;
    const auto title = [&](TopSort sort, const char* text, int width) {
        end += width;
        const std::string mark = view.sort == sort ? (view.ascending ? "▲" : "▼") : "";
        grid.put_right(row, end, mark + text, kHead);
    };
    title(TopSort::kOwnShare, "%own", c.share_width);
    title(TopSort::kTotalShare, "%total", c.share_width);
    if (c.own_time) title(TopSort::kOwnTime, "own", c.time_width);
    if (c.total_time) title(TopSort::kTotalTime, "total", c.time_width);
    const std::string mark = view.sort == TopSort::kName ? (view.ascending ? "▲" : "▼") : "";
    grid.put(row, c.name, mark + (view.with_lines ? "line of function" : "function"), kHead, c.where - 1);
    grid.put(row, c.where, "file:line", kHead);
}

void draw_line(Grid& grid, int row, const Columns& c, const TopLine& line, const TopData& data, const TopView& view, bool is_found) {
    const TopCount& now = data.tree.nodes.front().now;
    const TopErrors& errors = line.errors;
    int end = 0;
    const auto number = [&](int width, const std::string& text, Style style) {
        end += width;
        grid.put_right(row, end, text, style);
    };
    // A thread's heading has no time of its own.
    const auto own = [&](const std::string& text) { return line.is_thread ? std::string() : text; };
    number(c.share_width, own(share_text(line.now.own, now.total, errors.own_percent, c.with_errors)), heat(line.now.own, now.total));
    number(c.share_width, share_text(line.now.total, now.total, errors.total_percent, c.with_errors), heat(line.now.total, now.total));
    if (c.own_time) number(c.time_width, own(time_with_error(line.all.own_time, errors.own_time, c.with_errors)), {});
    if (c.total_time) number(c.time_width, time_with_error(line.all.total_time, errors.total_time, c.with_errors), {});
    const int indent = std::min(std::min(line.depth * kIndent, kDeepestIndent), std::max((c.where - c.name) / 2, 0));
    const char* mark = !view.as_tree ? "" : !line.has_children ? "  " : line.is_open ? "▾ " : "▸ ";
    const Style style = is_found ? kFound : line.is_thread ? kBold : Style{};
    grid.put(row, c.name + indent, mark + line.name, style, line.where.empty() ? -1 : c.where - 1);
    grid.put(row, c.where, cut_begin(line.where, grid.columns() - c.where), kDim);
}

void draw_lines(Grid& grid, const TopData& data, const TopView& view, const std::vector<TopLine>& lines, const TopLayout& layout) {
    const Columns c = columns_for(view, grid.columns());
    draw_titles(grid, layout.first_row - 1, c, view);
    const TopPattern pattern(view.search);
    const int selected = selected_line(lines, view);
    for (int i = 0; i < layout.page; ++i) {
        const int line = view.first_shown + i;
        if (line >= static_cast<int>(lines.size())) break;
        const int row = layout.first_row + i;
        const TopLine& what = lines[static_cast<std::size_t>(line)];
        draw_line(grid, row, c, what, data, view, !view.search.empty() && pattern.fits(what));
        if (line == selected) grid.restyle(row, kHead);
    }
    if (!lines.empty()) return;
    const bool is_filtered = !view.filter.empty();
    grid.put(layout.first_row, 2, is_filtered ? "nothing fits the filter" : fmt::format("no samples of {} threads yet", name_of(data.which)), kDim);
}

void draw_foot(Grid& grid, const TopView& view, const std::string& keys) {
    const int row = grid.rows() - 1;
    if (view.prompt != TopView::Prompt::kNone) {
        const char* what = view.prompt == TopView::Prompt::kSearch   ? "search: "
                           : view.prompt == TopView::Prompt::kFilter ? "filter: "
                                                                     : "save as (.svg, .txt, .json): ";
        const int at = grid.put(row, 0, what, kBold);
        const int room = grid.columns() - at - 1;
        const int end = grid.put(row, at, cut_begin(view.typed, room));
        grid.put(row, end, " ", kHead);
        return;
    }
    if (!view.message.empty()) {
        grid.put(row, 0, view.message, kBold);
        return;
    }
    std::string text = keys;
    if (!view.filter.empty()) text = fmt::format("filter {} (Esc clears)  ", view.filter) + text;
    grid.put(row, 0, text, kDim);
}

constexpr std::array<std::pair<const char*, const char*>, 20> kHelp = {{
    {"q", "leave"},
    {"space", "hold the screen; sampling goes on"},
    {"r", "reset all counts"},
    {"s  S", "sort by the next column; turn the order"},
    {"l", "lines or functions"},
    {"t", "per thread"},
    {"e", "call tree: right and left open and close"},
    {"/  n  N", "search by regular expression; next; last"},
    {"\\", "show only what fits an expression"},
    {"Esc", "clear search and filter"},
    {"i", "idle threads, too"},
    {"g", "only holders of the GIL"},
    {"v  a", "native stacks; asyncio tasks"},
    {"+  -", "refresh more often; less often"},
    {"%  ±", "standard errors"},
    {"Enter", "source, callers and callees of a function"},
    {"w", "save the profile so far, format by its ending"},
    {"mouse", "wheel moves, click selects, again opens"},
    {"", "%own, %total: of the samples of the last interval"},
    {"", "own, total: time since the start or reset"},
}};

void draw_help(Grid& grid, const TopView& view) {
    grid.put(0, 0, "pyprof top: keys", kBold);
    int row = 1;
    for (std::size_t i = static_cast<std::size_t>(view.details_scroll); i < kHelp.size() && row < grid.rows() - 1; ++i) {
        grid.put(row, 2, kHelp[i].first, kBold, 10);
        grid.put(row++, 11, kHelp[i].second);
    }
}

void draw_others(Grid& grid, int& row, int end, const char* title, const std::vector<TopDetails::Other>& others, std::uint64_t samples) {
    if (row >= end) return;
    grid.put(row++, 0, title, kBold);
    if (others.empty() && row < end) grid.put(row++, 9, "none", kDim);
    for (const TopDetails::Other& other : others) {
        if (row >= end) return;
        grid.put_right(row, 7, fmt::format("{:.1f}", share_of(other.samples, samples)));
        const int at = grid.put(row, 9, other.name, {}, 9 + (grid.columns() - 9) * 6 / 10);
        grid.put(row++, at + 1, other.where, kDim);
    }
}

constexpr int kFirstSource = 3;

// What callers and callees leave: a title and one name each have their place on all but the smallest screens.
int source_rows(const TopDetails& details, int rows) {
    const int end = rows - 1;
    const int wanted = static_cast<int>(details.callers.size() + details.callees.size()) + 4;
    const int others = std::max(std::min(wanted, (end - 2) / 2), std::min(4, end - 4));
    return std::max(end - others - kFirstSource, 0);
}

void draw_details(Grid& grid, const TopDetails& details, int scroll) {
    grid.put(0, 0, fmt::format("{}  {}", details.name, details.where), kBold);
    grid.put(1, 0, fmt::format("own {:.1f} %, total {:.1f} % of {} samples since the start", share_of(details.count.own, details.samples),
                               share_of(details.count.total, details.samples), details.samples));
    const int end = grid.rows() - 1;
    const int source_end = kFirstSource + source_rows(details, grid.rows());
    const int others = end - source_end;
    grid.fill(2, 0, grid.columns(), " ", kHead);
    grid.put(2, 0, "   %own %total  line", kHead);
    if (!details.note.empty()) grid.put(2, 22, details.note, kHead);
    int row = kFirstSource;
    for (std::size_t i = static_cast<std::size_t>(scroll); i < details.lines.size() && row < source_end; ++i, ++row) {
        const TopDetails::Line& line = details.lines[i];
        if (line.count.total > 0) {
            grid.put_right(row, 7, fmt::format("{:.1f}", share_of(line.count.own, details.samples)), heat(line.count.own, details.samples));
            grid.put_right(row, 14, fmt::format("{:.1f}", share_of(line.count.total, details.samples)), heat(line.count.total, details.samples));
        }
        grid.put_right(row, 20, std::to_string(line.number), kDim);
        grid.put(row, 21, line.text, line.count.total > 0 ? Style{} : kDim);
    }
    row = source_end;
    draw_others(grid, row, source_end + others / 2, "Callers", details.callers, details.samples);
    row = source_end + others / 2;
    draw_others(grid, row, end, "Callees", details.callees, details.samples);
}

}  // namespace

std::string time_text(std::chrono::nanoseconds time) {
    const double value = seconds(time);
    if (value < 100) return fmt::format("{:.2f}s", value);
    if (value < 10'000) return fmt::format("{:.0f}s", value);
    return fmt::format("{:.1f}h", value / 3600);
}

std::string base_text(const TopData& data) {
    const TopCount& now = data.tree.nodes.front().now;
    const TopCount& all = data.tree.nodes.front().all;
    const bool with_tasks = data.facts.has_waiting_tasks && data.which == WhichThreads::kAll;
    return fmt::format("% of {} samples of {} threads{} in {:.1f} s; times of {} thread time{}", now.total, name_of(data.which),
                       with_tasks ? " and waiting tasks" : "", seconds(data.facts.interval), time_text(all.total_time),
                       with_tasks ? " and task-seconds" : "");
}

TopLayout top_layout(int rows) {
    TopLayout layout;
    layout.head_rows = rows <= 12 ? 2 : rows <= 20 ? 3 : 4;
    layout.first_row = layout.head_rows + 2;
    layout.page = std::max(rows - layout.first_row - 1, 1);
    return layout;
}

int first_detail(const TopDetails& details, int rows) {
    const auto& lines = details.lines;
    const auto hottest = std::max_element(lines.begin(), lines.end(), [](const TopDetails::Line& a, const TopDetails::Line& b) {
        return std::pair(a.count.own, a.count.total) < std::pair(b.count.own, b.count.total);
    });
    const int page = source_rows(details, rows);
    return std::clamp(static_cast<int>(hottest - lines.begin()) - page / 2, 0, std::max(static_cast<int>(lines.size()) - page, 0));
}

void keep_in_view(TopView& view, const std::vector<TopLine>& lines, int page) {
    const int count = static_cast<int>(lines.size());
    const std::size_t above = view.details && !view.shows_help ? view.details->lines.size() : kHelp.size();
    view.details_scroll = std::clamp(view.details_scroll, 0, std::max(static_cast<int>(above) - 1, 0));
    if (view.selected != 0) {
        const int selected = std::max(selected_line(lines, view), 0);
        view.first_shown = std::clamp(view.first_shown, std::max(selected - page + 1, 0), selected);
    }
    view.first_shown = std::clamp(view.first_shown, 0, std::max(count - page, 0));
}

Grid draw_top(const TopData& data, const TopView& view, const std::vector<TopLine>& lines, int rows, int columns) {
    Grid grid(rows, columns);
    const TopLayout layout = top_layout(rows);
    if (view.shows_help) {
        draw_help(grid, view);
        draw_foot(grid, view, "any key goes back");
        return grid;
    }
    if (view.details) {
        draw_details(grid, *view.details, view.details_scroll);
        draw_foot(grid, view, "any key goes back, arrows scroll");
        return grid;
    }
    draw_head(grid, data, view, layout.head_rows);
    grid.put(layout.head_rows, 0, base_text(data), kDim);
    draw_lines(grid, data, view, lines, layout);
    draw_foot(grid, view, data.facts.has_ended ? "the process has ended: q leaves, ? keys" : "q leave  ? keys  space hold  e tree  t threads  Enter details  w save");
    return grid;
}

}  // namespace pyprof
