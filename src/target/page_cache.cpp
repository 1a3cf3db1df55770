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
    Hint& hint = hints_[number % kHints];
    if (hint.number == number) return hint.index;
    const auto found = by_number_.find(number);
    if (found == by_number_.end()) return kNoPage;
    hint = {number, found->second};
    return found->second;
}

void PageCache::forget_hints() { hints_.fill(Hint{}); }

void PageCache::keep_used_pages() {
    const auto is_useless = [&](const Page& page) { return page.is_bad || look_ - page.last_used > kKeepLooks; };
    std::erase_if(pages_, is_useless);
    std::sort(pages_.begin(), pages_.end(), [](const Page& a, const Page& b) { return a.number < b.number; });
}

// After pages_ was put in order.
void PageCache::place_pages() {
    by_number_.clear();
    forget_hints();
    for (std::uint32_t i = 0; i < pages_.size(); ++i) by_number_[pages_[i].number] = i;
    if (first_.size() < pages_.size() * kPageSize) first_.resize(pages_.size() * kPageSize);
}

void PageCache::find_runs() {
    runs_.clear();
    for (std::size_t i = 0; i < pages_.size(); ++i) {
        const bool joins = !runs_.empty() && runs_.back().pages < kMostPagesOfRun &&
                           pages_[i].number == pages_[i - 1].number + 1;
        if (joins) {
            ++runs_.back().pages;
        } else {
            runs_.push_back({i, 1});
        }
    }
}

// Copies all pages, which stand in ascending order, between two readings of the counters.
void PageCache::fill(bool twice) {
    find_runs();
    if (twice && second_.size() < first_.size()) second_.resize(first_.size());
    ranges_.clear();
    const auto add_counters = [&](std::vector<std::uint64_t>& values) {
        for (std::size_t i = 0; i < counters_.size(); ++i) {
            ranges_.push_back({counters_[i], std::as_writable_bytes(std::span(values).subspan(i, 1))});
        }
    };
    add_counters(before_);
    for (std::vector<std::byte>* arena : {&first_, &second_}) {
        if (arena == &second_ && !twice) break;
        for (const Run& run : runs_) {
            ranges_.push_back({Address{pages_[run.page].number * kPageSize}, slot(*arena, run.page, run.pages)});
        }
    }
    add_counters(after_);
    for (Page& page : pages_) {
        page.is_bad = false;
        page.is_double = twice;
        page.moment = moment_;
    }
    read_ranges(twice);
}

// A run in which a page is gone is marked as bad whole: its pages are read one by one when somebody asks for them.
void PageCache::read_ranges(bool twice) {
    const std::size_t first_run = counters_.size();
    const std::size_t end_of_runs = first_run + runs_.size() * (twice ? 2 : 1);
    counters_are_read_ = true;
    std::size_t done = 0;
    while (done < ranges_.size()) {
        const ReadOutcome outcome = behind_.read(std::span(ranges_).subspan(done));
        done += outcome.complete;
        if (done == ranges_.size()) break;
        if (done < first_run || done >= end_of_runs) {
            counters_are_read_ = false;
        } else {
            const Run& bad = runs_[(done - first_run) % runs_.size()];
            for (std::size_t i = bad.page; i < bad.page + bad.pages; ++i) pages_[i].is_bad = true;
        }
        ++done;
        if (outcome.fault == ReadFault::kUnmapped) continue;
        for (Page& page : pages_) page.is_bad = true;
        counters_are_read_ = false;
        break;
    }
}

void PageCache::watch(std::span<const Address> counters) {
    counters_.assign(counters.begin(), counters.end());
    before_.assign(counters.size(), 0);
    after_.assign(counters.size(), 0);
    counters_are_read_ = false;
}

void PageCache::arrange_look() {
    ++look_;
    stop_log();
    log_.clear();
    keep_used_pages();
    place_pages();
    look_moment_ = ++moment_;
}

void PageCache::begin_part(std::span<const std::uint64_t> pages) {
    ++look_;
    stop_log();
    log_.clear();
    pages_.clear();
    for (const std::uint64_t number : pages.first(std::min(pages.size(), kMostPages))) {
        Page page;
        page.number = number;
        page.last_used = look_;
        pages_.push_back(page);
    }
    place_pages();
    look_moment_ = ++moment_;
    fill(false);
}

// A page that the look did not hold: one copy of it.
std::uint32_t PageCache::fetch(std::uint64_t number) {
    std::uint32_t index = find(number);
    if (index == kNoPage) {
        if (pages_.size() >= kMostPages) return kNoPage;
        index = static_cast<std::uint32_t>(pages_.size());
        Page fresh;
        fresh.number = number;
        fresh.last_used = look_;
        pages_.push_back(fresh);
        by_number_[number] = index;
        if (first_.size() < pages_.size() * kPageSize) {
            first_.resize(std::max(first_.size() * 2, std::size_t{64} * kPageSize));
        }
    }
    Page& page = pages_[index];
    page.is_double = false;
    page.is_bad = !read_bytes(behind_, Address{number * kPageSize}, slot(first_, index, 1));
    // Its bytes are of no other page's moment; that it has none holds for longer.
    page.moment = page.is_bad ? look_moment_ : 0;
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
        if (ranges[i].to.empty()) continue;  // as of an empty list, whose items may stand nowhere
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
        const std::uint64_t last = raw(logged.from) + logged.bytes - 1;
        for (std::uint64_t number = raw(logged.from) / kPageSize; number <= last / kPageSize; ++number) {
            const std::uint32_t index = find(number);
            if (index == kNoPage || pages_[index].moment != look_moment_) return false;
        }
    }
    return true;
}

void PageCache::add_log_pages(std::vector<std::uint64_t>& pages) const {
    for (const Logged& logged : log_) {
        const std::uint64_t last = (raw(logged.from) + logged.bytes - 1) / kPageSize;
        for (std::uint64_t number = raw(logged.from) / kPageSize; number <= last; ++number) {
            const std::uint32_t index = find(number);
            const bool can_be_copied = index != kNoPage && !pages_[index].is_bad;
            if (can_be_copied && (pages.empty() || pages.back() != number)) pages.push_back(number);
        }
    }
}

void PageCache::copy_log_again() {
    std::vector<std::uint64_t> numbers;
    for (const Logged& logged : log_) {
        for (std::uint64_t number = raw(logged.from) / kPageSize;
             number <= (raw(logged.from) + logged.bytes - 1) / kPageSize; ++number) {
            numbers.push_back(number);
        }
    }
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    std::vector<std::uint32_t> places;
    for (const std::uint64_t number : numbers) {
        if (const std::uint32_t index = find(number); index != kNoPage) places.push_back(index);
    }
    if (second_.size() < first_.size()) second_.resize(first_.size());
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
