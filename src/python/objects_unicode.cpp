// SPDX-License-Identifier: Apache-2.0
//
// str objects (CPython Include/cpython/unicodeobject.h): compact ones, whose characters follow the
// header in one, two or four bytes each. Out comes UTF-8.
#include "python/objects.h"
#include "python/objects_copy.h"

namespace pyprof {

namespace {

constexpr char32_t kLastCodePoint = 0x10ffff;
constexpr std::string_view kCutMarker = "\xe2\x80\xa6";  // "…"

struct StringState {
    unsigned kind = 0;
    bool is_compact = false;
    bool is_ascii = false;
};

// struct { interned:2; kind:3; compact:1; ascii:1; ... }; interned is a byte of its own in free-threaded
// builds from 3.14 on. The bits above are used otherwise in some versions.
StringState parse_state(std::uint32_t word, bool wide_interned) {
    const std::uint32_t bits = word >> (wide_interned ? 8U : 2U);
    return {bits & 7U, (bits >> 3U & 1U) != 0, (bits >> 4U & 1U) != 0};
}

void append_utf8(std::string& text, char32_t c) {
    const auto tail = [&](unsigned shift) {
        text.push_back(static_cast<char>(0x80U | (c >> shift & 0x3fU)));
    };
    if (c < 0x80) {
        text.push_back(static_cast<char>(c));
    } else if (c < 0x800) {
        text.push_back(static_cast<char>(0xc0U | c >> 6U));
        tail(0);
    } else if (c < 0x10000) {
        text.push_back(static_cast<char>(0xe0U | c >> 12U));
        tail(6);
        tail(0);
    } else {
        text.push_back(static_cast<char>(0xf0U | c >> 18U));
        tail(12);
        tail(6);
        tail(0);
    }
}

// False where a character can't be one.
template <class Character>
bool append_characters(std::string& text, std::span<const std::byte> data, char32_t highest) {
    for (std::size_t i = 0; i + sizeof(Character) <= data.size(); i += sizeof(Character)) {
        const char32_t c = load<Character>(data.data(), i);
        if (c > highest) return false;
        append_utf8(text, c);
    }
    return true;
}

bool append_kind(std::string& text, std::span<const std::byte> data, const StringState& state) {
    switch (state.kind) {
        case 1:
            return append_characters<std::uint8_t>(text, data, state.is_ascii ? 0x7f : 0xff);
        case 2:
            return append_characters<std::uint16_t>(text, data, 0xffff);
        default:
            return append_characters<std::uint32_t>(text, data, kLastCodePoint);
    }
}

}  // namespace

std::optional<std::string> read_unicode(Memory& memory, const Layout& layout, Address object,
                                        std::size_t max_characters) {
    const Layout::Unicode& unicode = layout.unicode;
    ObjectCopy copy;
    if (!copy.read(memory, object, static_cast<std::size_t>(unicode.ascii_data))) return std::nullopt;
    const auto length = copy.field<std::uint64_t>(unicode.length);
    const StringState state = parse_state(copy.field<std::uint32_t>(unicode.state), unicode.wide_interned);
    const bool is_kind = state.kind == 1 || state.kind == 2 || state.kind == 4;
    if (!state.is_compact || !is_kind || (state.is_ascii && state.kind != 1)) return std::nullopt;
    // No str is longer than the address space; a longer one is torn, not to be cut.
    constexpr std::uint64_t kMaxLength = std::uint64_t{1} << 47U;
    if (length > kMaxLength) return std::nullopt;

    const std::size_t shown = std::min<std::uint64_t>(length, max_characters);
    const auto start = static_cast<std::size_t>(state.is_ascii ? unicode.ascii_data : unicode.compact_data);
    std::vector<std::byte> data(shown * state.kind);
    if (!copy.copy_to(memory, start, data)) return std::nullopt;
    std::string text;
    text.reserve(data.size() + kCutMarker.size());
    if (!append_kind(text, data, state)) return std::nullopt;
    if (shown < length) text += kCutMarker;
    return text;
}

}  // namespace pyprof
