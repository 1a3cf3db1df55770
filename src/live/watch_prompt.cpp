// SPDX-License-Identifier: Apache-2.0
#include "live/watch_prompt.h"

#include "base/text.h"
#include "live/watch_words.h"

#include <pyprof/error.h>

#include <histedit.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <unistd.h>

namespace pyprof {

namespace {

constexpr std::size_t kMostShown = 60;  // of completions

std::string common_beginning(const std::vector<std::string>& words) {
    std::string common = words.empty() ? "" : words.front();
    for (const std::string& word : words) {
        const auto differs = std::mismatch(common.begin(), common.end(), word.begin(), word.end());
        common.erase(differs.first, common.end());
    }
    // Not a part of a character.
    while (!common.empty() && words.front().size() > common.size() &&
           (static_cast<unsigned char>(words.front()[common.size()]) & 0xC0) == 0x80) {
        common.pop_back();
    }
    return common;
}

}  // namespace

struct WatchPrompt::State {
    std::string prompt;
    WaitForKey wait_for_key;
    Complete complete;
    WatchHistory kept;
    std::FILE* out = nullptr;
    EditLine* editor = nullptr;
    History* history = nullptr;
    bool was_cancelled = false;
    bool is_reading = false;

    static State& of(EditLine* editor) {
        void* data = nullptr;
        el_get(editor, EL_CLIENTDATA, &data);
        return *static_cast<State*>(data);
    }
    static char* show_prompt(EditLine* editor) { return of(editor).prompt.data(); }
    static int read_key(EditLine* editor, wchar_t* key);
    static unsigned char complete_word(EditLine* editor, int key);
};

// One character, however many bytes it has; 0 is the end of input.
int WatchPrompt::State::read_key(EditLine* editor, wchar_t* key) {
    State& state = of(editor);
    std::string bytes;
    while (bytes.size() < 4) {
        const Wake wake = state.wait_for_key();
        if (wake == Wake::kCancelled) state.was_cancelled = true;
        if (wake == Wake::kCancelled && bytes.empty()) {
            *key = L'\n';  // the line is thrown away
            return 1;
        }
        if (wake == Wake::kEnd) return 0;
        char byte = 0;
        const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got <= 0) return 0;
        bytes += byte;
        if (const Decoded decoded = decode_utf8(bytes); decoded.length != 0) {
            *key = static_cast<wchar_t>(decoded.code_point);
            return 1;
        }
    }
    *key = L'?';  // not UTF-8
    return 1;
}

unsigned char WatchPrompt::State::complete_word(EditLine* editor, int) {
    State& state = of(editor);
    const LineInfo* line = el_line(editor);
    const std::string left(line->buffer, line->cursor);
    const std::string word(last_word(left));
    std::vector<std::string> words;
    for (std::string& candidate : state.complete(left)) {
        if (candidate.compare(0, word.size(), word) == 0) words.push_back(std::move(candidate));
    }
    if (words.empty()) return CC_REFRESH_BEEP;
    std::string rest = common_beginning(words).substr(word.size());
    if (words.size() == 1) rest += ' ';
    if (!rest.empty()) return el_insertstr(editor, rest.c_str()) == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
    std::fputc('\n', state.out);
    for (std::size_t i = 0; i < std::min(words.size(), kMostShown); ++i) std::fprintf(state.out, "%s\n", escape_control(words[i]).c_str());
    if (words.size() > kMostShown) std::fprintf(state.out, "and %zu more\n", words.size() - kMostShown);
    return CC_REDISPLAY;
}

WatchPrompt::WatchPrompt(std::string prompt, WaitForKey wait_for_key, Complete complete, WatchHistory kept) : state_(std::make_unique<State>()) {
    State& state = *state_;
    state.prompt = std::move(prompt);
    state.wait_for_key = std::move(wait_for_key);
    state.complete = std::move(complete);
    state.kept = std::move(kept);
    // The editor counts columns with the locale; a C locale would take all that is not ASCII for noise.
    std::setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    state.out = ::isatty(STDOUT_FILENO) == 1 ? stdout : stderr;
    state.editor = el_init("pyprof", stdin, state.out, stderr);
    check(state.editor != nullptr, "no line editor");
    state.history = history_init();
    check(state.history != nullptr, "no history");
    HistEvent event;
    history(state.history, &event, H_SETSIZE, static_cast<int>(WatchHistory::kMostLines));
    history(state.history, &event, H_SETUNIQUE, 1);
    for (const std::string& line : state.kept.load()) history(state.history, &event, H_ENTER, line.c_str());
    el_set(state.editor, EL_CLIENTDATA, &state);
    el_set(state.editor, EL_PROMPT, &State::show_prompt);
    el_set(state.editor, EL_EDITOR, "emacs");
    el_set(state.editor, EL_HIST, history, state.history);
    el_set(state.editor, EL_GETCFN, &State::read_key);
    el_set(state.editor, EL_ADDFN, "pyprof-complete", "Completes commands and functions", &State::complete_word);
    el_set(state.editor, EL_BIND, "^I", "pyprof-complete", nullptr);
    el_set(state.editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
}

WatchPrompt::~WatchPrompt() {
    el_end(state_->editor);
    history_end(state_->history);
}

std::optional<std::string> WatchPrompt::read_line() {
    State& state = *state_;
    state.was_cancelled = false;
    int length = 0;
    state.is_reading = true;
    const char* line = el_gets(state.editor, &length);
    state.is_reading = false;
    if (line == nullptr || length <= 0) {
        std::fputc('\n', state.out);
        std::fflush(state.out);
        return std::nullopt;
    }
    if (state.was_cancelled) return std::string();
    std::string text(line, static_cast<std::size_t>(length));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    HistEvent event;
    if (text.empty()) return text;
    history(state.history, &event, H_ENTER, text.c_str());
    state.kept.add(text);
    return text;
}

void WatchPrompt::print_above(const std::function<void()>& print) {
    if (state_->is_reading) std::fputs("\r\n", state_->out);
    std::fflush(state_->out);
    print();
    std::fflush(state_->out);
    if (state_->is_reading) el_set(state_->editor, EL_REFRESH);
}

}  // namespace pyprof
