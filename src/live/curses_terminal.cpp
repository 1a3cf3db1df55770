// SPDX-License-Identifier: Apache-2.0
//
// The terminal by ncurses. Its own signal handlers never run: the signals are blocked and read elsewhere.
#define NCURSES_WIDECHAR 1
#define NCURSES_NOMACROS 1  // functions named erase, refresh and timeout, not macros of these names
#include "live/terminal.h"

#include "live/terminal_guard.h"

#include <curses.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace pyprof {

namespace {

class CursesTerminal final : public Terminal {
public:
    CursesTerminal(std::unique_ptr<TerminalGuard> guard, SCREEN* screen, bool colours, bool unicode)
        : guard_(std::move(guard)), screen_(screen), unicode_(unicode) {
        ::set_term(screen_);
        ::raw();  // Ctrl-C and Ctrl-Z are keys: a program that shares the terminal is not touched by them
        ::noecho();
        ::nonl();
        ::keypad(stdscr, TRUE);
        ::nodelay(stdscr, TRUE);
        ::set_escdelay(25);
        ::curs_set(0);
        ::mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, nullptr);
        ::mouseinterval(0);
        if (!colours || !::has_colors()) return;
        has_colours_ = true;
        ::start_color();
        ::use_default_colors();
        constexpr short kColours[] = {COLOR_RED, COLOR_GREEN, COLOR_YELLOW, COLOR_BLUE, COLOR_MAGENTA, COLOR_CYAN};
        short pair = 1;
        for (const short colour : kColours) ::init_pair(pair++, colour, -1);
    }
    ~CursesTerminal() override {
        ::endwin();
        ::delscreen(screen_);
    }
    CursesTerminal(const CursesTerminal&) = delete;
    CursesTerminal& operator=(const CursesTerminal&) = delete;

    [[nodiscard]] int rows() const override { return LINES; }
    [[nodiscard]] int columns() const override { return COLS; }

    void draw(const Grid& wanted) override {
        const Grid grid = unicode_ ? wanted : in_ascii(wanted);
        ::erase();
        for (int row = 0; row < grid.rows(); ++row) {
            for (int column = 0; column < grid.columns(); ++column) draw_cell(row, column, grid.at(row, column));
        }
        ::refresh();
    }

    std::optional<Key> take_key() override {
        wint_t code = 0;
        const int kind = ::get_wch(&code);
        if (kind == ERR) return {};
        return kind == KEY_CODE_YES ? special(code) : character(code);
    }

    void resize() override {
        winsize size{};
        if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return;
        ::resizeterm(size.ws_row, size.ws_col);
        ::clearok(stdscr, TRUE);
    }
    void suspend() override {
        ::endwin();
        guard_->put_back();
    }
    void resume() override {
        ::clearok(stdscr, TRUE);
        ::refresh();
        resize();
    }

private:
    void draw_cell(int row, int column, const Cell& cell) {
        if (cell.text.empty()) return;
        wchar_t wide[8] = {};
        if (std::mbstowcs(wide, cell.text.c_str(), 7) == static_cast<std::size_t>(-1)) wide[0] = L'?';
        attr_t attributes = A_NORMAL;
        if (cell.style.bold) attributes |= A_BOLD;
        if (cell.style.dim) attributes |= A_DIM;
        if (cell.style.reverse) attributes |= A_REVERSE;
        const auto pair = has_colours_ ? static_cast<short>(cell.style.colour) : short{0};
        cchar_t drawn;
        ::setcchar(&drawn, wide, attributes, pair, nullptr);
        ::mvadd_wch(row, column, &drawn);
    }

    static Key character(wint_t code) {
        if (code == '\r' || code == '\n') return {Key::Kind::kEnter};
        if (code == 0x1b) return {Key::Kind::kEscape};
        if (code == 0x7f || code == '\b') return {Key::Kind::kBackspace};
        return {Key::Kind::kCharacter, static_cast<char32_t>(code)};
    }

    static Key special(wint_t code) {
        using Kind = Key::Kind;
        switch (code) {
            case KEY_UP: return {Kind::kUp};
            case KEY_DOWN: return {Kind::kDown};
            case KEY_LEFT: return {Kind::kLeft};
            case KEY_RIGHT: return {Kind::kRight};
            case KEY_PPAGE: return {Kind::kPageUp};
            case KEY_NPAGE: return {Kind::kPageDown};
            case KEY_HOME: return {Kind::kHome};
            case KEY_END: return {Kind::kEnd};
            case KEY_ENTER: return {Kind::kEnter};
            case KEY_BACKSPACE: return {Kind::kBackspace};
            case KEY_RESIZE: return {Kind::kResize};
            case KEY_MOUSE: return mouse();
            default: return {Kind::kOther};
        }
    }

    static Key mouse() {
        MEVENT event{};
        if (::getmouse(&event) != OK) return {Key::Kind::kOther};
        if ((event.bstate & BUTTON4_PRESSED) != 0) return {Key::Kind::kWheelUp};
        if ((event.bstate & BUTTON5_PRESSED) != 0) return {Key::Kind::kWheelDown};
        if ((event.bstate & BUTTON1_PRESSED) != 0) return {Key::Kind::kClick, 0, event.y, event.x};
        return {Key::Kind::kOther};
    }

    std::unique_ptr<TerminalGuard> guard_;
    SCREEN* screen_;
    bool unicode_;
    bool has_colours_ = false;
};

}  // namespace

std::unique_ptr<Terminal> open_curses(bool colours, bool unicode) {
    auto guard = std::make_unique<TerminalGuard>();  // newterm changes the mode already
    SCREEN* screen = ::newterm(nullptr, stdout, stdin);
    if (screen == nullptr) return nullptr;
    return std::make_unique<CursesTerminal>(std::move(guard), screen, colours, unicode);
}

}  // namespace pyprof
