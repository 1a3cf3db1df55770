// SPDX-License-Identifier: Apache-2.0
//
// The way to the names: interpreter.imports.modules (a dict) -> "threading" -> its dict -> "_active", a
// dict of {ident: Thread} -> the attribute `_name` (CPython Lib/threading.py).
#include "python/thread_names.h"

#include "python/objects.h"

#include <algorithm>

namespace pyprof {

namespace {

constexpr std::size_t kMaxThreads = 1U << 16U;
constexpr std::size_t kMaxNameCharacters = 4096;
constexpr std::uint32_t kLongestPause = 1U << 16U;

}  // namespace

const std::string* ThreadNames::find(Memory& memory, std::uint64_t ident) {
    auto known = entries_.find(ident);
    if (known != entries_.end()) {
        Entry& entry = known.value();
        if (entry.name) return &*entry.name;
        if (entry.asks_left > 0) {
            --entry.asks_left;
            return nullptr;
        }
    }
    read_names(memory, Which::kUnnamed);
    Entry& entry = entries_[ident];
    if (entry.name) return &*entry.name;
    entry.pause = std::clamp(entry.pause * 2, 1U, kLongestPause);
    entry.asks_left = entry.pause;
    return nullptr;
}

bool ThreadNames::refresh(Memory& memory) {
    return read_names(memory, Which::kAll);
}

void ThreadNames::forget(std::uint64_t ident) {
    entries_.erase(ident);
}

bool ThreadNames::read_names(Memory& memory, Which which) {
    if (entries_.size() > kMaxThreads) entries_.clear();  // of a program whose threads come and go
    const auto active = find_active(memory);
    if (!active) return false;
    const auto threads = read_dict(memory, *layout_, *active, kMaxThreads);
    if (!threads) return false;
    std::vector<Address> keys;
    keys.reserve(threads->size());
    for (const DictEntry& entry : *threads) keys.push_back(entry.key);
    const auto idents = read_longs(memory, *layout_, keys);
    for (std::size_t i = 0; i < idents.size(); ++i) {
        if (!idents[i]) continue;
        Entry& entry = entries_[*idents[i]];
        if (which == Which::kUnnamed && entry.name) continue;
        if (auto name = read_name(memory, (*threads)[i].value)) entry.name = std::move(name);
    }
    return true;
}

std::optional<Address> ThreadNames::find_active(Memory& memory) const {
    const auto found = [](const std::optional<Address>& address) {
        return address && *address != kNullAddress;
    };
    const Address threading = find_module(memory, *layout_, interpreter_, "threading");
    if (threading == kNullAddress) return std::nullopt;
    const auto names = read_module_dict(memory, *layout_, threading);
    if (!found(names)) return std::nullopt;
    const auto active = find_in_dict(memory, *layout_, *names, "_active");
    if (!found(active)) return std::nullopt;
    return active;
}

std::optional<std::string> ThreadNames::read_name(Memory& memory, Address thread) const {
    const auto name = read_attribute(memory, *layout_, thread, "_name");
    if (!name || *name == kNullAddress) return std::nullopt;
    return read_unicode(memory, *layout_, *name, kMaxNameCharacters);
}

}  // namespace pyprof
