// SPDX-License-Identifier: Apache-2.0
//
// gelf_* of elfutils. Everything is looked up when asked for: a process maps hundreds of files, and most
// are asked for one symbol.
#include "elf/elf_module.h"

#include "elf/hex.h"

#include <fmt/format.h>

#include <gelf.h>
#include <libelf.h>
#include <cstring>
#include <mutex>
#include <span>

namespace pyprof {
namespace {

constexpr std::size_t kLargestSection = std::size_t{256} << 20;

struct EndElf {
    void operator()(Elf* elf) const { elf_end(elf); }
};
using UniqueElf = std::unique_ptr<Elf, EndElf>;

class ElfModule final : public ModuleFile {
public:
    ElfModule(UniqueFd file, UniqueElf elf) : file_(std::move(file)), elf_(std::move(elf)) {}

    std::optional<Section> find_section(std::string_view name) override;
    std::optional<Section> find_symbol(std::string_view name) override;
    std::vector<Segment> load_segments() override;
    std::string build_id() override;
    std::optional<Contents> read_section(std::string_view name) override;
    int descriptor() const override { return file_.get(); }

private:
    std::optional<Section> find_symbol_in(GElf_Word table_type, std::string_view name);

    UniqueFd file_;  // read by elf_, so it goes after it
    UniqueElf elf_;
};

std::optional<ModuleFile::Section> ElfModule::find_section(std::string_view name) {
    std::size_t names = 0;
    if (elf_getshdrstrndx(elf_.get(), &names) != 0) return {};
    for (Elf_Scn* scn = nullptr; (scn = elf_nextscn(elf_.get(), scn)) != nullptr;) {
        GElf_Shdr header;
        if (gelf_getshdr(scn, &header) == nullptr || (header.sh_flags & SHF_ALLOC) == 0) continue;
        const char* own = elf_strptr(elf_.get(), names, header.sh_name);
        if (own != nullptr && name == own) return Section{FileAddress{header.sh_addr}, header.sh_size};
    }
    return {};
}

std::optional<ModuleFile::Contents> ElfModule::read_section(std::string_view name) {
    std::size_t names = 0;
    if (elf_getshdrstrndx(elf_.get(), &names) != 0) return {};
    for (Elf_Scn* scn = nullptr; (scn = elf_nextscn(elf_.get(), scn)) != nullptr;) {
        GElf_Shdr header;
        if (gelf_getshdr(scn, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
        const char* own = elf_strptr(elf_.get(), names, header.sh_name);
        if (own == nullptr || name != own) continue;
        // Unpacking again is refused, and then it is unpacked already.
        if ((header.sh_flags & SHF_COMPRESSED) != 0) elf_compress(scn, 0, 0);
        const Elf_Data* data = elf_getdata(scn, nullptr);
        if (data == nullptr || data->d_buf == nullptr || data->d_size > kLargestSection) return {};
        const auto bytes = std::as_bytes(std::span(static_cast<const char*>(data->d_buf), data->d_size));
        return Contents{FileAddress{header.sh_addr}, {bytes.begin(), bytes.end()}};
    }
    return {};
}

std::optional<ModuleFile::Section> ElfModule::find_symbol(std::string_view name) {
    if (auto found = find_symbol_in(SHT_DYNSYM, name)) return found;
    return find_symbol_in(SHT_SYMTAB, name);
}

std::optional<ModuleFile::Section> ElfModule::find_symbol_in(GElf_Word table_type, std::string_view name) {
    for (Elf_Scn* scn = nullptr; (scn = elf_nextscn(elf_.get(), scn)) != nullptr;) {
        GElf_Shdr header;
        if (gelf_getshdr(scn, &header) == nullptr || header.sh_type != table_type || header.sh_entsize == 0)
            continue;
        Elf_Data* data = elf_getdata(scn, nullptr);
        if (data == nullptr) continue;
        const std::size_t count = data->d_size / header.sh_entsize;
        for (std::size_t i = 0; i < count && i <= 0x7fffffff; ++i) {
            GElf_Sym symbol;
            if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
            if (symbol.st_shndx == SHN_UNDEF || GELF_ST_TYPE(symbol.st_info) == STT_TLS) continue;
            const char* own = elf_strptr(elf_.get(), header.sh_link, symbol.st_name);
            if (own != nullptr && name == own) return Section{FileAddress{symbol.st_value}, symbol.st_size};
        }
    }
    return {};
}

std::vector<ModuleFile::Segment> ElfModule::load_segments() {
    std::vector<Segment> segments;
    std::size_t count = 0;
    if (elf_getphdrnum(elf_.get(), &count) != 0) return segments;
    for (std::size_t i = 0; i < count && i <= 0xffff; ++i) {
        GElf_Phdr header;
        if (gelf_getphdr(elf_.get(), static_cast<int>(i), &header) == nullptr || header.p_type != PT_LOAD)
            continue;
        segments.push_back({FileAddress{header.p_vaddr}, header.p_offset, header.p_filesz, header.p_memsz,
                            (header.p_flags & PF_W) != 0});
    }
    return segments;
}

std::string ElfModule::build_id() {
    constexpr std::size_t kLongestId = 64;
    for (Elf_Scn* scn = nullptr; (scn = elf_nextscn(elf_.get(), scn)) != nullptr;) {
        GElf_Shdr header;
        if (gelf_getshdr(scn, &header) == nullptr || header.sh_type != SHT_NOTE) continue;
        Elf_Data* data = elf_getdata(scn, nullptr);
        GElf_Nhdr note;
        std::size_t name = 0;
        std::size_t id = 0;
        for (std::size_t at = 0; data != nullptr && (at = gelf_getnote(data, at, &note, &name, &id)) > 0;) {
            const auto* bytes = static_cast<const unsigned char*>(data->d_buf);
            const bool is_gnu = note.n_namesz == 4 && std::memcmp(bytes + name, "GNU", 4) == 0;
            if (is_gnu && note.n_type == NT_GNU_BUILD_ID && note.n_descsz <= kLongestId) {
                return hex_of(std::as_bytes(std::span(bytes + id, note.n_descsz)));
            }
        }
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<ModuleFile>> open_elf_module(UniqueFd file, const std::string& name) {
    static std::once_flag once;
    std::call_once(once, [] { elf_version(EV_CURRENT); });
    UniqueElf elf(elf_begin(file.get(), ELF_C_READ, nullptr));
    if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF) {
        return fail(ExitCode::kFailure, fmt::format("'{}' is not an ELF file", name));
    }
    GElf_Ehdr header;
    if (gelf_getehdr(elf.get(), &header) == nullptr || gelf_getclass(elf.get()) != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB) {
        return fail(ExitCode::kFailure, fmt::format("'{}' is not a 64-bit little-endian ELF file", name));
    }
    return std::make_unique<ElfModule>(std::move(file), std::move(elf));
}

}  // namespace pyprof
