// SPDX-License-Identifier: Apache-2.0
//
// Who held the GIL last, and how often another thread took it (last_holder and switch_number of struct
// _gil_runtime_state, 3.8 to 3.15; take_gil() writes both before the thread runs on). A thread that is not the last holder
// has run no Python code as long as both stay as they were, so its Python stack is what it was: one read for all
// threads. Of native code without the GIL it says nothing, and nothing of threads of several interpreters, whose states
// take turns under one GIL unseen.
#pragma once

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <array>
#include <cstdint>

namespace pyprof {

struct GilTurn {
    Address holder{};
    std::uint64_t number = 0;
    bool is_known = false;
    friend bool operator==(const GilTurn&, const GilTurn&) = default;

    // Whether a thread state whose stack was read, or that was seen asleep, after this turn has its stack still at `now`.
    [[nodiscard]] bool vouches_for(Address thread, const GilTurn& now) const {
        return is_known && now == *this && holder != thread;
    }
};

class GilTurnReader {
public:
    // Nothing is read before it is placed. `gil`: where `last_holder` stands, null for none.
    void place(const Layout& layout, Address last_holder) {
        from_ = last_holder;
        const Offset distance = has(layout.gil.switch_number) ? layout.gil.switch_number - layout.gil.last_holder
                                                              : layout.runtime.gil_switch_number - layout.runtime.gil_last_holder;
        if (distance < 8 || distance > static_cast<Offset>(bytes_.size() - 8)) from_ = kNullAddress;
        number_ = at(distance > 0 ? distance : 0);
    }
    [[nodiscard]] bool is_placed() const { return from_ != kNullAddress; }
    [[nodiscard]] ReadRange range() { return {from_, std::span(bytes_).first(number_ + 8)}; }
    // After the read.
    [[nodiscard]] GilTurn turn() const {
        return {Address{load<std::uint64_t>(bytes_.data(), 0)}, load<std::uint64_t>(bytes_.data(), number_), true};
    }

private:
    Address from_{};
    std::size_t number_ = 0;
    std::array<std::byte, 32> bytes_{};
};

}  // namespace pyprof
