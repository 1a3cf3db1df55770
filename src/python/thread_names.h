// SPDX-License-Identifier: Apache-2.0
//
// Names that `threading` gives the threads of one interpreter, by pthread ident: those that
// sys.modules["threading"]._active holds. What was read is kept. A thread that is not in there is looked
// for again after 1, 2, 4, ... further asks, so that threads unknown to `threading` cost next to nothing.
#pragma once

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <tsl/robin_map.h>
#include <cstdint>
#include <optional>
#include <string>

namespace pyprof {

class ThreadNames {
public:
    ThreadNames(const Layout& layout, Address interpreter) : layout_(&layout), interpreter_(interpreter) {}

    // The name of the thread with this thread_id, from what is kept; reads the target when it is not
    // known and its next try is due. nullptr: no name. The pointer lives until the next call.
    [[nodiscard]] const std::string* find(Memory& memory, std::uint64_t ident);

    // Reads all names anew: a thread can be renamed. False: it couldn't be read, and what was known stays.
    bool refresh(Memory& memory);

    // The thread has ended: its ident may soon be another's.
    void forget(std::uint64_t ident);

private:
    struct Entry {
        std::optional<std::string> name;
        std::uint32_t asks_left = 0;  // until a miss is tried again
        std::uint32_t pause = 0;      // its last pause
    };
    enum class Which { kAll, kUnnamed };
    bool read_names(Memory& memory, Which which);
    [[nodiscard]] std::optional<Address> find_active(Memory& memory) const;
    [[nodiscard]] std::optional<std::string> read_name(Memory& memory, Address thread) const;

    const Layout* layout_;
    Address interpreter_;
    tsl::robin_map<std::uint64_t, Entry> entries_;
};

}  // namespace pyprof
