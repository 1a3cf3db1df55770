// SPDX-License-Identifier: Apache-2.0
//
// Pages with a bit for each byte; ranges that run past the last address do not exist.
#include "target/page_store.h"

#include <algorithm>
#include <limits>

namespace pyprof {
namespace {

bool wraps(Address from, std::size_t size) {
    return size > std::numeric_limits<std::uint64_t>::max() - raw(from);
}

}  // namespace

bool PageStore::add(Address from, std::span<const std::byte> bytes) {
    if (wraps(from, bytes.size())) return false;
    for (std::uint64_t at = raw(from); !bytes.empty();) {
        const std::uint64_t inside = at % kPageSize;
        const auto count =
            static_cast<std::size_t>(std::min<std::uint64_t>(kPageSize - inside, bytes.size()));
        auto found = pages_.find(at / kPageSize);
        if (found == pages_.end()) {
            if (pages_.size() >= kMostPages) return false;
            found = pages_.emplace(at / kPageSize, std::make_unique<Page>()).first;
        }
        Page& page = *found->second;
        std::copy_n(bytes.begin(), count, page.bytes.begin() + static_cast<std::ptrdiff_t>(inside));
        for (std::size_t i = 0; i < count; ++i) page.is_known.set(static_cast<std::size_t>(inside) + i);
        bytes = bytes.subspan(count);
        at += count;
    }
    return true;
}

bool PageStore::read(Address from, std::span<std::byte> to) const {
    if (wraps(from, to.size())) return false;
    for (std::uint64_t at = raw(from); !to.empty();) {
        const auto inside = static_cast<std::size_t>(at % kPageSize);
        const std::size_t count = std::min<std::size_t>(kPageSize - inside, to.size());
        const auto found = pages_.find(at / kPageSize);
        if (found == pages_.end()) return false;
        const Page& page = *found->second;
        for (std::size_t i = inside; i < inside + count; ++i) {
            if (!page.is_known.test(i)) return false;
        }
        std::copy_n(page.bytes.begin() + static_cast<std::ptrdiff_t>(inside), count, to.begin());
        to = to.subspan(count);
        at += count;
    }
    return true;
}

void PageStore::for_each_run(const std::function<void(Address, std::span<const std::byte>)>& visit) const {
    for (const auto& [number, page] : pages_) {
        for (std::size_t start = 0; start < kPageSize;) {
            if (!page->is_known.test(start)) {
                ++start;
                continue;
            }
            std::size_t end = start;
            while (end < kPageSize && page->is_known.test(end)) ++end;
            visit(Address{number * kPageSize + start}, std::span(page->bytes).subspan(start, end - start));
            start = end;
        }
    }
}

}  // namespace pyprof
