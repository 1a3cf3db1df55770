// SPDX-License-Identifier: Apache-2.0
//
// Where a file's addresses go, for the layouts that linkers and loaders make.
#include "elf/load_bias.h"

#include <catch2/catch.hpp>

using namespace pyprof;

namespace {

Mapping mapping_at(std::uint64_t start, std::uint64_t end, std::uint64_t offset) {
    Mapping mapping;
    mapping.start = Address{start};
    mapping.end = Address{end};
    mapping.file_offset = offset;
    mapping.inode = 1;
    return mapping;
}

ModuleFile::Segment segment_at(std::uint64_t address, std::uint64_t offset, std::uint64_t size) {
    return {FileAddress{address}, offset, size, size, false};
}

}  // namespace

TEST_CASE("load bias: a shared library with its segments apart") {
    // As readelf -l shows for a library: the data segment's address is a page further than its offset.
    const std::vector<ModuleFile::Segment> segments{
        segment_at(0, 0, 0x800), segment_at(0x1000, 0x1000, 0x500), segment_at(0x3df0, 0x2df0, 0x300)};
    const std::vector<Mapping> mappings{mapping_at(0x7f0000000000, 0x7f0000001000, 0),
                                        mapping_at(0x7f0000001000, 0x7f0000002000, 0x1000),
                                        mapping_at(0x7f0000003000, 0x7f0000005000, 0x2000)};
    const auto bias = load_bias(mappings, segments);
    REQUIRE(bias);
    CHECK(bias->in_memory(FileAddress{0x3e00}) == Address{0x7f0000003e00});
    CHECK(bias->in_file(Address{0x7f0000001004}) == FileAddress{0x1004});
}

TEST_CASE("load bias: a program linked to fixed addresses has none") {
    const auto bias =
        load_bias(std::vector{mapping_at(0x400000, 0x401000, 0), mapping_at(0x600000, 0x602000, 0x1000)},
                  std::vector{segment_at(0x400000, 0, 0x900), segment_at(0x600e10, 0x1e10, 0x300)});
    REQUIRE(bias);
    CHECK(bias->in_memory(FileAddress{0x601234}) == Address{0x601234});
}

TEST_CASE("load bias: a page shared by two segments and a copy mapped as data do not mislead") {
    const std::vector<ModuleFile::Segment> segments{segment_at(0, 0, 0xf00), segment_at(0x1f00, 0xf00, 0x800),
                                                    segment_at(0x4700, 0x1700, 0x200)};
    const std::vector<Mapping> mappings{mapping_at(0x10000, 0x12000, 0),  // the whole file, read as data
                                        mapping_at(0x50000, 0x51000, 0), mapping_at(0x51000, 0x53000, 0),
                                        mapping_at(0x54000, 0x55000, 0x1000)};
    const auto bias = load_bias(mappings, segments);
    REQUIRE(bias);
    CHECK(bias->in_memory(FileAddress{0}) == Address{0x50000});
}

TEST_CASE("load bias: nothing fits, nothing is said") {
    CHECK_FALSE(load_bias({}, std::vector{segment_at(0, 0, 16)}));
    CHECK_FALSE(
        load_bias(std::vector{mapping_at(0x1000, 0x2000, 0x9000)}, std::vector{segment_at(0, 0, 16)}));
    CHECK_FALSE(load_bias(std::vector{mapping_at(0x1000, 0x2000, 0)}, {}));
    CHECK_FALSE(load_bias(std::vector{mapping_at(0x1000, 0x2000, 0)}, std::vector{segment_at(0, 0, 0)}));
}

TEST_CASE("load bias: mappings of one file are those with its device, inode and path") {
    Mapping a = mapping_at(0x1000, 0x2000, 0);
    a.path = "/a";
    Mapping b = a;
    b.start = Address{0x3000};
    b.end = Address{0x4000};
    Mapping c = a;
    c.inode = 2;
    CHECK(mappings_of(a, std::vector{a, b, c}).size() == 2);
    CHECK_FALSE(is_same_file(a, c));
}
