// SPDX-License-Identifier: Apache-2.0
//
// Which file stands behind an address of code. A module is one file at one place; it keeps its number for as
// long as we run, also after it was unmapped, and its file stays open: names are looked up at the end. Two
// files that stood at the same place one after the other are two modules. Used on the sampler's thread alone;
// what another thread needs of a module is handed to it.
#pragma once

#include "elf/load_bias.h"

#include <pyprof/target.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pyprof {

using ModuleId = std::uint32_t;
constexpr ModuleId kNoModule = 0xffffffff;   // no executable memory stands there
constexpr ModuleId kAnonymous = 0xfffffffe;  // executable memory without a file: made at run time

struct NativeModule {
    Mapping code;  // the executable mapping
    std::string path;
    // Null where the file can't be opened; `problem` says why. Without it there is neither unwinding by
    // tables nor a name, but the frame itself is real.
    std::unique_ptr<ModuleFile> file;
    std::string problem;
    std::optional<LoadBias> bias;
    std::int64_t modified_ns = 0;  // when the file was written last, as of its opening
};

class ModuleMap {
public:
    explicit ModuleMap(Target& target) : target_(target) {}

    // Reads the mappings again. Where code has come, gone or moved since, what was derived from addresses is void, and
    // changes() has grown.
    void refresh();
    [[nodiscard]] std::uint64_t changes() const { return changes_; }

    [[nodiscard]] ModuleId find(Address code) const;
    [[nodiscard]] const NativeModule& module(ModuleId id) const { return *modules_[id]; }
    [[nodiscard]] std::size_t size() const { return modules_.size(); }
    // The address in the module's file, where the bias is known.
    [[nodiscard]] std::optional<FileAddress> in_file(ModuleId id, Address address) const;
    // The mapping that holds `address`, for finding the end of a stack; null when there is none.
    [[nodiscard]] const Mapping* mapping_of(Address address) const;

private:
    struct Range {
        Address start{};
        Address end{};
        ModuleId module = kNoModule;
        friend bool operator==(const Range&, const Range&) = default;
    };
    ModuleId take_module(std::size_t mapping);

    Target& target_;
    std::vector<Mapping> mappings_;
    std::vector<Range> ranges_;  // executable, sorted
    std::vector<std::unique_ptr<NativeModule>> modules_;
    std::multimap<Address, ModuleId> by_start_;  // all there ever were, by where their code began
    std::uint64_t changes_ = 0;
};

}  // namespace pyprof
