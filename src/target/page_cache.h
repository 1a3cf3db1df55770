// SPDX-License-Identifier: Apache-2.0
//
// A Memory over another one for those who look at the same thousand small objects again and again: it holds
// the pages that the last looks needed and copies all of them at the beginning of a look, in as few calls as
// possible. Each page is copied twice, every first copy before every second: bytes that are equal in both
// stood there, all at once, between the two (unless they changed and changed back in that time). Where the
// target keeps a counter that moves with every change, nothing is copied twice: the counter is read before and
// after the pages, in the same call, and what was copied while it stood still is of one moment.
#pragma once

#include <pyprof/memory.h>

#include <tsl/robin_map.h>

#include <array>
#include <cstdint>
#include <vector>

namespace pyprof {

class PageCache final : public Memory {
public:
    static constexpr std::uint64_t kPageSize = 4096;

    explicit PageCache(Memory& behind) : behind_(behind) {}

    // What was copied before is forgotten; the pages that recent looks used are copied anew. `twice`: see above;
    // without it check_log() has nothing to compare.
    void begin_look(bool twice) {
        arrange_look();
        copy_look(twice);
    }
    // The two halves of it, for whoever holds a thread while it copies.
    void arrange_look();
    void copy_look(bool twice) { fill(twice); }
    // The same for these pages alone (ascending, each once); all others are forgotten.
    void begin_part(std::span<const std::uint64_t> pages);

    // Counters of eight bytes, read around the pages by begin_look() and begin_part().
    void watch(std::span<const Address> counters);
    // Whether a counter was the same before and after the last copying.
    [[nodiscard]] bool stood_still(std::size_t counter) const {
        return counters_are_read_ && before_[counter] == after_[counter];
    }
    [[nodiscard]] std::uint64_t counted(std::size_t counter) const { return before_[counter]; }

    // From the first copies. A page that is not there is read at once and belongs to the next look.
    [[nodiscard]] ReadOutcome read(std::span<const ReadRange> ranges) override;
    [[nodiscard]] ReadCounters counters() const override { return behind_.counters(); }

    // Begins a list of what is read from here on.
    void start_log() {
        log_.clear();
        is_logging_ = true;
    }
    void stop_log() { is_logging_ = false; }
    enum class Agreement : std::uint8_t {
        kEqual,    // all bytes of the log are equal in both copies
        kChanged,  // some are not
        kPartial,  // some were copied once only, or not at the same moment as others
    };
    [[nodiscard]] Agreement check_log() const;
    // Whether the pages of the log are those of the look's beginning, none of them copied anew since.
    [[nodiscard]] bool is_log_of_look() const;
    // Appends the pages of the log; some more than once.
    void add_log_pages(std::vector<std::uint64_t>& pages) const;
    // Copies the pages of the log anew, twice, in one call; whoever reads again sees those.
    void copy_log_again();

    [[nodiscard]] std::size_t page_count() const { return pages_.size(); }

private:
    struct Page {
        std::uint64_t number = 0;     // address / kPageSize
        std::uint32_t last_used = 0;  // look
        std::uint32_t moment = 0;     // at which it was copied twice: pages of one moment belong together
        bool is_double = false;
        bool is_bad = false;          // found unreadable in this look
    };
    struct Logged {
        Address from{};
        std::uint32_t bytes = 0;
    };
    struct MixHash {
        std::size_t operator()(std::uint64_t number) const {
            return static_cast<std::size_t>((number * 0x9E3779B97F4A7C15ULL) >> 20U);
        }
    };
    struct Run {  // of pages that neighbour each other
        std::size_t page, pages;
    };
    static constexpr std::uint32_t kNoPage = ~0U;
    static constexpr std::size_t kHints = 64;

    [[nodiscard]] std::uint32_t find(std::uint64_t number) const;
    std::uint32_t fetch(std::uint64_t number);
    bool copy(Address from, std::span<std::byte> to);
    void keep_used_pages();
    void place_pages();
    void forget_hints();
    void find_runs();
    void fill(bool twice);
    void read_ranges(bool twice);
    [[nodiscard]] std::span<std::byte> slot(std::vector<std::byte>& arena, std::size_t page, std::size_t count) {
        return std::span(arena).subspan(page * kPageSize, count * kPageSize);
    }

    Memory& behind_;
    std::vector<Page> pages_;  // a page's place here is its place in the arenas
    std::vector<std::byte> first_;
    std::vector<std::byte> second_;
    tsl::robin_map<std::uint64_t, std::uint32_t, MixHash> by_number_;
    struct Hint {
        std::uint64_t number = ~0ULL;
        std::uint32_t index = kNoPage;
    };
    mutable std::array<Hint, kHints> hints_{};  // by the number's last bits: most reads hit the same few pages
    std::uint32_t look_ = 0;
    std::uint32_t moment_ = 0;       // of the last copy
    std::uint32_t look_moment_ = 0;  // of the look's beginning
    bool is_logging_ = false;
    std::vector<Logged> log_;
    std::vector<ReadRange> ranges_;
    std::vector<Run> runs_;
    std::vector<Address> counters_;
    std::vector<std::uint64_t> before_, after_;  // the counters around the last copying
    bool counters_are_read_ = false;
};

}  // namespace pyprof
