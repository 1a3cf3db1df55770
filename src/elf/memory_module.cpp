// SPDX-License-Identifier: Apache-2.0
//
// Program headers, then the dynamic section, then one of its two hash tables: System V gABI, "Dynamic
// Section" and "Hash Table"; the GNU table as binutils writes it (bfd/elflink.c) and glibc reads it
// (elf/dl-lookup.c).
#include "elf/memory_module.h"

#include "elf/hex.h"

#include <fmt/format.h>

#include <elf.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace pyprof {
namespace {

constexpr std::size_t kMostHeaders = 256;
constexpr std::size_t kMostDynamic = 1024;
constexpr std::size_t kMostChain = 1 << 16;  // symbols in one bucket
constexpr std::size_t kMostNotes = 64 << 10;
constexpr std::size_t kLargestSection = std::size_t{64} << 20;

std::uint32_t gnu_hash(std::string_view name) {
    std::uint32_t hash = 5381;
    for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
    return hash;
}

std::uint32_t sysv_hash(std::string_view name) {
    std::uint32_t hash = 0;
    for (const char c : name) {
        hash = (hash << 4) + static_cast<unsigned char>(c);
        const std::uint32_t high = hash & 0xf0000000U;
        hash = (hash ^ high >> 24) & ~high;
    }
    return hash;
}

class MemoryModule final : public ModuleFile {
public:
    MemoryModule(Memory& memory, std::vector<Elf64_Phdr> headers, std::uint64_t bias)
        : memory_(memory), headers_(std::move(headers)), bias_(bias) {
        read_dynamic();
    }

    std::optional<Section> find_section(std::string_view) override { return {}; }
    std::optional<Section> find_symbol(std::string_view name) override;
    std::vector<Segment> load_segments() override;
    std::string build_id() override;
    std::optional<Contents> read_section(std::string_view name) override;

private:
    std::optional<Contents> read_from(FileAddress address);
    void read_dynamic();
    void take_dynamic(const Elf64_Dyn& entry);
    // glibc turns some of these into addresses in place (elf/get-dynamic-info.h), musl leaves them.
    Address place_of(std::uint64_t value) const;
    std::optional<Section> find_by_gnu_hash(std::string_view name);
    std::optional<Section> find_by_sysv_hash(std::string_view name);
    std::optional<Section> match(std::uint32_t index, std::string_view name);

    Memory& memory_;
    std::vector<Elf64_Phdr> headers_;
    std::uint64_t bias_;
    Address symbols_{};
    Address strings_{};
    Address gnu_hash_{};
    Address sysv_hash_{};
};

Address MemoryModule::place_of(std::uint64_t value) const {
    for (const Elf64_Phdr& header : headers_) {
        const std::uint64_t start = bias_ + header.p_vaddr;
        if (header.p_type == PT_LOAD && value >= start && value - start < header.p_memsz)
            return Address{value};
    }
    return Address{bias_ + value};
}

void MemoryModule::take_dynamic(const Elf64_Dyn& entry) {
    const Address place = place_of(entry.d_un.d_ptr);
    switch (entry.d_tag) {
        case DT_SYMTAB:
            symbols_ = place;
            break;
        case DT_STRTAB:
            strings_ = place;
            break;
        case DT_GNU_HASH:
            gnu_hash_ = place;
            break;
        case DT_HASH:
            sysv_hash_ = place;
            break;
        default:
            break;
    }
}

void MemoryModule::read_dynamic() {
    for (const Elf64_Phdr& header : headers_) {
        if (header.p_type != PT_DYNAMIC) continue;
        const std::size_t count = std::min<std::size_t>(header.p_memsz / sizeof(Elf64_Dyn), kMostDynamic);
        for (std::size_t i = 0; i < count; ++i) {
            const auto entry =
                read_value<Elf64_Dyn>(memory_, Address{bias_ + header.p_vaddr} + i * sizeof(Elf64_Dyn));
            if (!entry || entry->d_tag == DT_NULL) break;
            take_dynamic(*entry);
        }
    }
}

std::optional<ModuleFile::Section> MemoryModule::match(std::uint32_t index, std::string_view name) {
    const auto symbol = read_value<Elf64_Sym>(memory_, symbols_ + std::uint64_t{index} * sizeof(Elf64_Sym));
    if (!symbol || symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) == STT_TLS) return {};
    std::vector<char> text(name.size() + 1);  // with the NUL that must end it
    if (!read_bytes(memory_, strings_ + symbol->st_name, std::as_writable_bytes(std::span(text)))) return {};
    if (text.back() != '\0' || std::string_view(text.data(), name.size()) != name) return {};
    return Section{FileAddress{symbol->st_value}, symbol->st_size};
}

