// SPDX-License-Identifier: Apache-2.0
//
// The test's own process as something to look at: its mappings and its memory, without the target layer.
#pragma once

#include <pyprof/memory.h>
#include <pyprof/target.h>

#include <catch2/catch.hpp>

#include <sys/uio.h>
#include <unistd.h>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace pyprof::test {

class OwnMemory final : public Memory {
public:
    ReadOutcome read(std::span<const ReadRange> ranges) override {
        for (std::size_t i = 0; i < ranges.size(); ++i) {
            const iovec local{ranges[i].to.data(), ranges[i].to.size()};
            const iovec remote{reinterpret_cast<void*>(raw(ranges[i].from)), ranges[i].to.size()};
            const ssize_t got = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
            if (got != static_cast<ssize_t>(ranges[i].to.size())) return {i, ReadFault::kUnmapped};
        }
        return {ranges.size(), ReadFault::kNone};
    }
};

// The mappings of the file whose path ends in `ending`, by sscanf.
inline std::vector<Mapping> own_mappings(const std::string& ending) {
    std::vector<Mapping> found;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        unsigned long start = 0;
        unsigned long end = 0;
        unsigned long offset = 0;
        unsigned long inode = 0;
        char path[4096] = "";
        if (std::sscanf(line.c_str(), "%lx-%lx %*s %lx %*s %lu %4095s", &start, &end, &offset, &inode,
                        path) != 5)
            continue;
        Mapping mapping;
        mapping.start = Address{start};
        mapping.end = Address{end};
        mapping.file_offset = offset;
        mapping.inode = inode;
        mapping.path = path;
        if (mapping.path.ends_with(ending)) found.push_back(mapping);
    }
    REQUIRE_FALSE(found.empty());
    return found;
}

inline Address address_of(const void* place) {
    return Address{reinterpret_cast<std::uint64_t>(place)};
}

// What a command prints.
inline std::string output_of(const std::string& command) {
    std::FILE* pipe = ::popen(command.c_str(), "r");
    std::string text;
    for (int c = 0; pipe != nullptr && (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
    if (pipe != nullptr) ::pclose(pipe);
    return text;
}

}  // namespace pyprof::test
