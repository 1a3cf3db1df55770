// SPDX-License-Identifier: Apache-2.0
//
// The formats are those of the kernel's tools/perf/Documentation: jit-interface.txt and jitdump-specification.txt.
#include "native/jit_names.h"

#include <pyprof/memory.h>

#include <algorithm>
#include <charconv>

namespace pyprof {
namespace {

constexpr std::size_t kMostRanges = std::size_t{1} << 20;
constexpr std::size_t kLongestName = 1024;
constexpr std::uint32_t kMagic = 0x4A695444;  // "JiTD"
constexpr std::size_t kHeaderSizeAt = 8;
constexpr std::size_t kSmallestHeader = 40;
constexpr std::uint32_t kCodeLoad = 0;
constexpr std::size_t kRecordHeader = 16;  // id, size, time
constexpr std::size_t kLoadHeader = 56;    // ... pid, tid, vma, code address, code size, index
constexpr std::size_t kCodeAddressAt = 32;
constexpr std::size_t kCodeSizeAt = 40;

// A number in hex and the space behind it.
std::optional<std::uint64_t> take_hex(std::string_view& line) {
    if (line.substr(0, 2) == "0x") line.remove_prefix(2);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value, 16);
    if (error != std::errc() || end == line.data() + line.size() || *end != ' ') return std::nullopt;
    line.remove_prefix(static_cast<std::size_t>(end - line.data()) + 1);
    return value;
}

}  // namespace

void JitNames::add(std::uint64_t begin, std::uint64_t size, std::string_view name) {
    if (size == 0 || size > ~begin || name.empty() || ranges_.size() >= kMostRanges) return;
    ranges_.push_back({begin, begin + size, std::string(name.substr(0, kLongestName))});
    is_sorted_ = false;
}

void JitNames::add_perf_map(std::string_view text) {
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end + 1);
        const auto start = take_hex(line);
        const auto size = start ? take_hex(line) : std::nullopt;
        if (size) add(*start, *size, line);
    }
}

std::optional<std::size_t> JitNames::jitdump_header(std::span<const std::byte> bytes) {
    if (bytes.size() < kSmallestHeader || load<std::uint32_t>(bytes.data(), 0) != kMagic) return std::nullopt;
    const std::size_t size = load<std::uint32_t>(bytes.data(), kHeaderSizeAt);
    if (size < kSmallestHeader || size > bytes.size()) return std::nullopt;
    return size;
}

void JitNames::add_jitdump(std::span<const std::byte> bytes) {
    if (const auto header = jitdump_header(bytes)) add_jitdump_records(bytes.subspan(*header));
}

std::optional<std::size_t> JitNames::add_jitdump_records(std::span<const std::byte> bytes) {
    std::size_t at = 0;
    while (bytes.size() - at >= kRecordHeader) {
        const std::byte* record = bytes.data() + at;
        const std::size_t size = load<std::uint32_t>(record, 4);
        if (size < kRecordHeader) return std::nullopt;
        if (size > bytes.size() - at) break;  // it is being written
        if (load<std::uint32_t>(record, 0) == kCodeLoad && size > kLoadHeader) {
            std::string name;
            for (std::size_t i = kLoadHeader; i < size && name.size() < kLongestName && record[i] != std::byte{0}; ++i) {
                name += static_cast<char>(record[i]);
            }
            add(load<std::uint64_t>(record, kCodeAddressAt), load<std::uint64_t>(record, kCodeSizeAt), name);
        }
        at += size;
    }
    return at;
}

// Later ones win: of equal starts the last stays, and find() takes the nearest start.
void JitNames::sort() {
    std::reverse(ranges_.begin(), ranges_.end());
    std::stable_sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    const auto last = std::unique(ranges_.begin(), ranges_.end(),
                                  [](const Range& a, const Range& b) { return a.begin == b.begin; });
    ranges_.erase(last, ranges_.end());
    is_sorted_ = true;
}

std::optional<std::string_view> JitNames::find(Address address) {
    if (!is_sorted_) sort();
    auto above = std::upper_bound(ranges_.begin(), ranges_.end(), raw(address),
                                  [](std::uint64_t value, const Range& range) { return value < range.begin; });
    if (above == ranges_.begin()) return std::nullopt;
    --above;
    if (raw(address) >= above->end) return std::nullopt;
    return above->name;
}

}  // namespace pyprof