std::optional<ModuleFile::Section> MemoryModule::find_by_gnu_hash(std::string_view name) {
    const auto header = read_value<std::array<std::uint32_t, 4>>(memory_, gnu_hash_);
    if (!header || (*header)[0] == 0) return {};
    const auto [buckets, first_symbol, bloom_words, shift] = *header;
    static_cast<void>(shift);
    const std::uint32_t hash = gnu_hash(name);
    const Address bucket_table = gnu_hash_ + 16 + std::uint64_t{bloom_words} * 8;
    const Address chain_table = bucket_table + std::uint64_t{buckets} * 4;
    const auto start = read_value<std::uint32_t>(memory_, bucket_table + std::uint64_t{hash % buckets} * 4);
    if (!start || *start < first_symbol) return {};
    for (std::size_t i = 0; i < kMostChain; ++i) {
        const std::uint32_t index = *start + static_cast<std::uint32_t>(i);
        const auto link =
            read_value<std::uint32_t>(memory_, chain_table + std::uint64_t{index - first_symbol} * 4);
        if (!link) return {};
        // The lowest bit marks the last one of the chain.
        if ((*link | 1U) == (hash | 1U)) {
            if (auto found = match(index, name)) return found;
        }
        if ((*link & 1U) != 0) return {};
    }
    return {};
}

std::optional<ModuleFile::Section> MemoryModule::find_by_sysv_hash(std::string_view name) {
    const auto header = read_value<std::array<std::uint32_t, 2>>(memory_, sysv_hash_);
    if (!header || (*header)[0] == 0) return {};
    const auto [buckets, chains] = *header;
    const Address bucket_table = sysv_hash_ + 8;
    const Address chain_table = bucket_table + std::uint64_t{buckets} * 4;
    auto index =
        read_value<std::uint32_t>(memory_, bucket_table + std::uint64_t{sysv_hash(name) % buckets} * 4);
    for (std::size_t i = 0; i < kMostChain && index && *index != STN_UNDEF && *index < chains; ++i) {
        if (auto found = match(*index, name)) return found;
        index = read_value<std::uint32_t>(memory_, chain_table + std::uint64_t{*index} * 4);
    }
    return {};
}

std::optional<ModuleFile::Section> MemoryModule::find_symbol(std::string_view name) {
    if (symbols_ == kNullAddress || strings_ == kNullAddress) return {};
    if (gnu_hash_ != kNullAddress) {
        if (auto found = find_by_gnu_hash(name)) return found;
    }
    return sysv_hash_ == kNullAddress ? std::nullopt : find_by_sysv_hash(name);
}

std::vector<ModuleFile::Segment> MemoryModule::load_segments() {
    std::vector<Segment> segments;
    for (const Elf64_Phdr& header : headers_) {
        if (header.p_type != PT_LOAD) continue;
        segments.push_back({FileAddress{header.p_vaddr}, header.p_offset, header.p_filesz, header.p_memsz,
                            (header.p_flags & PF_W) != 0});
    }
    return segments;
}

