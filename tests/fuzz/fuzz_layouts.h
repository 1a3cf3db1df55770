// SPDX-License-Identifier: Apache-2.0
//
// All layouts, for targets whose input chooses one of them by its place in this list.
#pragma once

#include "support/known_layouts.h"

#include <string>
#include <vector>

namespace pyprof::test {

inline const std::vector<KnownLayout>& fuzz_layouts() {
    static const std::vector<KnownLayout> all = [] {
        const std::string here = __FILE__;
        return known_layouts(here.substr(0, here.rfind("/fuzz/")));
    }();
    return all;
}

}  // namespace pyprof::test
