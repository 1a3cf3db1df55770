// SPDX-License-Identifier: Apache-2.0
//
// The shape below 3.13: interpreters.head and interpreters.main stand side by side (pycore_runtime.h), both
// point to a PyInterpreterState, and following `next`, its first word, leads from the head to main, the
// oldest, whose next is null. With one interpreter the two are equal.
#include "python/find_runtime_scan.h"

#include <algorithm>
#include <cstring>

namespace pyprof {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18;
constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kMostBytesPerMapping = std::uint64_t{64} << 20;
constexpr int kMostBadPages = 64;  // in a row: the rest of the mapping is not there either
constexpr std::size_t kMostCookies = 8;
constexpr int kMostCandidates = 4096;
constexpr int kMostInterpreters = 256;

// Offset of interpreters.head in _PyRuntime, 3.8 to 3.12.
constexpr int kFirstMinor = 8;
constexpr std::uint64_t kHeadOffset[] = {32, 32, 32, 40, 40};
constexpr int kLastMinor = kFirstMinor + static_cast<int>(std::size(kHeadOffset)) - 1;

class WritableRanges {
public:
    explicit WritableRanges(const std::vector<Mapping>& all) {
        for (const Mapping& mapping : all) {
            if (mapping.readable && mapping.writable) ranges_.push_back(mapping);
        }
    }
    [[nodiscard]] bool holds(Address address) const {
        const auto after =
            std::upper_bound(ranges_.begin(), ranges_.end(), address,
                             [](Address a, const Mapping& m) { return raw(a) < raw(m.start); });
        return after != ranges_.begin() && raw(address) < raw(std::prev(after)->end);
    }

private:
    std::vector<Mapping> ranges_;  // maps is in order of address
};

bool leads_to_main(Memory& memory, const WritableRanges& ranges, Address head, Address main) {
    Address at = head;
    for (int i = 0; i < kMostInterpreters; ++i) {
        const auto next = read_pointer(memory, at);
        if (!next) return false;
        if (at == main) return *next == kNullAddress;
        if (raw(*next) % 8 != 0 || !ranges.holds(*next)) return false;
        at = *next;
    }
    return false;
}

}  // namespace

std::vector<Mapping> data_of(const LoadedModule& module, const std::vector<Mapping>& all) {
    std::vector<Mapping> data;
    for (const Mapping& mapping : module.mappings) {
        if (!mapping.readable || !mapping.writable) continue;
        data.push_back(mapping);
        const auto behind = std::find_if(all.begin(), all.end(), [&](const Mapping& m) {
            return m.start == mapping.end && m.inode == 0 && m.readable && m.writable && m.path != "[heap]";
        });
        if (behind != all.end()) data.push_back(*behind);
    }
    return data;
}

void scan_mapping(Memory& memory, const Mapping& mapping, std::size_t overlap, const VisitBytes& visit) {
    std::vector<std::byte> buffer(kPiece);
    const std::uint64_t size = std::min(distance(mapping.start, mapping.end), kMostBytesPerMapping);
    int bad_pages = 0;
    for (std::uint64_t at = 0; at < size && bad_pages < kMostBadPages;) {
        const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, size - at));
        std::size_t got = want;
        if (!read_bytes(memory, mapping.start + at, {buffer.data(), want})) {
            // A page that can't be read hides the others of the piece: go on page by page.
            got = std::min(want, kPage);
            if (!read_bytes(memory, mapping.start + at, {buffer.data(), got})) {
                at += got;
                ++bad_pages;
                continue;
            }
        }
        bad_pages = 0;
        if (!visit(mapping.start + at, {buffer.data(), got})) return;
        at += at + got < size && got > overlap ? got - overlap : got;
    }
}

std::vector<Address> find_cookies(Memory& memory, const std::vector<Mapping>& data) {
    constexpr std::string_view kCookie = "xdebugpy";
    std::vector<Address> found;
    for (const Mapping& mapping : data) {
        scan_mapping(memory, mapping, 0, [&](Address from, std::span<const std::byte> bytes) {
            for (std::size_t at = 0; at + kCookie.size() <= bytes.size(); at += 8) {
                if (std::memcmp(bytes.data() + at, kCookie.data(), kCookie.size()) != 0) continue;
                found.push_back(from + at);
                if (found.size() >= kMostCookies) return false;
            }
            return true;
        });
    }
    return found;
}

std::optional<ScanHit> find_by_shape(Memory& memory, const std::vector<Mapping>& data,
                                     const std::vector<Mapping>& all, int minor, const FindOptions& options) {
    if (!options.probe || (minor != 0 && (minor < kFirstMinor || minor > kLastMinor))) return {};
    const WritableRanges ranges(all);
    std::optional<ScanHit> hit;
    int candidates = 0;
    const auto try_at = [&](Address place) {
        for (int each = kLastMinor; each >= kFirstMinor; --each) {
            if (minor != 0 && each != minor) continue;
            const Address runtime = place - kHeadOffset[each - kFirstMinor];
            if (options.probe(runtime, each)) hit = ScanHit{runtime, each};
            if (hit) return;
        }
    };
    for (const Mapping& mapping : data) {
        scan_mapping(memory, mapping, 8, [&](Address from, std::span<const std::byte> bytes) {
            for (std::size_t at = 0; at + 16 <= bytes.size(); at += 8) {
                const Address head{load<std::uint64_t>(bytes.data(), at)};
                const Address main{load<std::uint64_t>(bytes.data(), at + 8)};
                if (head == kNullAddress || raw(head) % 8 != 0 || raw(main) % 8 != 0) continue;
                if (!ranges.holds(head) || !ranges.holds(main)) continue;
                if (!leads_to_main(memory, ranges, head, main)) continue;
                try_at(from + at);
                if (hit || ++candidates >= kMostCandidates) return false;
            }
            return true;
        });
        if (hit || candidates >= kMostCandidates) break;
    }
    return hit;
}

}  // namespace pyprof
