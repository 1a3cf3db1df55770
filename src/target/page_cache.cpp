// SPDX-License-Identifier: Apache-2.0
//
// One process_vm_readv of a hundred pages in runs costs what ten of a word do (docs/how-it-works.md), so whole
// pages are copied, and those that neighbour each other as one range.
#include "target/page_cache.h"

#include <algorithm>
#include <cstring>

namespace pyprof {

namespace {

constexpr std::uint32_t kKeepLooks = 16;          // a page not used for so many looks is dropped
constexpr std::size_t kMostPages = 1U << 14;      // 64 MiB, twice
constexpr std::size_t kMostPagesOfRun = 256;

}  // namespace

std::uint32_t PageCache::find(std::uint64_t number) const {
    if (number == hint_number_) return hint_;
    const auto found = by_number_.find(number);
    if (found == by_number_.end()) return kNoPage;
    hint_number_ = number;
    hint_ = found->second;
    return hint_;
}

void PageCache::keep_used_pages() {
    std::erase_if(pages_, [&](const Page& page) { return page.is_bad || look_ - page.last_used > kKeepLooks; });
    std::sort(pages_.begin(), pages_.end(), [](const Page& a, const Page& b) { return a.number < b.number; });
    by_number_.clear();
    hint_number_ = ~0ULL;
    for (std::uint32_t i = 0; i < pages_.size(); ++i) {
        pages_[i].is_double = false;
        by_number_[pages_[i].number] = i;
    }
    first_.resize(std::max(first_.size(), pages_.size() * kPageSize));
    second_.resize(first_.size());
}

// Copies pages [first_page, first_page + count), which stand in ascending order. A run in which a page is gone
// is marked as bad whole: its pages are read one by one when somebody asks for them.
void PageCache::fill(std::size_t first_page, std::size_t count, bool twice) {
    struct Run {
        std::size_t page, pages;
    };
    std::vector<Run> runs;
    for (std::size_t i = first_page; i < first_page + count; ++i) {
        const bool joins = !runs.empty() && runs.back().pages < kMostPagesOfRun &&
                           pages_[i].number == pages_[i - 1].number + 1;
        if (joins) {
            ++runs.back().pages;
        } else {
            runs.push_back({i, 1});
        }
    }
    ranges_.clear();
    for (std::vector<std::byte>* arena : {&first_, &second_}) {
        if (arena == &second_ && !twice) break;
        for (const Run& run : runs) {
            ranges_.push_back({Address{pages_[run.page].number * kPageSize}, slot(*arena, run.page, run.pages)});
        }
    }
    for (std::size_t i = first_page; i < first_page + count; ++i) {
        pages_[i].is_bad = false;
        pages_[i].is_double = twice;
        pages_[i].moment = moment_;
    }
    std::size_t done = 0;
    while (done < ranges_.size()) {
        const ReadOutcome outcome = behind_.read(std::span(ranges_).subspan(done));
        done += outcome.complete;
        if (done == ranges_.size()) break;
        const Run& bad = runs[done % runs.size()];
        for (std::size_t i = bad.page; i < bad.page + bad.pages; ++i) pages_[i].is_bad = true;
        ++done;
        if (outcome.fault == ReadFault::kUnmapped) continue;
        for (std::size_t i = first_page; i < first_page + count; ++i) pages_[i].is_bad = true;
        break;
    }
}

void PageCache::begin_look(bool twice) {
    ++look_;
    stop_log();
    log_.clear();
    keep_used_pages();
    look_moment_ = ++moment_;
    fill(0, pages_.size(), twice);
}

// A page that the look did not hold: one copy of it.
std::uint32_t PageCache::fetch(std::uint64_t number) {
    std::uint32_t index = find(number);
    if (index == kNoPage) {
        if (pages_.size() >= kMostPages) return kNoPage;
        index = static_cast<std::uint32_t>(pages_.size());
        pages_.push_back({number, look_, false, false});
        by_number_[number] = index;
        if (first_.size() < pages_.size() * kPageSize) {
            first_.resize(std::max(first_.size() * 2, std::size_t{64} * kPageSize));
            second_.resize(first_.size());
        }
    }
    Page& page = pages_[index];
    page.is_double = false;
    page.is_bad = !read_bytes(behind_, Address{number * kPageSize}, slot(first_, index, 1));
    return page.is_bad ? kNoPage : index;
}

bool PageCache::copy(Address from, std::span<std::byte> to) {
    if (raw(from) + to.size() < raw(from)) return false;
    std::size_t done = 0;
    while (done < to.size()) {
        const Address at = from + done;
        const std::uint64_t number = raw(at) / kPageSize;
        const std::uint64_t offset = raw(at) % kPageSize;
        const std::size_t bytes = std::min<std::size_t>(to.size() - done, kPageSize - offset);
        std::uint32_t index = find(number);
        if (index == kNoPage || pages_[index].is_bad) index = fetch(number);
        // Pages can be had whole, but memory that was recorded in pieces, or too much of it, is passed on.
        if (index == kNoPage) return read_bytes(behind_, at, to.subspan(done));
        pages_[index].last_used = look_;
        std::memcpy(to.data() + done, first_.data() + index * kPageSize + offset, bytes);
        done += bytes;
    }
    return true;
}

ReadOutcome PageCache::read(std::span<const ReadRange> ranges) {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        if (is_logging_) log_.push_back({ranges[i].from, static_cast<std::uint32_t>(ranges[i].to.size())});
        if (!copy(ranges[i].from, ranges[i].to)) return {i, ReadFault::kUnmapped};
    }
    return {ranges.size(), ReadFault::kNone};
}

