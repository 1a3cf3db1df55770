// SPDX-License-Identifier: Apache-2.0
//
// Symbols survive strip in .dynsym, because extension modules need them; the section .PyRuntime exists since
// 3.10; from 3.13 on _PyRuntime begins with the cookie of _Py_DebugOffsets and the version.
#include "python/find_runtime.h"

#include "python/find_runtime_module.h"
#include "python/find_runtime_scan.h"
#include "python/find_runtime_version.h"
#include "python/layouts.h"
#include "python/python_children.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace pyprof {
namespace {

constexpr std::uint32_t kMinorBits = 0xffff0000;
constexpr std::uint32_t k313 = 0x030d0000;

// What stands at the place itself.
struct Look {
    bool is_readable = false;
    bool has_cookie = false;
    std::uint32_t version_hex = 0;  // of the debug offsets
};

Look look_at(Memory& memory, Address runtime) {
    std::array<std::byte, 16> start{};
    Look look;
    look.is_readable = read_bytes(memory, runtime, start);
    if (!look.is_readable) return look;
    look.has_cookie = std::memcmp(start.data(), "xdebugpy", 8) == 0;
    const auto version = load<std::uint64_t>(start.data(), 8);
    if (look.has_cookie && version <= 0xffffffffU) look.version_hex = static_cast<std::uint32_t>(version);
    return look;
}

// Whether interpreters.head, which moves with the version, is set. With debug offsets the offset is the
// third word of runtime_state, right behind cookie, version, free_threaded, size and finalizing.
bool has_interpreter(Memory& memory, Address runtime, const Look& look, int minor) {
    std::uint64_t offset = minor >= 11 ? 40 : 32;
    if (look.has_cookie) {
        constexpr std::uint64_t kPlace = 8 + 4 * 8;
        offset = read_value<std::uint64_t>(memory, runtime + kPlace).value_or(0);
        if (offset == 0 || offset > 1 << 20) return false;
    }
    const auto head = read_pointer(memory, runtime + offset);
    return head && *head != kNullAddress;
}

class Finder {
public:
    Finder(Target& target, const FindOptions& options, std::vector<Mapping> mappings, ProcessFacts facts)
        : target_(target),
          memory_(target.memory()),
          options_(options),
          mappings_(std::move(mappings)),
          facts_(std::move(facts)),
          modules_(list_modules(mappings_, facts_.executable)) {}

    Result<FoundRuntime> find();

private:
    std::optional<FoundRuntime> find_in_file(const LoadedModule& module);
    std::optional<FoundRuntime> find_by_cookie(const LoadedModule& module);
    std::optional<FoundRuntime> find_by_scan(const LoadedModule& module);
    std::optional<FoundRuntime> judge(const LoadedModule& module, Address runtime, std::string how,
                                      std::optional<std::uint32_t> exported_version);
    void add_version_of_names(const LoadedModule& module, FoundRuntime& found);
    std::uint32_t version_of_text(const LoadedModule& module);
    Error explain_failure();

