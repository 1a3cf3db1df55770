// SPDX-License-Identifier: Apache-2.0
//
// Orders modules and joins their files with their mappings.
#include "python/find_runtime_module.h"

#include "base/base_name.h"

#include <algorithm>

namespace pyprof {

std::vector<LoadedModule> list_modules(const std::vector<Mapping>& mappings, const std::string& executable) {
    std::vector<LoadedModule> modules;
    for (const Mapping& mapping : mappings) {
        if (mapping.inode == 0 || mapping.path.empty() || mapping.path.front() != '/') continue;
        const auto known = std::find_if(modules.begin(), modules.end(), [&](const LoadedModule& module) {
            return is_same_file(module.mappings.front(), mapping);
        });
        if (known == modules.end()) {
            modules.push_back({{mapping}});
        } else {
            known->mappings.push_back(mapping);
        }
    }
    modules.erase(std::remove_if(modules.begin(), modules.end(),
                                 [](const LoadedModule& module) {
                                     return std::none_of(module.mappings.begin(), module.mappings.end(),
                                                         [](const Mapping& m) { return m.executable; });
                                 }),
                  modules.end());
    const auto rank = [&](const LoadedModule& module) {
        if (module.path() == executable) return 0;
        return base_name(module.path()).starts_with("libpython") ? 1 : 2;
    };
    std::stable_sort(modules.begin(), modules.end(),
                     [&](const LoadedModule& a, const LoadedModule& b) { return rank(a) < rank(b); });
    return modules;
}

std::optional<ModuleView> ModuleView::open(Target& target, const LoadedModule& module) {
    auto file = target.open_module(module.mappings.front());
    if (!file) return {};
    const auto bias = load_bias(module.mappings, (*file)->load_segments());
    if (!bias) return {};
    return ModuleView(std::move(*file), *bias);
}

std::optional<Address> ModuleView::find_symbol(std::string_view name) {
    const auto found = file_->find_symbol(name);
    if (!found) return {};
    return bias_.in_memory(found->address);
}

std::optional<Address> ModuleView::find_section(std::string_view name) {
    const auto found = file_->find_section(name);
    if (!found || found->size == 0) return {};
    return bias_.in_memory(found->address);
}

}  // namespace pyprof