PageCache::Agreement PageCache::check_log() const {
    Agreement agreement = Agreement::kEqual;
    std::uint32_t moment = 0;  // of the first page
    for (const Logged& logged : log_) {
        std::uint64_t at = raw(logged.from);
        std::uint64_t left = logged.bytes;
        while (left > 0) {
            const std::uint64_t offset = at % kPageSize;
            const std::uint64_t bytes = std::min(left, kPageSize - offset);
            const std::uint32_t index = find(at / kPageSize);
            if (index == kNoPage || pages_[index].is_bad || !pages_[index].is_double) {
                agreement = Agreement::kPartial;
            } else if (moment != 0 && pages_[index].moment != moment) {
                agreement = Agreement::kPartial;  // each stood there, but not all at once
            } else if (const std::size_t place = index * kPageSize + offset;
                       std::memcmp(first_.data() + place, second_.data() + place, bytes) != 0) {
                return Agreement::kChanged;
            }
            if (index != kNoPage && moment == 0) moment = pages_[index].moment;
            at += bytes;
            left -= bytes;
        }
    }
    return agreement;
}

bool PageCache::is_log_of_look() const {
    for (const Logged& logged : log_) {
        const std::uint64_t last = raw(logged.from) + std::max(logged.bytes, 1U) - 1;
        for (std::uint64_t number = raw(logged.from) / kPageSize; number <= last / kPageSize; ++number) {
            const std::uint32_t index = find(number);
            if (index == kNoPage || pages_[index].moment != look_moment_) return false;
        }
    }
    return true;
}

void PageCache::copy_log_again() {
    std::vector<std::uint64_t> numbers;
    for (const Logged& logged : log_) {
        for (std::uint64_t number = raw(logged.from) / kPageSize;
             number <= (raw(logged.from) + std::max(logged.bytes, 1U) - 1) / kPageSize; ++number) {
            numbers.push_back(number);
        }
    }
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    std::vector<std::uint32_t> places;
    for (const std::uint64_t number : numbers) {
        if (const std::uint32_t index = find(number); index != kNoPage) places.push_back(index);
    }
    ranges_.clear();
    for (std::vector<std::byte>* arena : {&first_, &second_}) {
        for (const std::uint32_t place : places) {
            ranges_.push_back({Address{pages_[place].number * kPageSize}, slot(*arena, place, 1)});
        }
    }
    ++moment_;
    const std::size_t complete = behind_.read(ranges_).complete;
    for (std::size_t i = 0; i < places.size(); ++i) {
        pages_[places[i]].is_bad = i >= complete;
        pages_[places[i]].is_double = places.size() + i < complete;
        pages_[places[i]].moment = moment_;
    }
    log_.clear();
}

}  // namespace pyprof
