// SPDX-License-Identifier: Apache-2.0
#include "live/terminal.h"

#include <langinfo.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <string_view>

namespace pyprof {

namespace {

// As Python does (PEP 538): a locale that nobody set is no wish for ASCII.
bool has_unicode() {
    const char* locale = std::setlocale(LC_CTYPE, "");
    const bool is_unset = locale == nullptr || std::string_view(locale) == "C";
    if (is_unset && std::getenv("LC_ALL") == nullptr) std::setlocale(LC_CTYPE, "C.UTF-8");
    return std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
}

std::string_view variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string_view() : std::string_view(value);
}

}  // namespace

std::unique_ptr<Terminal> open_terminal() {
    if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1) return nullptr;
    const std::string_view type = variable("TERM");
    if (type.empty() || type == "dumb") return nullptr;
    const bool colours = variable("NO_COLOR").empty();
    const bool unicode = has_unicode();
    if (auto terminal = open_curses(colours, unicode)) return terminal;
    return open_ansi(colours, unicode);
}

}  // namespace pyprof
