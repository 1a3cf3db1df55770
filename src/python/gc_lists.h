// SPDX-License-Identifier: Apache-2.0
//
// The lists in which the garbage collector of an interpreter with a GIL keeps every container: where objects are found
// that nobody lists. They change while they are walked: what is found are candidates, each to be judged by itself.
// Every walk is bounded, by the number of objects and by the first node that does not fit its neighbour.
#pragma once

#include "python/interpreters.h"
#include "python/object_kinds.h"
#include "target/page_cache.h"

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace pyprof {

class GcLists {
public:
    GcLists(const Layout& layout, Memory& memory) : layout_(&layout), pages_(memory) {}

    // Calls `visit` with each object and its type, those that were made last first within a list. False: a list was left
    // before its end, as it changed or `most` objects had been seen.
    using Visit = std::function<void(Address object, Address type)>;
    bool walk(const InterpreterState& interpreter, std::size_t most, const Visit& visit);

private:
    void find_heads(const InterpreterState& interpreter);
    [[nodiscard]] bool is_head(Address address);
    bool walk_list(Address head, std::size_t& left, const Visit& visit);

    const Layout* layout_;
    PageCache pages_;
    Address of_{};  // the interpreter whose heads these are
    std::vector<Address> heads_;
};

}  // namespace pyprof
