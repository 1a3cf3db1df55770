// SPDX-License-Identifier: Apache-2.0
#include "live/watch_name.h"

#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <utility>

namespace pyprof {

namespace {

constexpr std::size_t kLongestName = 1024;
constexpr std::size_t kMostSuggestions = 3;
// A name as long as that is not misspelt, it is another one.
constexpr std::size_t kLongestCompared = 80;
constexpr std::size_t kMostCompared = 50'000;

bool ends_in(std::string_view text, std::string_view ending) {
    return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
}

// Whether `whole` is `part`, or ends in it behind a `separator`.
bool is_tail(std::string_view whole, std::string_view part, char separator) {
    if (!ends_in(whole, part)) return false;
    return whole.size() == part.size() || whole[whole.size() - part.size() - 1] == separator;
}

bool is_glob(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

std::string with_slashes(std::string_view module) {
    std::string path(module);
    std::replace(path.begin(), path.end(), '.', '/');
    return path;
}

// "json/encoder" of ".../json/encoder.py", "json" of ".../json/__init__.py", "importlib/_bootstrap" of
// "<frozen importlib._bootstrap>".
std::string module_path(std::string_view file) {
    constexpr std::string_view kFrozen = "<frozen ";
    if (file.substr(0, kFrozen.size()) == kFrozen && ends_in(file, ">")) {
        return with_slashes(file.substr(kFrozen.size(), file.size() - kFrozen.size() - 1));
    }
    for (const std::string_view ending : {"/__init__.py", ".py", ".pyw"}) {
        if (ends_in(file, ending)) return std::string(file.substr(0, file.size() - ending.size()));
    }
    return std::string(file);
}

// The glob on the whole path, or on what stands behind any slash of it.
bool glob_tail(std::string_view glob, std::string_view path) {
    if (matches_glob(glob, path)) return true;
    for (std::size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/', slash + 1)) {
        if (matches_glob(glob, path.substr(slash + 1))) return true;
    }
    return false;
}

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = lower(c);
    return out;
}

Decoded next(std::string_view text) {
    Decoded decoded = decode_utf8(text);
    if (decoded.length == 0) decoded = {static_cast<unsigned char>(text.front()), 1};  // any byte is a character then
    return decoded;
}

// The set at the start of `glob`, which begins with '['. Length 0: it is never closed, and so no set.
struct SetMatch {
    std::size_t length = 0;
    bool holds = false;
};

SetMatch match_set(std::string_view glob, char32_t wanted) {
    std::size_t at = 1;
    const bool is_negated = at < glob.size() && (glob[at] == '!' || glob[at] == '^');
    if (is_negated) ++at;
    const std::size_t first = at;
    bool holds = false;
    while (at < glob.size() && (glob[at] != ']' || at == first)) {
        const Decoded low = next(glob.substr(at));
        at += low.length;
        char32_t high = low.code_point;
        if (at + 1 < glob.size() && glob[at] == '-' && glob[at + 1] != ']') {
            const Decoded end = next(glob.substr(at + 1));
            high = end.code_point;
            at += 1 + end.length;
        }
        holds = holds || (low.code_point <= wanted && wanted <= high);
    }
    if (at >= glob.size()) return {};
    return {at + 1, holds != is_negated};
}

// The bytes of `glob` that one character of the text uses up, or 0 where it does not match.
std::size_t step_in(std::string_view glob, char32_t wanted) {
    if (glob.empty()) return 0;
    if (glob.front() == '?') return 1;
    if (glob.front() == '[') {
        const SetMatch set = match_set(glob, wanted);
        if (set.length != 0) return set.holds ? set.length : 0;
    }
    const Decoded literal = next(glob);
    return literal.code_point == wanted ? literal.length : 0;
}

}  // namespace

// One star is remembered at a time: what an earlier star could still take, the last one can take as well.
bool matches_glob(std::string_view glob, std::string_view text) {
    std::size_t g = 0;
    std::size_t t = 0;
    std::size_t star = std::string_view::npos;
    std::size_t star_text = 0;
    while (t < text.size()) {
        if (g < glob.size() && glob[g] == '*') {
            star = g++;
            star_text = t;
            continue;
        }
        const Decoded character = next(text.substr(t));
        if (const std::size_t used = step_in(glob.substr(g), character.code_point); used != 0) {
            g += used;
            t += character.length;
            continue;
        }
        if (star == std::string_view::npos) return false;
        g = star + 1;
        star_text += next(text.substr(star_text)).length;
        t = star_text;
    }
    while (g < glob.size() && glob[g] == '*') ++g;
    return g == glob.size();
}

std::string label_of(const SeenFunction& function) { return fmt::format("{} ({})", function.name, function.file_short); }

Result<WatchName> WatchName::parse(std::string_view text) {
    constexpr const char* kForms = "use function, Class.method, module:function, file.py:function or a glob such as 'Page.*'";
    const std::size_t colon = text.rfind(':');
    const std::string_view where = colon == std::string_view::npos ? std::string_view() : text.substr(0, colon);
    const std::string_view function = colon == std::string_view::npos ? text : text.substr(colon + 1);
    if (text.size() > kLongestName) return fail(ExitCode::kUsage, "a name of more than 1024 bytes", kForms);
    if (function.empty() || (colon != std::string_view::npos && where.empty())) {
        return fail(ExitCode::kUsage, fmt::format("'{}' is no name of a function", text), kForms);
    }
    WatchName name;
    name.text_ = text;
    name.function_ = function;
    name.glob_function_ = is_glob(function);
    name.glob_place_ = is_glob(where);
    const bool is_file = where.find('/') != std::string_view::npos || ends_in(where, ".py") || ends_in(where, ".pyw") ||
                         (!where.empty() && where.front() == '<');
    name.place_ = where.empty() ? Place::kAnywhere : is_file ? Place::kFile : Place::kModule;
    name.where_ = name.place_ == Place::kModule ? with_slashes(where) : std::string(where);
    return name;
}

bool WatchName::matches_name(std::string_view name) const {
    if (!glob_function_) return is_tail(name, function_, '.');
    if (matches_glob(function_, name)) return true;
    return function_.find('.') == std::string::npos && matches_glob(function_, last_part(name));
}

bool WatchName::matches_place(std::string_view file) const {
    if (place_ == Place::kAnywhere) return true;
    if (place_ == Place::kFile) return glob_place_ ? glob_tail(where_, file) : is_tail(file, where_, '/');
    const std::string path = module_path(file);
    return glob_place_ ? glob_tail(where_, path) : is_tail(path, where_, '/');
}

bool WatchName::matches(const SeenFunction& function) const {
    return matches_name(function.name) && matches_place(function.file);
}

// Optimal string alignment; three rows are enough.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
    const std::size_t longer = std::max(a.size(), b.size());
    const std::size_t shorter = std::min(a.size(), b.size());
    if (longer - shorter > limit) return limit + 1;
    std::array<std::vector<std::size_t>, 3> rows;
    for (auto& row : rows) row.resize(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::vector<std::size_t>& row = rows[i % 3];
        const std::vector<std::size_t>& above = rows[(i + 2) % 3];
        const std::vector<std::size_t>& above_that = rows[(i + 1) % 3];
        row[0] = i;
        std::size_t least = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
            row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + change});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], above_that[j - 2] + 1);
            least = std::min(least, row[j]);
        }
        if (least > limit) return limit + 1;
    }
    return std::min(rows[a.size() % 3][b.size()], limit + 1);
}

