// SPDX-License-Identifier: Apache-2.0
#include "native/module_symbols.h"

#include "base/text.h"
#include "native/cython_names.h"
#include "native/demangle.h"
#include "native/plt_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace pyprof {
namespace {

constexpr std::size_t kLongestModule = 128;
constexpr std::size_t kLongestFile = 4096;
constexpr std::size_t kMostMakers = 4096;

// mov $15, %rax; syscall: the code to which a signal handler returns, in every C library of x86-64.
constexpr std::array<unsigned char, 9> kSignalReturn{0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};

}  // namespace

std::string module_name(const std::string& path) {
    std::string name = path.substr(path.rfind('/') + 1);
    if (name.size() > kLongestModule) name.resize(kLongestModule);
    return escape_control(name);
}

ModuleSymbols::ModuleSymbols(std::optional<ElfImage> image, const std::string& path, std::string name, const DebugSearch& search)
    : name_(std::move(name)), cython_(search.roots) {
    if (!image) return;
    image_ = std::make_unique<ElfImage>(std::move(*image));
    symbols_.add(*image_);
    starts_ = FunctionStarts(*image_);
    if (image_->find_section(".debug_info") || image_->find_section(".zdebug_info")) {
        lines_.emplace(*image_);
    } else {
        find_debug_information(path, search);
    }
    add_plt_names(*image_, symbols_);
    symbols_.finish();
}

void ModuleSymbols::find_debug_information(const std::string& path, const DebugSearch& search) {
    auto debug = find_debug_file(*image_, path, search);
    if (!debug) return;
    debug_ = std::make_unique<ElfImage>(std::move(*debug));
    symbols_.add(*debug_);
    lines_.emplace(*debug_);
}

void ModuleSymbols::download_debug_file(const DebugSearch::Download& download) {
    if (image_ == nullptr || lines_) return;
    find_debug_information("", {{}, download});
    symbols_.finish();
}

std::optional<std::uint64_t> ModuleSymbols::code_offset(FileAddress address) const {
    std::size_t count = 0;
    if (image_ == nullptr || elf_getphdrnum(image_->get(), &count) != 0) return std::nullopt;
    for (std::size_t i = 0; i < count && i <= 0xffff; ++i) {
        GElf_Phdr segment;
        if (gelf_getphdr(image_->get(), static_cast<int>(i), &segment) == nullptr) continue;
        if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0 || raw(address) < segment.p_vaddr) continue;
        const std::uint64_t inside = raw(address) - segment.p_vaddr;
        if (inside < segment.p_filesz) return segment.p_offset + inside;
    }
    return std::nullopt;
}

bool ModuleSymbols::is_signal_return(std::uint64_t offset) const {
    GElf_Ehdr header;
    if (gelf_getehdr(image_->get(), &header) == nullptr || header.e_machine != EM_X86_64 || offset > INT64_MAX) return false;
    const Elf_Data* data =
        elf_getdata_rawchunk(image_->get(), static_cast<std::int64_t>(offset), kSignalReturn.size(), ELF_T_BYTE);
    return data != nullptr && data->d_size == kSignalReturn.size() &&
           std::memcmp(data->d_buf, kSignalReturn.data(), kSignalReturn.size()) == 0;
}

std::optional<SymbolTable::Function> ModuleSymbols::function_at(FileAddress address) const {
    auto function = symbols_.find(address);
    if (!function || function->has_size) return function;
    // Without a size it reaches at most to the next function that the unwind tables know.
    const auto start = starts_.find(address);
    if (start && raw(*start) > raw(function->start)) return std::nullopt;
    return function;
}

NativePlace ModuleSymbols::find(FileAddress address) {
    NativePlace place;
    // Elsewhere tables have entries of functions that the linker dropped.
    const auto offset = code_offset(address);
    const auto start = offset ? starts_.find(address) : std::nullopt;
    const auto function = offset ? function_at(address) : std::nullopt;
    place.function_start = start ? *start : function ? function->start : address;
    std::string name;
    if (function) {
        name = demangle(function->name);
    } else if (offset && is_signal_return(*offset)) {
        name = "__restore_rt";
    }
    place.has_name = !name.empty();
    if (name.empty()) name = fmt::format("{}+{:#x}", name_, raw(place.function_start));

    if (lines_ && offset) {
        for (SourceLevel& level : lines_->find(address)) {
            if (level.file.size() > kLongestFile) level.file.clear();
            place.functions.push_back({std::move(level.name), std::move(level.file), level.line, true});
        }
    }
    if (place.functions.empty()) place.functions.emplace_back();
    NativeFunction& outermost = place.functions.back();
    outermost.is_inlined = false;
    if (place.has_name || outermost.name.empty()) {
        outermost.name = std::move(name);
    } else {
        place.has_name = true;
    }
    for (NativeFunction& each : place.functions) {
        if (each.name.empty()) each.name = "?";
        const auto source = cython_.find(each.file, each.line, each.name);
        if (!source) continue;
        each.file = source->file;
        each.line = source->line;
    }
    return place;
}

std::optional<std::string> ModuleSymbols::python_name(const std::string& function) {
    if (!is_generator_body(function)) return cython_name(function);
    auto known = makers_.find(function);
    if (known == makers_.end()) {
        if (makers_.size() >= kMostMakers) return cython_name(function);
        const auto maker = symbols_.find_name([&](std::string_view symbol) {
            return symbol.find("__pyx_p") != std::string_view::npos && makes_generator(demangle(symbol), function);
        });
        known = makers_.emplace(function, cython_name(maker ? demangle(*maker) : function)).first;
    }
    return known->second;
}

}  // namespace pyprof
