// SPDX-License-Identifier: Apache-2.0
//
// From an address in an ELF file to its place in the target, and back: the one crossing between the two
// types. It adds; whether the result is mapped is the reader's question.
#pragma once

#include <pyprof/target.h>

#include <optional>
#include <span>

namespace pyprof {

class LoadBias {
public:
    explicit LoadBias(std::uint64_t bias) : bias_(bias) {}
    [[nodiscard]] Address in_memory(FileAddress address) const { return Address{raw(address) + bias_}; }
    [[nodiscard]] FileAddress in_file(Address address) const { return FileAddress{raw(address) - bias_}; }
    friend bool operator==(const LoadBias&, const LoadBias&) = default;

private:
    std::uint64_t bias_;
};

// From the mappings of one file and its PT_LOAD segments; empty when no mapping fits a segment. A file may
// be mapped again as data, and neighbouring segments share a page of the file, so the bias that places the
// most segments wins.
std::optional<LoadBias> load_bias(std::span<const Mapping> mappings,
                                  std::span<const ModuleFile::Segment> segments);

// The mappings of one file, in order of address. Device, inode and path are equal.
bool is_same_file(const Mapping& left, const Mapping& right);
std::vector<Mapping> mappings_of(const Mapping& file, std::span<const Mapping> all);

}  // namespace pyprof
