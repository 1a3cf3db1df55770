// SPDX-License-Identifier: Apache-2.0
#include "python/task_names.h"

#include "python/objects.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace pyprof {

namespace {

constexpr std::size_t kMostKnown = 1U << 16;
constexpr std::size_t kMostCharacters = 512;

// N of "Task-N", as asyncio numbers tasks without a name.
std::optional<std::uint64_t> default_number(std::string_view text) {
    constexpr std::string_view kPrefix = "Task-";
    if (!text.starts_with(kPrefix)) return std::nullopt;
    text.remove_prefix(kPrefix.size());
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
}

}  // namespace

TaskName TaskNames::read_name(Memory& memory, Address object, bool is_int) {
    return read_name(memory, object, is_int, true);
}

TaskName TaskNames::read_name(Memory& memory, Address object, bool is_int, bool may_be_default) {
    TaskName name;
    if (raw(object) < 4096) return name;
    if (is_int) {
        name.number = read_long(memory, *layout_, object).value_or(0);
        return name;
    }
    const Layout::Unicode& unicode = layout_->unicode;
    const Address begin = object + at(unicode.length);
    const auto length = read_value<std::uint64_t>(memory, begin);
    if (!length) return name;
    const std::size_t head = at(unicode.ascii_data) - at(unicode.length);
    std::array<std::byte, kStampBytes> stamp{};
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(kStampBytes, head + std::min<std::uint64_t>(*length, kStampBytes)));
    if (!read_bytes(memory, begin, std::span(stamp).first(bytes))) return name;
    const auto known = known_.find(raw(object));
    if (known != known_.end() && known->second.bytes == bytes && known->second.stamp == stamp &&
        known->second.may_be_default == may_be_default) {
        return known->second.name;
    }
    const auto text = read_unicode(memory, *layout_, object, kMostCharacters);
    if (!text) return name;
    const auto number = may_be_default ? default_number(*text) : std::nullopt;
    if (number) {
        name.number = *number;
    } else {
        name.given = stacks_->intern_string(*text);
    }
    if (known_.size() >= kMostKnown) known_.clear();
    known_[raw(object)] = {stamp, bytes, name, may_be_default};
    return name;
}

}  // namespace pyprof