std::string MemoryModule::build_id() {
    constexpr std::size_t kHeader = 12;  // three words: sizes of name and content, type
    for (const Elf64_Phdr& header : headers_) {
        if (header.p_type != PT_NOTE || header.p_memsz > kMostNotes) continue;
        std::vector<std::byte> notes(header.p_memsz);
        if (!read_bytes(memory_, Address{bias_ + header.p_vaddr}, notes)) continue;
        const std::size_t align = header.p_align == 8 ? 8 : 4;
        const auto padded = [&](std::uint32_t size) {
            return (std::size_t{size} + align - 1) / align * align;
        };
        for (std::size_t at = 0; at + kHeader <= notes.size();) {
            const auto name_size = load<std::uint32_t>(notes.data(), at);
            const auto id_size = load<std::uint32_t>(notes.data(), at + 4);
            const auto type = load<std::uint32_t>(notes.data(), at + 8);
            const std::size_t id = at + kHeader + padded(name_size);
            if (id > notes.size() || id_size > notes.size() - id) break;
            if (type == NT_GNU_BUILD_ID && name_size == 4 &&
                std::memcmp(&notes[at + kHeader], "GNU", 4) == 0) {
                return hex_of({notes.data() + id, id_size});
            }
            at = id + padded(id_size);
        }
    }
    return {};
}

// To the end of the segment that holds the address.
std::optional<ModuleFile::Contents> MemoryModule::read_from(FileAddress address) {
    for (const Elf64_Phdr& header : headers_) {
        const std::uint64_t at = raw(address) - header.p_vaddr;
        if (header.p_type != PT_LOAD || raw(address) < header.p_vaddr || at >= header.p_filesz) continue;
        if (header.p_filesz - at > kLargestSection) return {};
        Contents contents{address, std::vector<std::byte>(header.p_filesz - at)};
        if (!read_bytes(memory_, Address{bias_ + raw(address)}, contents.bytes)) return {};
        return contents;
    }
    return {};
}

// PT_GNU_EH_FRAME holds .eh_frame_hdr, whose second word leads to .eh_frame, relative to its own place in the
// one form that linkers write (Linux Standard Base, "Exception Frames", 10.6.2).
std::optional<ModuleFile::Contents> MemoryModule::read_section(std::string_view name) {
    constexpr std::byte kVersion{1};
    constexpr std::byte kRelativeToItself4{0x1b};  // DW_EH_PE_pcrel | DW_EH_PE_sdata4
    for (const Elf64_Phdr& header : headers_) {
        if (header.p_type != PT_GNU_EH_FRAME || header.p_memsz < 12 || header.p_memsz > kLargestSection)
            continue;
        const FileAddress address{header.p_vaddr};
        Contents table{address, std::vector<std::byte>(header.p_memsz)};
        if (!read_bytes(memory_, Address{bias_ + header.p_vaddr}, table.bytes)) return {};
        if (name == ".eh_frame_hdr") return table;
        if (name != ".eh_frame" || table.bytes[0] != kVersion || table.bytes[1] != kRelativeToItself4)
            return {};
        const auto offset = load<std::int32_t>(table.bytes.data(), 4);
        return read_from(FileAddress{header.p_vaddr + 4 + static_cast<std::uint64_t>(std::int64_t{offset})});
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<ModuleFile>> open_memory_module(Memory& memory, Address base,
                                                       const std::string& name) {
    const auto header = read_value<Elf64_Ehdr>(memory, base);
    const bool is_elf = header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
                        header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
                        header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phnum <= kMostHeaders;
    if (!is_elf) return fail(ExitCode::kFailure, fmt::format("'{}' is not an ELF file in memory", name));
    std::vector<Elf64_Phdr> headers(header->e_phnum);
    if (!read_bytes(memory, base + header->e_phoff, std::as_writable_bytes(std::span(headers)))) {
        return fail(ExitCode::kFailure, fmt::format("the headers of '{}' can't be read from memory", name));
    }
    const auto first = std::find_if(headers.begin(), headers.end(), [](const Elf64_Phdr& h) {
        return h.p_type == PT_LOAD && h.p_offset == 0;
    });
    if (first == headers.end()) {
        return fail(ExitCode::kFailure, fmt::format("'{}' has no segment at its start", name));
    }
    const std::uint64_t bias = raw(base) - first->p_vaddr;
    return std::make_unique<MemoryModule>(memory, std::move(headers), bias);
}

}  // namespace pyprof
