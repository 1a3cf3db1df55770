// SPDX-License-Identifier: Apache-2.0
#include "python/python_children.h"

#include "base/base_name.h"
#include "base/text.h"
#include "elf/elf_module.h"
#include "target/proc_files.h"
#include "target/proc_parse.h"

#include <fmt/format.h>

#include <fcntl.h>

#include <algorithm>
#include <string_view>

namespace pyprof {

namespace {

bool maps_libpython(pid_t pid) {
    const auto mappings = parse_maps(read_file_at(AT_FDCWD, fmt::format("/proc/{}/maps", pid)).value_or(std::string()));
    return std::any_of(mappings.begin(), mappings.end(),
                       [](const Mapping& mapping) { return base_name(mapping.path).starts_with("libpython3"); });
}

// Extension modules need the symbol, which strip therefore leaves; the section stands there from 3.10 on.
bool executable_has_runtime(pid_t pid) {
    UniqueFd file = open_regular(fmt::format("/proc/{}/exe", pid));
    if (!file) return false;
    const auto module = open_elf_module(std::move(file), "");
    return module && ((*module)->find_section(".PyRuntime") || (*module)->find_symbol("_PyRuntime"));
}

}  // namespace

bool PythonChildren::is_python(const ProcessFacts& facts, bool may_open_files) {
    const auto has_name = [](std::string_view path) { return base_name(path).starts_with("python"); };
    if (has_name(facts.executable) || (!facts.command.empty() && has_name(facts.command[0]))) return true;
    if (!may_open_files || facts.executable.empty()) return false;
    if (maps_libpython(facts.pid)) return true;
    const auto [known, is_new] = executables_.try_emplace(facts.executable, false);
    if (is_new) known->second = executable_has_runtime(facts.pid);
    return known->second;
}

std::optional<ProcessFacts> PythonChildren::find(const std::vector<ProcessFacts>& processes, bool may_open_files) {
    const auto found = std::find_if(processes.begin(), processes.end(),
                                    [&](const ProcessFacts& facts) { return is_python(facts, may_open_files); });
    if (found == processes.end()) return {};
    return *found;
}

// Paths can be of any length: the interpreter's is told by its last part, and what is still too long keeps its end, where
// the script and its arguments stand.
std::string command_text(const ProcessFacts& facts) {
    constexpr std::size_t kLongest = 200;
    std::string text;
    for (const std::string& argument : facts.command) {
        text += text.empty() ? std::string(base_name(argument)) : " " + argument;
    }
    return elide_middle(text, kLongest);
}

}  // namespace pyprof
