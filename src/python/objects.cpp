// SPDX-License-Identifier: Apache-2.0
//
// Readers of the simple objects: bytes, tuple, int, type, module. Strings, dicts and attributes stand in
// files of their own.
#include "python/objects.h"

#include "python/object_kinds.h"

#include "python/objects_copy.h"

#include <array>

namespace pyprof {

namespace {

constexpr std::size_t kMaxTypeNameBytes = 512;
constexpr std::size_t kPageSize = 4096;
constexpr unsigned kDigitBits = 30;    // longintrepr.h on 64-bit builds
constexpr std::size_t kMaxDigits = 3;  // 64 bits and a little

struct IntegerHead {
    bool is_negative = false;
    std::uint64_t digit_count = 0;
};

IntegerHead parse_head(std::uint64_t tag, bool tagged) {
    if (tagged) return {(tag & 3U) == 2, tag >> 3U};
    const bool is_negative = static_cast<std::int64_t>(tag) < 0;
    return {is_negative, is_negative ? ~tag + 1 : tag};
}

using Digits = std::array<std::uint32_t, kMaxDigits>;

// Nothing when it is no 64-bit value, or no digit of 30 bits.
std::optional<std::uint64_t> value_of(const IntegerHead& head, const Digits& digits) {
    constexpr std::uint32_t kDigitMask = (1U << kDigitBits) - 1;
    constexpr std::uint64_t kMostNegative = std::uint64_t{1} << 63U;
    if (digits[0] > kDigitMask || digits[1] > kDigitMask || digits[2] >> (64 - 2 * kDigitBits) != 0)
        return std::nullopt;
    const std::uint64_t magnitude =
        std::uint64_t{digits[2]} << (2 * kDigitBits) | std::uint64_t{digits[1]} << kDigitBits | digits[0];
    if (head.is_negative && magnitude > kMostNegative) return std::nullopt;
    return head.is_negative ? ~magnitude + 1 : magnitude;
}

// Bytes up to the terminating zero; no read reaches beyond a page that it need not touch.
std::optional<std::string> read_c_string(Memory& memory, Address from) {
    std::string text;
    std::array<std::byte, 128> piece;
    while (text.size() < kMaxTypeNameBytes) {
        const std::size_t to_page_end = kPageSize - raw(from) % kPageSize;
        const auto wanted = std::span(piece).first(std::min(piece.size(), to_page_end));
        if (!read_bytes(memory, from, wanted)) return std::nullopt;
        for (const std::byte byte : wanted) {
            if (byte == std::byte{0}) return text;
            text.push_back(static_cast<char>(std::to_integer<unsigned char>(byte)));
        }
        from = from + wanted.size();
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::vector<std::byte>> read_bytes_object(Memory& memory, const Layout& layout, Address object,
                                                        std::size_t max_bytes) {
    ObjectCopy copy;
    if (!copy.read(memory, object, at(layout.bytes.data))) return std::nullopt;
    const auto size = copy.field<std::uint64_t>(layout.bytes.size);
    if (size > max_bytes) return std::nullopt;
    std::vector<std::byte> content(size);
    if (!copy.copy_to(memory, at(layout.bytes.data), content)) return std::nullopt;
    return content;
}

// Include/cpython/listobject.h: ob_size stands behind the header, ob_item behind it.
std::optional<std::vector<Address>> read_list(Memory& memory, const Layout& layout, Address object, std::size_t max_items) {
    const auto size = read_value<std::uint64_t>(memory, object + layout.object.header_size);
    const auto begin = read_pointer(memory, object + layout.object.header_size + 8);
    if (!size || !begin || *size > max_items) return std::nullopt;
    if (*size == 0) return std::vector<Address>();  // one that never had an item has no array
    if (!can_be_object(*begin)) return std::nullopt;
    std::vector<Address> items(static_cast<std::size_t>(*size));
    if (!read_bytes(memory, *begin, std::as_writable_bytes(std::span(items)))) return std::nullopt;
    return items;
}

std::optional<std::vector<Address>> read_tuple(Memory& memory, const Layout& layout, Address object,
                                               std::size_t max_items) {
    ObjectCopy copy;
    if (!copy.read(memory, object, at(layout.tuple.items))) return std::nullopt;
    const auto size = copy.field<std::uint64_t>(layout.tuple.size);
    if (size > max_items) return std::nullopt;
    std::vector<Address> items(size);
    if (!copy.copy_to(memory, at(layout.tuple.items), std::as_writable_bytes(std::span(items))))
        return std::nullopt;
    return items;
}

std::optional<std::uint64_t> read_long(Memory& memory, const Layout& layout, Address object) {
    ObjectCopy copy;
    if (!copy.read(memory, object, at(layout.integer.digits))) return std::nullopt;
    const IntegerHead head = parse_head(copy.field<std::uint64_t>(layout.integer.tag), layout.integer.tagged);
    if (head.digit_count > kMaxDigits) return std::nullopt;
    Digits digits{};
    const auto used = std::span(digits).first(head.digit_count);
    if (!copy.copy_to(memory, at(layout.integer.digits), std::as_writable_bytes(used))) return std::nullopt;
    return value_of(head, digits);
}

std::vector<std::optional<std::uint64_t>> read_longs(Memory& memory, const Layout& layout,
                                                     const std::vector<Address>& objects) {
    constexpr std::size_t kIntsPerRead = 256;
    constexpr std::size_t kDigitsPerInt = 2;  // an object of two digits ends where its 32 bytes do
    const auto begin = at(layout.integer.tag);
    const std::size_t digits_at = at(layout.integer.digits) - begin;
    const std::size_t size = digits_at + kDigitsPerInt * sizeof(std::uint32_t);
    std::vector<std::optional<std::uint64_t>> values;
    std::vector<std::byte> copies(std::min(objects.size(), kIntsPerRead) * size);
    std::vector<ReadRange> ranges;
    while (values.size() < objects.size()) {
        const std::size_t first = values.size();
        const std::size_t count = std::min(objects.size() - first, kIntsPerRead);
        ranges.clear();
        for (std::size_t i = 0; i < count; ++i) {
            ranges.push_back({objects[first + i] + begin, std::span(copies).subspan(i * size, size)});
        }
        const std::size_t complete = memory.read(ranges).complete;
        for (std::size_t i = 0; i < count; ++i) {
            const std::byte* copy = ranges[i].to.data();
            const IntegerHead head = parse_head(load<std::uint64_t>(copy, 0), layout.integer.tagged);
            if (i >= complete || head.digit_count > kDigitsPerInt) {
                values.push_back(read_long(memory, layout, objects[first + i]));
                continue;
            }
            Digits digits{};
            std::memcpy(digits.data(), copy + digits_at, head.digit_count * sizeof(std::uint32_t));
            values.push_back(value_of(head, digits));
        }
    }
    return values;
}

std::optional<Address> read_type(Memory& memory, const Layout& layout, Address object) {
    return read_pointer(memory, object + at(layout.object.type));
}

std::optional<std::string> type_name(Memory& memory, const Layout& layout, Address type) {
    const auto name = read_pointer(memory, type + at(layout.type.name));
    if (!name) return std::nullopt;
    return read_c_string(memory, *name);
}

Address find_module(Memory& memory, const Layout& layout, Address interpreter, std::string_view name) {
    if (!has(layout.interpreter.imports_modules)) return kNullAddress;
    const auto modules = read_pointer(memory, interpreter + at(layout.interpreter.imports_modules));
    if (!modules || !can_be_object(*modules)) return kNullAddress;
    const Address module = find_in_dict(memory, layout, *modules, name).value_or(kNullAddress);
    return can_be_object(module) ? module : kNullAddress;
}

std::optional<Address> read_module_dict(Memory& memory, const Layout& layout, Address module) {
    return read_pointer(memory, module + at(layout.module.dict));
}

}  // namespace pyprof
