// SPDX-License-Identifier: Apache-2.0
//
// A frame with named local variables in a FakeMemory.
#pragma once

#include "support/process_builder.h"

#include "python/frames.h"

#include <string>
#include <utility>
#include <vector>

namespace pyprof::test {

// Gives a frame in memory, and its code, variables, the first of which stands where its value stack stood.
inline void hold(ProcessBuilder& builder, const RawFrame& frame, const std::vector<std::pair<std::string, Address>>& variables) {
    const Layout& layout = builder.layout();
    std::vector<Address> names;
    for (const auto& [name, value] : variables) names.push_back(builder.str(name));
    builder.put_field(frame.code, layout.code.local_names, raw(builder.tuple(names)));
    builder.put_field(frame.code, layout.code.nlocalsplus, variables.size(), 4);
    for (std::size_t i = 0; i < variables.size(); ++i) {
        builder.memory().put(frame.address + at(layout.frame.localsplus) + 8 * i, raw(variables[i].second));
    }
}

inline RawFrame frame_holding(ProcessBuilder& builder, const std::vector<std::pair<std::string, Address>>& variables,
                               const ObjectBuilder::CodeSpec& code = {}) {
    RawFrame frame;
    frame.code = builder.code(code);
    frame.address = builder.allocate(at(builder.layout().frame.localsplus) + 8 * (variables.size() + 1));
    hold(builder, frame, variables);
    return frame;
}

inline Address list_of(ProcessBuilder& builder, const std::vector<Address>& items) {
    const std::uint32_t header = builder.layout().object.header_size;
    const Address list = builder.object(header + 24, builder.type("list"));
    const Address array = builder.allocate(8 * (items.size() + 1));
    for (std::size_t i = 0; i < items.size(); ++i) builder.memory().put(array + 8 * i, raw(items[i]));
    builder.memory().put(list + header, std::uint64_t{items.size()});
    builder.memory().put(list + header + 8, raw(array));
    return list;
}

}  // namespace pyprof::test
