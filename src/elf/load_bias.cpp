// SPDX-License-Identifier: Apache-2.0
//
// The loader maps each segment at (bias + address), its start rounded down to a page of both the file and
// the memory (System V gABI, "Program Loading"); so file offset and address differ by the same amount
// everywhere inside a segment.
#include "elf/load_bias.h"

namespace pyprof {
namespace {

bool holds_offset(const Mapping& mapping, std::uint64_t offset) {
    return offset >= mapping.file_offset &&
           offset - mapping.file_offset < distance(mapping.start, mapping.end);
}

Address address_of(const Mapping& mapping, std::uint64_t offset) {
    return mapping.start + (offset - mapping.file_offset);
}

int count_placed(LoadBias bias, std::span<const Mapping> mappings,
                 std::span<const ModuleFile::Segment> segments) {
    int count = 0;
    for (const auto& segment : segments) {
        for (const Mapping& mapping : mappings) {
            if (!holds_offset(mapping, segment.file_offset)) continue;
            if (address_of(mapping, segment.file_offset) != bias.in_memory(segment.address)) continue;
            ++count;
            break;
        }
    }
    return count;
}

}  // namespace

std::optional<LoadBias> load_bias(std::span<const Mapping> mappings,
                                  std::span<const ModuleFile::Segment> segments) {
    std::optional<LoadBias> best;
    int most = 0;
    for (const Mapping& mapping : mappings) {
        for (const auto& segment : segments) {
            if (segment.file_size == 0 || !holds_offset(mapping, segment.file_offset)) continue;
            const LoadBias bias(raw(address_of(mapping, segment.file_offset)) - raw(segment.address));
            const int placed = count_placed(bias, mappings, segments);
            if (placed > most) {
                most = placed;
                best = bias;
            }
        }
    }
    return best;
}

bool is_same_file(const Mapping& left, const Mapping& right) {
    return left.inode == right.inode && left.device == right.device && left.path == right.path;
}

std::vector<Mapping> mappings_of(const Mapping& file, std::span<const Mapping> all) {
    std::vector<Mapping> found;
    for (const Mapping& mapping : all) {
        if (is_same_file(file, mapping)) found.push_back(mapping);
    }
    return found;
}

}  // namespace pyprof