    Target& target_;
    Memory& memory_;
    const FindOptions& options_;
    std::vector<Mapping> mappings_;
    ProcessFacts facts_;
    std::vector<LoadedModule> modules_;
};

void Finder::add_version_of_names(const LoadedModule& module, FoundRuntime& found) {
    const auto accept = [&](std::uint32_t version, std::string how) {
        if (found.version_hex != 0 || version == 0) return;
        found.version_hex = version;
        found.version_how = std::move(how);
    };
    accept(version_of_text(module), "the text of Py_GetVersion");
    accept(version_of_file_name(module.path()), "the name of the file");
    for (const Mapping& mapping : mappings_) {
        if (found.version_hex != 0) break;
        accept(version_of_library_path(mapping.path), "the path of its modules");
    }
}

std::uint32_t Finder::version_of_text(const LoadedModule& module) {
    std::uint32_t version = 0;
    for (const Mapping& mapping : data_of(module, mappings_)) {
        scan_mapping(memory_, mapping, 32, [&](Address, std::span<const std::byte> bytes) {
            version = version_in_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
            return version == 0;
        });
        if (version != 0) break;
    }
    return version;
}

std::optional<FoundRuntime> Finder::judge(const LoadedModule& module, Address runtime, std::string how,
                                          std::optional<std::uint32_t> exported_version) {
    const Look look = look_at(memory_, runtime);
    if (!look.is_readable) return {};
    FoundRuntime found;
    found.runtime = runtime;
    found.how = std::move(how);
    found.module_path = module.path();
    found.has_debug_offsets = look.has_cookie;
    if (look.version_hex != 0) {
        found.version_hex = look.version_hex;
        found.version_how = "debug offsets";
    } else if (exported_version && major_of(*exported_version) == 3) {
        found.version_hex = *exported_version;
        found.version_how = "Py_Version";
    } else {
        add_version_of_names(module, found);
    }
    // From 3.13 on the cookie must be there: the start of _PyRuntime is static data.
    if (!look.has_cookie && (found.version_hex & kMinorBits) >= k313) return {};
    found.is_initialised = has_interpreter(memory_, runtime, look, minor_of(found.version_hex));
    return found;
}

std::optional<FoundRuntime> Finder::find_in_file(const LoadedModule& module) {
    auto view = ModuleView::open(target_, module);
    if (!view) return {};
    std::string how = "symbol _PyRuntime";
    auto runtime = view->find_symbol("_PyRuntime");
    if (!runtime) {
        how = "section .PyRuntime";
        runtime = view->find_section(".PyRuntime");
    }
    if (!runtime) return {};
    std::optional<std::uint32_t> version;
    if (const auto place = view->find_symbol("Py_Version"))
        version = read_value<std::uint32_t>(memory_, *place);
    return judge(module, *runtime, std::move(how), version);
}

std::optional<FoundRuntime> Finder::find_by_cookie(const LoadedModule& module) {
    for (const Address place : find_cookies(memory_, data_of(module, mappings_))) {
        auto found = judge(module, place, "cookie in its data", {});
        // Elsewhere the eight bytes may stand by chance or as a string; then no version follows.
        if (found && (found->version_hex & kMinorBits) >= k313 && major_of(found->version_hex) == 3)
            return found;
    }
    return {};
}

std::optional<FoundRuntime> Finder::find_by_scan(const LoadedModule& module) {
    FoundRuntime named;
    add_version_of_names(module, named);
    const auto data = data_of(module, mappings_);
    const auto hit = find_by_shape(memory_, data, mappings_, minor_of(named.version_hex), options_);
    if (!hit) return {};
    named.runtime = hit->runtime;
    named.how = "scan of its data";
    named.module_path = module.path();
    named.is_initialised = true;
    if (named.version_hex == 0) {
        named.version_hex = 0x03000000U | static_cast<std::uint32_t>(hit->minor) << 16;
        named.version_how = kVersionByWalk;
    }
    return named;
}

Result<FoundRuntime> Finder::find() {
    std::optional<FoundRuntime> waiting;  // one that has not been set up (yet)
    const auto is_ready = [&](const std::optional<FoundRuntime>& found) {
        if (found && !found->is_initialised && !waiting) waiting = found;
        return found && found->is_initialised;
    };
    for (const auto& module : modules_) {
        auto found = find_in_file(module);
        if (is_ready(found)) return *found;
    }
    // A symbol or a section is sure enough to wait for; nothing need be searched then.
    for (std::size_t i = 0; options_.may_scan && !waiting && i < modules_.size(); ++i) {
        auto found = find_by_cookie(modules_[i]);
        if (is_ready(found)) return *found;
    }
    for (std::size_t i = 0; options_.may_scan && !waiting && i < modules_.size(); ++i) {
        if (auto found = find_by_scan(modules_[i])) return *found;
    }
    if (waiting) return *waiting;
    return tl::unexpected<Error>(explain_failure());
}

Error Finder::explain_failure() {
    const std::string& name = facts_.executable;
    for (const LoadedModule& module : modules_) {
        const std::uint32_t version = version_of_file_name(module.path());
        if (version == 0 || version >= 0x03080000) continue;
        return {ExitCode::kNotPython,
                fmt::format("process {} runs Python {}.{}, which is older than pyprof reads", target_.pid(),
                            major_of(version), minor_of(version)),
                kSupportedVersions};
    }
    Error error{ExitCode::kNotPython,
                fmt::format("process {} ({}) is not a Python process", target_.pid(), name), ""};
    if (name.find("pypy") != std::string::npos) {
        error.hint = "it is PyPy; pyprof reads CPython only";
        return error;
    }
    if (const auto child = PythonChildren().find(target_.read_descendants(), options_.may_scan)) {
        error.hint = fmt::format("process {} below it is one ({}): use --pid {}", child->pid, command_text(*child), child->pid);
    }
    return error;
}

}  // namespace

Result<FoundRuntime> find_runtime(Target& target, const FindOptions& options) {
    auto mappings = target.read_mappings();
    if (!mappings) return tl::unexpected<Error>(mappings.error());
    auto facts = target.read_facts();
    if (!facts) return tl::unexpected<Error>(facts.error());
    return Finder(target, options, std::move(*mappings), std::move(*facts)).find();
}

}  // namespace pyprof
