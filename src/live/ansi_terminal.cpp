// SPDX-License-Identifier: Apache-2.0
//
// The terminal by the sequences that all of today's share (ECMA-48, xterm's alternate screen), for machines without
// a data base of terminals, such as small containers.
#include "live/terminal.h"

#include "base/text.h"
#include "live/terminal_guard.h"

#include <fmt/format.h>

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>

namespace pyprof {

namespace {

constexpr int kDefaultRows = 24;
constexpr int kDefaultColumns = 80;
constexpr std::size_t kLongestSequence = 32;
constexpr int kSequencePatienceMs = 25;  // as for ncurses

void write_all(std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
        if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (written <= 0) return;  // the terminal is gone: SIGHUP says so
        text.remove_prefix(static_cast<std::size_t>(written));
    }
}

std::string sequence_of(Style style, bool colours) {
    std::string text = "\x1b[0";
    if (style.bold) text += ";1";
    if (style.dim) text += ";2";
    if (style.reverse) text += ";7";
    if (colours && style.colour != Colour::kDefault) text += fmt::format(";{}", 30 + static_cast<int>(style.colour));
    return text + "m";
}

class AnsiTerminal final : public Terminal {
public:
    AnsiTerminal(bool colours, bool unicode) : colours_(colours), unicode_(unicode) {
        enter();
        resize();
    }
    ~AnsiTerminal() override { write_all(kLeaveScreen); }
    AnsiTerminal(const AnsiTerminal&) = delete;
    AnsiTerminal& operator=(const AnsiTerminal&) = delete;

    [[nodiscard]] int rows() const override { return rows_; }
    [[nodiscard]] int columns() const override { return columns_; }

    void draw(const Grid& wanted) override {
        const Grid grid = unicode_ ? wanted : in_ascii(wanted);
        std::string out = "\x1b[0m\x1b[H";
        Style style;
        for (int row = 0; row < grid.rows(); ++row) {
            out += fmt::format("\x1b[{};1H", row + 1);
            for (int column = 0; column < grid.columns(); ++column) {
                const Cell& cell = grid.at(row, column);
                if (cell.style != style) out += sequence_of(style = cell.style, colours_);
                out += cell.text;
            }
        }
        write_all(out);
    }

    std::optional<Key> take_key() override {
        read_more(0);
        if (input_.empty()) return {};
        if (input_.front() == '\x1b') return take_sequence();
        Decoded next = decode_utf8(input_);
        if (next.length == 0) next = {U'?', 1};
        input_.erase(0, next.length);
        if (next.code_point == U'\r' || next.code_point == U'\n') return Key{Key::Kind::kEnter};
        if (next.code_point == 0x7f || next.code_point == 8) return Key{Key::Kind::kBackspace};
        return Key{Key::Kind::kCharacter, next.code_point};
    }

    void resize() override {
        winsize size{};
        const bool is_known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
        rows_ = is_known ? size.ws_row : kDefaultRows;
        columns_ = is_known ? size.ws_col : kDefaultColumns;
    }
    void suspend() override {
        write_all(kLeaveScreen);
        guard_.put_back();
    }
    void resume() override {
        enter();
        resize();
    }

private:
    void enter() {
        termios raw = guard_.mode();
        ::cfmakeraw(&raw);
        raw.c_oflag |= OPOST;
        ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
        write_all("\x1b[?1049h\x1b[?25l\x1b[?1000h\x1b[?1006h");
    }

    void read_more(int patience_ms) {
        pollfd waiting{STDIN_FILENO, POLLIN, 0};
        char buffer[256];
        if (::poll(&waiting, 1, patience_ms) <= 0) return;
        const ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer);
        if (got > 0) input_.append(buffer, static_cast<std::size_t>(got));
    }

    // ESC [ digits and semicolons, a letter or ~; ESC O letter; or Escape alone.
    Key take_sequence() {
        if (input_.size() == 1) read_more(kSequencePatienceMs);
        if (input_.size() < 2 || (input_[1] != '[' && input_[1] != 'O')) {
            input_.erase(0, 1);
            return {Key::Kind::kEscape};
        }
        std::size_t end = 2;
        while (end < input_.size() && end < kLongestSequence && (input_[end] < 0x40 || input_[end] > 0x7e)) ++end;
        const std::string body = input_.substr(2, std::min(end, input_.size()) - 2);
        const char last = end < input_.size() ? input_[end] : '\0';
        input_.erase(0, end + 1);
        return key_of(body, last);
    }

    static Key key_of(const std::string& body, char last) {
        using Kind = Key::Kind;
        if (last == 'A') return {Kind::kUp};
        if (last == 'B') return {Kind::kDown};
        if (last == 'C') return {Kind::kRight};
        if (last == 'D') return {Kind::kLeft};
        if (last == 'H' || body == "1" || body == "7") return {Kind::kHome};
        if (last == 'F' || body == "4" || body == "8") return {Kind::kEnd};
        if (last == '~' && body == "5") return {Kind::kPageUp};
        if (last == '~' && body == "6") return {Kind::kPageDown};
        int button = 0;
        int column = 0;
        int row = 0;
        if (last != 'M' || std::sscanf(body.c_str(), "<%d;%d;%d", &button, &column, &row) != 3) return {Kind::kOther};
        if (button == 64) return {Kind::kWheelUp};
        if (button == 65) return {Kind::kWheelDown};
        if (button == 0) return {Kind::kClick, 0, row - 1, column - 1};
        return {Kind::kOther};
    }

    TerminalGuard guard_;
    bool colours_;
    bool unicode_;
    int rows_ = kDefaultRows;
    int columns_ = kDefaultColumns;
    std::string input_;
};

}  // namespace

std::unique_ptr<Terminal> open_ansi(bool colours, bool unicode) { return std::make_unique<AnsiTerminal>(colours, unicode); }

}  // namespace pyprof
