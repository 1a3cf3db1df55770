// SPDX-License-Identifier: Apache-2.0
//
// One loaded file as a candidate for holding the interpreter: where it is mapped, and what its ELF file
// says. For find_runtime alone.
#pragma once

#include "elf/load_bias.h"

#include <pyprof/target.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pyprof {

struct LoadedModule {
    std::vector<Mapping> mappings;  // never empty, in order of address
    [[nodiscard]] const std::string& path() const { return mappings.front().path; }
};

// Every file that is mapped with a right to execute, the likeliest first: the executable, then what is
// called libpython*, then the rest.
std::vector<LoadedModule> list_modules(const std::vector<Mapping>& mappings, const std::string& executable);

// Its symbols and sections as addresses in the target.
class ModuleView {
public:
    static std::optional<ModuleView> open(Target& target, const LoadedModule& module);

    [[nodiscard]] std::optional<Address> find_symbol(std::string_view name);
    [[nodiscard]] std::optional<Address> find_section(std::string_view name);

private:
    ModuleView(std::unique_ptr<ModuleFile> file, LoadBias bias) : file_(std::move(file)), bias_(bias) {}

    std::unique_ptr<ModuleFile> file_;
    LoadBias bias_;
};

}  // namespace pyprof
