// SPDX-License-Identifier: Apache-2.0
//
// Bounded readers of CPython objects in the target. Each reads a copy, checks it and gives nothing back
// where the bytes make no sense; none trusts a length, a pointer or a kind, and none follows a chain
// without an end. Types are checked only where said: the target may change between two reads.
#pragma once

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pyprof {

constexpr std::size_t kMaxStringCharacters = 4096;
constexpr std::size_t kMaxDictEntries = 1U << 18;

// A str as UTF-8. Longer than `max_characters`: cut and ended with "…". Lone surrogates become their
// three bytes, which are not valid UTF-8: whoever shows the text replaces them (StackTable does).
// The legacy strings of 3.8 to 3.11 that are not compact give nothing.
[[nodiscard]] std::optional<std::string> read_unicode(Memory& memory, const Layout& layout, Address object,
                                                      std::size_t max_characters = kMaxStringCharacters);

// The bytes of a bytes object; nothing when it is longer than `max_bytes`.
[[nodiscard]] std::optional<std::vector<std::byte>> read_bytes_object(Memory& memory, const Layout& layout,
                                                                      Address object, std::size_t max_bytes);

// The items of a list as they stand; nothing when longer than `max_items`.
[[nodiscard]] std::optional<std::vector<Address>> read_list(Memory& memory, const Layout& layout, Address object,
                                                            std::size_t max_items);

// The items of a tuple as they stand (tagged ones are not masked); nothing when longer than `max_items`.
[[nodiscard]] std::optional<std::vector<Address>> read_tuple(Memory& memory, const Layout& layout,
                                                             Address object, std::size_t max_items);

// An int whose value fits 64 bits: as two's complement; large pthread idents come out as they are.
[[nodiscard]] std::optional<std::uint64_t> read_long(Memory& memory, const Layout& layout, Address object);

// The same for many ints with few reads; one that can't be read or doesn't fit gives nothing.
[[nodiscard]] std::vector<std::optional<std::uint64_t>> read_longs(Memory& memory, const Layout& layout,
                                                                   const std::vector<Address>& objects);

// ob_type, and the tp_name of an object's type ("_MainThread", "collections.OrderedDict").
[[nodiscard]] std::optional<Address> read_type(Memory& memory, const Layout& layout, Address object);
[[nodiscard]] std::optional<std::string> type_name(Memory& memory, const Layout& layout, Address type);

struct DictEntry {
    Address key{};
    Address value{};
};
// The entries in their table's order; deleted and empty ones are left out. Whether it is a dict is not
// checked: the caller knows where it took the pointer from. Nothing where the tables make no sense.
[[nodiscard]] std::optional<std::vector<DictEntry>> read_dict(Memory& memory, const Layout& layout,
                                                              Address dict,
                                                              std::size_t max_entries = kMaxDictEntries);

// The members of a set, in the order of its table. As with dicts, whether it is one is the caller's question.
[[nodiscard]] std::optional<std::vector<Address>> read_set(Memory& memory, const Layout& layout, Address set,
                                                           std::size_t max_members = kMaxDictEntries);

// The first items of a collections.deque, as many of them as can be read.
[[nodiscard]] std::vector<Address> read_deque(Memory& memory, const Layout& layout, Address deque, std::size_t max_items);

// The value of a str key; kNullAddress when the key is not there; nothing when the dict can't be read.
[[nodiscard]] std::optional<Address> find_in_dict(Memory& memory, const Layout& layout, Address dict,
                                                  std::string_view key);

// The instance attribute `name` of an object: from its values, managed dict or __dict__, not from its
// class. kNullAddress when it has none of that name; nothing when it can't be read.
[[nodiscard]] std::optional<Address> read_attribute(Memory& memory, const Layout& layout, Address object,
                                                    std::string_view name);

// sys.modules[name] of an interpreter; null where it is not loaded or can't be read.
[[nodiscard]] Address find_module(Memory& memory, const Layout& layout, Address interpreter, std::string_view name);

// Where a code object keeps the str that it is shown by.
[[nodiscard]] inline Offset shown_name(const Layout::Code& code) { return has(code.qualname) ? code.qualname : code.name; }

// The dict of a module object (md_dict).
[[nodiscard]] std::optional<Address> read_module_dict(Memory& memory, const Layout& layout, Address module);

}  // namespace pyprof
