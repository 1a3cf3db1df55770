// SPDX-License-Identifier: Apache-2.0
//
// struct _gc_runtime_state (Include/internal/pycore_gc.h) holds a head {next, prev} for each generation, 24 bytes apart,
// and one for what gc.freeze() set aside; how many there are and where differs from version to version. So they are told
// by what they are, words before the field `collecting` whose neighbours lead back to them. A node stands right before
// its object. Low bits are flags.
#include "python/gc_lists.h"

#include <array>

namespace pyprof {

namespace {

constexpr std::uint64_t kHeadBytes = 16;       // PyGC_Head
constexpr std::uint64_t kSearchedBytes = 512;  // before `collecting`; the lists begin 176 or fewer before it
constexpr std::size_t kMostPages = 512;
constexpr std::uint64_t kFlags = 3;
constexpr std::uint64_t kStep = 4;  // Debian's 3.13.18 keeps the heads at odd multiples of it

Address plain(std::uint64_t word) { return Address{word & ~kFlags}; }

}  // namespace

bool GcLists::is_head(Address address) {
    const auto links = read_value<std::array<std::uint64_t, 2>>(pages_, address);
    if (!links || !can_be_object(plain((*links)[0])) || !can_be_object(plain((*links)[1]))) return false;
    const auto back = read_value<std::uint64_t>(pages_, plain((*links)[0]) + 8);
    const auto forth = read_value<std::uint64_t>(pages_, plain((*links)[1]));
    return back && forth && plain(*back) == address && plain(*forth) == address;
}

void GcLists::find_heads(const InterpreterState& interpreter) {
    heads_.clear();
    of_ = interpreter.address;
    const bool is_runtimes = has(layout_->runtime.gc_collecting);
    const Offset collecting = is_runtimes ? layout_->runtime.gc_collecting : layout_->interpreter.gc_collecting;
    const Address owner = is_runtimes ? interpreter.runtime : interpreter.address;
    if (!has(collecting) || !can_be_object(owner)) return;
    const std::uint64_t end = at(collecting) & ~(kStep - 1);
    const std::uint64_t begin = end > kSearchedBytes ? end - kSearchedBytes : 0;
    for (std::uint64_t offset = begin; offset + kHeadBytes <= end; offset += kStep) {
        if (!is_head(owner + offset)) continue;
        heads_.push_back(owner + offset);
        offset += kHeadBytes - kStep;  // nothing else begins within it
    }
}

// From the newest object on, which stands at the end.
bool GcLists::walk_list(Address head, std::size_t& left, const Visit& visit) {
    Address next = head;
    Address node = plain(read_value<std::uint64_t>(pages_, head + 8).value_or(0));
    while (node != head) {
        if (left == 0 || !can_be_object(node)) return false;
        --left;
        if (pages_.page_count() > kMostPages) pages_.begin_part({});
        // {next, prev}, then the object: its reference count and its type.
        const auto words = read_value<std::array<std::uint64_t, 4>>(pages_, node);
        if (!words || plain((*words)[0]) != next) return false;
        visit(node + kHeadBytes, Address{(*words)[3]});
        next = node;
        node = plain((*words)[1]);
    }
    return true;
}

bool GcLists::walk(const InterpreterState& interpreter, std::size_t most, const Visit& visit) {
    if (layout_->free_threaded) return false;  // its containers stand in no list
    pages_.begin_part({});
    if (of_ != interpreter.address || heads_.empty()) find_heads(interpreter);
    bool is_whole = !heads_.empty();
    for (const Address head : heads_) is_whole &= walk_list(head, most, visit);
    return is_whole;
}

}  // namespace pyprof