std::vector<const SeenFunction*> near_misses(const WatchName& name, const std::vector<SeenFunction>& seen) {
    const std::string whole = lower(name.function());
    const std::string part(last_part(whole));
    if (whole.size() > kLongestCompared || part.empty()) return {};
    const std::size_t limit = std::max<std::size_t>(1, part.size() / 3);
    std::vector<std::pair<std::size_t, const SeenFunction*>> found;
    for (std::size_t i = 0; i < std::min(seen.size(), kMostCompared); ++i) {
        const std::string_view candidate = seen[i].name;
        if (candidate.size() > kLongestCompared) continue;
        const std::string low = lower(candidate);
        // The last part alone tells less, so it comes after an equally near whole name.
        const std::size_t of_whole = 2 * edit_distance(whole, low, limit);
        const std::size_t of_part = 2 * edit_distance(part, last_part(low), limit) + 1;
        const std::size_t distance = std::min(of_whole, of_part);
        if (distance <= 2 * limit + 1 && distance / 2 <= limit) found.emplace_back(distance, &seen[i]);
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
        return std::pair(a.first, std::string_view(a.second->name)) < std::pair(b.first, std::string_view(b.second->name));
    });
    std::vector<const SeenFunction*> nearest;
    for (const auto& [distance, function] : found) {
        if (nearest.size() == kMostSuggestions) break;
        nearest.push_back(function);
    }
    return nearest;
}

}  // namespace pyprof
