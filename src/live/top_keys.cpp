// SPDX-License-Identifier: Apache-2.0
//
// What each key changes.
#include "live/top_view.h"

#include <algorithm>

namespace pyprof {

namespace {

constexpr std::chrono::milliseconds kRefreshes[] = {std::chrono::milliseconds(100), std::chrono::milliseconds(200),
                                                    std::chrono::milliseconds(500), std::chrono::milliseconds(1000),
                                                    std::chrono::milliseconds(2000), std::chrono::milliseconds(5000),
                                                    std::chrono::milliseconds(10000)};
constexpr int kWheelLines = 3;
constexpr std::size_t kLongestTyped = 4000;
constexpr char32_t control(char letter) { return static_cast<char32_t>(letter & 0x1f); }

void append_utf8(std::string& text, char32_t point) {
    const auto byte = [&](char32_t value) { text += static_cast<char>(value); };
    if (point < 0x80) {
        byte(point);
    } else if (point < 0x800) {
        byte(0xc0 | point >> 6);
        byte(0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
        byte(0xe0 | point >> 12);
        byte(0x80 | (point >> 6 & 0x3f));
        byte(0x80 | (point & 0x3f));
    } else {
        byte(0xf0 | point >> 18);
        byte(0x80 | (point >> 12 & 0x3f));
        byte(0x80 | (point >> 6 & 0x3f));
        byte(0x80 | (point & 0x3f));
    }
}

void drop_last(std::string& text) {
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
    if (!text.empty()) text.pop_back();
}

void select(TopView& view, const std::vector<TopLine>& lines, int line, int page) {
    if (lines.empty()) return;
    line = std::clamp(line, 0, static_cast<int>(lines.size()) - 1);
    view.selected = lines[static_cast<std::size_t>(line)].id;
    view.first_shown = std::clamp(view.first_shown, std::max(line - page + 1, 0), line);
}

void find(TopView& view, const std::vector<TopLine>& lines, int from, int step, int page) {
    const TopPattern pattern(view.search);
    const int count = static_cast<int>(lines.size());
    if (view.search.empty()) {
        view.message = "nothing to search for: / asks";
    } else if (!pattern.is_valid()) {
        view.message = "no regular expression: " + view.search;
    } else {
        for (int i = 0; i < count; ++i) {
            const int line = ((from + step * i) % count + count) % count;
            if (!pattern.fits(lines[static_cast<std::size_t>(line)])) continue;
            select(view, lines, line, page);
            return;
        }
        view.message = "not found: " + view.search;
    }
}

TopAction end_prompt(TopView& view, const std::vector<TopLine>& lines, int page) {
    const TopView::Prompt prompt = view.prompt;
    view.prompt = TopView::Prompt::kNone;
    if (prompt == TopView::Prompt::kSave) return view.typed.empty() ? TopAction::kRedraw : TopAction::kSave;
    if (prompt == TopView::Prompt::kSearch) {
        view.search = view.typed;
        if (!view.search.empty()) find(view, lines, std::max(selected_line(lines, view), 0), 1, page);
        return TopAction::kRedraw;
    }
    if (!view.typed.empty() && !TopPattern(view.typed).is_valid()) {
        view.message = "no regular expression: " + view.typed;
        return TopAction::kRedraw;
    }
    view.filter = view.typed;
    view.first_shown = 0;
    return TopAction::kRedraw;
}

TopAction type(TopView& view, const Key& key, const std::vector<TopLine>& lines, int page) {
    switch (key.kind) {
        case Key::Kind::kEnter:
            return end_prompt(view, lines, page);
        case Key::Kind::kEscape:
            view.prompt = TopView::Prompt::kNone;
            return TopAction::kRedraw;
        case Key::Kind::kBackspace:
            drop_last(view.typed);
            return TopAction::kRedraw;
        case Key::Kind::kCharacter:
            if (key.character == control('c')) view.prompt = TopView::Prompt::kNone;
            if (key.character == control('u')) view.typed.clear();
            if (key.character >= 0x20 && key.character != 0x7f && view.typed.size() < kLongestTyped) append_utf8(view.typed, key.character);
            return TopAction::kRedraw;
        default:
            return TopAction::kNone;
    }
}

void ask(TopView& view, TopView::Prompt prompt, const std::string& given) {
    view.prompt = prompt;
    view.typed = given;
}

void change_refresh(TopView& view, bool faster) {
    const auto* end = std::end(kRefreshes);
    const auto* at = std::lower_bound(std::begin(kRefreshes), end, view.refresh);
    if (faster && at != std::begin(kRefreshes)) --at;
    if (!faster && at != end && *at == view.refresh) ++at;
    if (at == end) --at;
    view.refresh = *at;
}

void open_or_close(TopView& view, const std::vector<TopLine>& lines, int selected, bool open) {
    if (selected < 0) return;
    const TopLine& line = lines[static_cast<std::size_t>(selected)];
    if (!line.has_children || line.is_open == open) return;
    if (view.flipped.erase(line.id) == 0) view.flipped.insert(line.id);
}

TopAction count_anew(bool& choice) {
    choice = !choice;
    return TopAction::kRecount;
}

TopAction choose(TopView& view, WhichThreads which) {
    view.which = view.which == which ? WhichThreads::kRunning : which;
    return TopAction::kRecount;
}

// Waiting tasks are idle: they are among all threads.
void set_async(TopView& view, AsyncMode mode) {
    if (mode == AsyncMode::kAll) view.which = WhichThreads::kAll;
    if (view.async == AsyncMode::kAll && mode != AsyncMode::kAll) view.which = WhichThreads::kRunning;
    view.async = mode;
}

TopAction press_character(TopView& view, char32_t character, const std::vector<TopLine>& lines, int page) {
    const int selected = selected_line(lines, view);
    switch (character) {
        case U'q':
        case control('c'):
            return TopAction::kQuit;
        case control('z'):
            return TopAction::kSuspend;
        case U'?':
        case U'h':
            view.shows_help = true;
            break;
        case U' ':
            view.is_paused = !view.is_paused;
            break;
        case U'r':
            return TopAction::kReset;
        case U's':
            view.sort = static_cast<TopSort>((static_cast<int>(view.sort) + 1) % kTopSorts);
            break;
        case U'S':
            view.ascending = !view.ascending;
            break;
        case U'l':
            return count_anew(view.with_lines);
        case U't':
            return count_anew(view.per_thread);
        case U'e':
            view.as_tree = !view.as_tree;
            view.sort = view.as_tree ? TopSort::kTotalShare : TopSort::kOwnShare;  // a caller's own time is next to none
            view.first_shown = 0;
            return TopAction::kRecount;
        case U'/':
            ask(view, TopView::Prompt::kSearch, "");
            break;
        case U'\\':
            ask(view, TopView::Prompt::kFilter, view.filter);
            break;
        case U'n':
            find(view, lines, selected + 1, 1, page);
            break;
        case U'N':
            find(view, lines, selected - 1, -1, page);
            break;
        case U'i':
            return choose(view, WhichThreads::kAll);
        case U'g':
            return choose(view, WhichThreads::kGilHolder);
        case U'v':
            view.with_native = !view.with_native;
            if (view.with_native) set_async(view, AsyncMode::kOff);
            return TopAction::kRecord;
        case U'a':
            set_async(view, view.async == AsyncMode::kOff ? AsyncMode::kRunning : view.async == AsyncMode::kRunning ? AsyncMode::kAll : AsyncMode::kOff);
            if (view.async != AsyncMode::kOff) view.with_native = false;  // the sampler joins tasks with Python frames alone
            return TopAction::kRecord;
        case U'+':
        case U'=':
            change_refresh(view, true);
            break;
        case U'-':
            change_refresh(view, false);
            break;
        case 0xb1:  // ±
        case U'%':
            return count_anew(view.with_errors);
        case U'w':
            ask(view, TopView::Prompt::kSave, "");
            break;
        case U'j':
            select(view, lines, selected + 1, page);
            break;
        case U'k':
            select(view, lines, selected - 1, page);
            break;
        default:
            return TopAction::kNone;
    }
    return TopAction::kRedraw;
}

// Details and help: they scroll, and any other key but the way out leaves them.
TopAction press_above(TopView& view, const Key& key, int page) {
    int step = 0;
    if (key.kind == Key::Kind::kUp) step = -1;
    if (key.kind == Key::Kind::kDown) step = 1;
    if (key.kind == Key::Kind::kWheelUp) step = -kWheelLines;
    if (key.kind == Key::Kind::kWheelDown) step = kWheelLines;
    if (key.kind == Key::Kind::kPageUp) step = -page;
    if (key.kind == Key::Kind::kPageDown) step = page;
    if (step != 0) {
        view.details_scroll = std::max(view.details_scroll + step, 0);
        return TopAction::kRedraw;
    }
    if (key.kind == Key::Kind::kCharacter && key.character == control('c')) return TopAction::kQuit;
    if (key.kind == Key::Kind::kCharacter && key.character == control('z')) return TopAction::kSuspend;
    view.shows_help = false;
    view.details.reset();
    return TopAction::kRedraw;
}

TopAction click(TopView& view, const Key& key, const std::vector<TopLine>& lines, int first_row, int page) {
    const int line = view.first_shown + key.row - first_row;
    if (key.row < first_row || line < 0 || line >= static_cast<int>(lines.size()) || key.row >= first_row + page) return TopAction::kNone;
    const TopLine& what = lines[static_cast<std::size_t>(line)];
    const bool again = view.selected == what.id;
    select(view, lines, line, page);
    if (!again) return TopAction::kRedraw;
    if (!view.as_tree) return TopAction::kDetails;
    open_or_close(view, lines, line, !what.is_open);
    return TopAction::kRedraw;
}

}  // namespace

TopAction press(TopView& view, const Key& key, const std::vector<TopLine>& lines, int first_row, int page) {
    using Kind = Key::Kind;
    if (key.kind == Kind::kResize) return TopAction::kRedraw;
    if (key.kind == Kind::kOther) return TopAction::kNone;  // such as the release of a mouse button: no wish to leave anything
    view.message.clear();
    if (view.prompt != TopView::Prompt::kNone) return type(view, key, lines, page);
    if (view.shows_help || view.details) return press_above(view, key, page);
    const int selected = selected_line(lines, view);
    switch (key.kind) {
        case Kind::kCharacter:
            return press_character(view, key.character, lines, page);
        case Kind::kEnter:
            return selected >= 0 && !lines[static_cast<std::size_t>(selected)].is_thread ? TopAction::kDetails : TopAction::kNone;
        case Kind::kEscape:
            view.search.clear();
            view.filter.clear();
            break;
        case Kind::kUp:
            select(view, lines, selected - 1, page);
            break;
        case Kind::kDown:
            select(view, lines, selected + 1, page);
            break;
        case Kind::kWheelUp:
            select(view, lines, selected - kWheelLines, page);
            break;
        case Kind::kWheelDown:
            select(view, lines, selected + kWheelLines, page);
            break;
        case Kind::kPageUp:
            select(view, lines, selected - page, page);
            break;
        case Kind::kPageDown:
            select(view, lines, selected + page, page);
            break;
        case Kind::kHome:
            select(view, lines, 0, page);
            break;
        case Kind::kEnd:
            select(view, lines, static_cast<int>(lines.size()) - 1, page);
            break;
        case Kind::kLeft:
        case Kind::kRight:
            open_or_close(view, lines, selected, key.kind == Kind::kRight);
            break;
        case Kind::kClick:
            return click(view, key, lines, first_row, page);
        default:
            return TopAction::kNone;
    }
    return TopAction::kRedraw;
}

}  // namespace pyprof
