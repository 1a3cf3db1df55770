// SPDX-License-Identifier: Apache-2.0
#include "native/module_map.h"

#include <sys/stat.h>
#include <algorithm>
#include <utility>

namespace pyprof {
namespace {

// The mappings of one file that stand together: a file that is loaded twice has two such groups. What is
// mapped between them without a file (.bss, alignment) does not part them.
std::pair<std::size_t, std::size_t> group_of(const std::vector<Mapping>& all, std::size_t code) {
    const auto belongs = [&](std::size_t i) {
        return is_same_file(all[i], all[code]) || (all[i].inode == 0 && all[i].path.empty());
    };
    std::size_t first = code;
    while (first > 0 && belongs(first - 1) && all[first].file_offset != 0) --first;
    std::size_t last = code + 1;
    while (last < all.size() && belongs(last) &&
           (all[last].inode == 0 || all[last].file_offset >= all[code].file_offset)) {
        ++last;
    }
    return {first, last};
}

// 0 where it can't be told.
std::int64_t modified_ns(const ModuleFile& file) {
    struct stat facts{};
    if (file.descriptor() < 0 || ::fstat(file.descriptor(), &facts) != 0) return 0;
    return std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

// A library that is loaded again where it was is the same one, however often; but a file may have been written anew.
bool is_same_module(const NativeModule& known, const Mapping& mapping) {
    const Mapping& code = known.code;
    return code.start == mapping.start && code.end == mapping.end && code.file_offset == mapping.file_offset &&
           is_same_file(code, mapping) && known.file != nullptr && modified_ns(*known.file) == known.modified_ns;
}

}  // namespace

void ModuleMap::refresh() {
    auto mappings = target_.read_mappings();
    if (!mappings) return;  // it has ended; what was known stays
    mappings_ = std::move(*mappings);
    std::vector<Range> ranges;
    for (std::size_t i = 0; i < mappings_.size(); ++i) {
        const Mapping& mapping = mappings_[i];
        if (mapping.executable) ranges.push_back({mapping.start, mapping.end, take_module(i)});
    }
    if (ranges == ranges_) return;
    ranges_ = std::move(ranges);
    ++changes_;
}

ModuleId ModuleMap::take_module(std::size_t index) {
    const Mapping& mapping = mappings_[index];
    if (mapping.path.empty() || (mapping.inode == 0 && mapping.path != "[vdso]")) return kAnonymous;
    const auto [known, end] = by_start_.equal_range(mapping.start);
    for (auto entry = end; entry != known;) {  // the last one first
        --entry;
        if (is_same_module(*modules_[entry->second], mapping)) return entry->second;
    }
    // One that could not be opened stays what it is as long as it is mapped.
    for (const Range& range : ranges_) {
        if (range.start == mapping.start && range.end == mapping.end && range.module < modules_.size() &&
            modules_[range.module]->file == nullptr && is_same_file(modules_[range.module]->code, mapping)) {
            return range.module;
        }
    }
    auto module = std::make_unique<NativeModule>();
    module->code = mapping;
    module->path = mapping.path;
    const auto [first, last] = group_of(mappings_, index);
    const std::span<const Mapping> group(mappings_.data() + first, last - first);
    // Opened by any of them: the memory of a file shows its headers only in the first.
    auto file = target_.open_module(mapping);
    if (!file) file = target_.open_module(mappings_[first]);
    if (file) {
        module->bias = load_bias(mappings_of(mapping, group), (*file)->load_segments());
        module->file = std::move(*file);
        module->modified_ns = modified_ns(*module->file);
    } else {
        module->problem = file.error().message;
    }
    modules_.push_back(std::move(module));
    const auto id = static_cast<ModuleId>(modules_.size() - 1);
    by_start_.emplace(mapping.start, id);
    return id;
}

ModuleId ModuleMap::find(Address code) const {
    const auto after =
        std::upper_bound(ranges_.begin(), ranges_.end(), code,
                         [](Address address, const Range& range) { return address < range.start; });
    if (after == ranges_.begin()) return kNoModule;
    const Range& range = *std::prev(after);
    return code < range.end ? range.module : kNoModule;
}

std::optional<FileAddress> ModuleMap::in_file(ModuleId id, Address address) const {
    if (id >= modules_.size() || !modules_[id]->bias) return std::nullopt;
    return modules_[id]->bias->in_file(address);
}

const Mapping* ModuleMap::mapping_of(Address address) const {
    const auto after =
        std::upper_bound(mappings_.begin(), mappings_.end(), address,
                         [](Address at, const Mapping& mapping) { return at < mapping.start; });
    if (after == mappings_.begin()) return nullptr;
    const Mapping& mapping = *std::prev(after);
    return address < mapping.end ? &mapping : nullptr;
}

}  // namespace pyprof
