// SPDX-License-Identifier: Apache-2.0
//
// Names of code that a program makes while it runs: the text file /tmp/perf-PID.map and the jitdump that perf(1)
// reads. Both are written by the target, perhaps while we read: whole lines and records count, the rest does not.
#pragma once

#include <pyprof/address.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace pyprof {

class JitNames {
public:
    // Lines of "START SIZE NAME", the numbers in hex.
    void add_perf_map(std::string_view text);
    // The file header, then records; those that load code count.
    void add_jitdump(std::span<const std::byte> bytes);
    // Records alone, as a file that is being written has them behind what was read before. How many bytes whole records
    // have taken; nothing when what stands there is none.
    std::optional<std::size_t> add_jitdump_records(std::span<const std::byte> bytes);
    // How long the header is; nothing when it is not that of a jitdump of this machine.
    static std::optional<std::size_t> jitdump_header(std::span<const std::byte> bytes);

    // What was told last for an address counts: code comes and goes. Valid until something is added.
    [[nodiscard]] std::optional<std::string_view> find(Address address) const;
    [[nodiscard]] bool empty() const { return ranges_.empty(); }

private:
    struct Range {
        std::uint64_t end = 0;
        std::shared_ptr<const std::string> name;
    };
    void add(std::uint64_t begin, std::uint64_t size, std::string_view name);
    void cut(std::uint64_t address);

    std::map<std::uint64_t, Range> ranges_;  // by where they begin; none overlaps another
};

}  // namespace pyprof
