// SPDX-License-Identifier: Apache-2.0
#include "native/elf_image.h"

#include <cstring>
#include <mutex>

namespace pyprof {
namespace {

constexpr std::size_t kMostSections = 4096;
constexpr std::size_t kLongestId = 64;

void start_libelf() {
    static std::once_flag once;
    std::call_once(once, [] { elf_version(EV_CURRENT); });
}

}  // namespace

bool ElfImage::is_usable() const {
    GElf_Ehdr header;
    return elf_ != nullptr && elf_kind(elf_.get()) == ELF_K_ELF && gelf_getehdr(elf_.get(), &header) != nullptr &&
           gelf_getclass(elf_.get()) == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB;
}

std::optional<ElfImage> ElfImage::open(UniqueFd file) {
    start_libelf();
    ElfImage image;
    image.file_ = std::move(file);
    if (!image.file_) return std::nullopt;
    image.elf_.reset(elf_begin(image.file_.get(), ELF_C_READ, nullptr));
    if (!image.is_usable()) return std::nullopt;
    return image;
}

std::optional<ElfImage> ElfImage::open(std::vector<char> bytes) {
    start_libelf();
    ElfImage image;
    image.bytes_ = std::move(bytes);
    image.elf_.reset(elf_memory(image.bytes_.data(), image.bytes_.size()));
    if (!image.is_usable()) return std::nullopt;
    return image;
}

std::vector<ElfImage::Section> ElfImage::sections() const {
    std::vector<Section> found;
    std::size_t names = 0;
    if (elf_getshdrstrndx(elf_.get(), &names) != 0) return found;
    for (Elf_Scn* scn = nullptr; (scn = elf_nextscn(elf_.get(), scn)) != nullptr && found.size() < kMostSections;) {
        Section section;
        section.handle = scn;
        if (gelf_getshdr(scn, &section.header) == nullptr) continue;
        const char* name = elf_strptr(elf_.get(), names, section.header.sh_name);
        if (name != nullptr) section.name = name;
        found.push_back(section);
    }
    return found;
}

std::optional<ElfImage::Section> ElfImage::find_section(std::string_view name) const {
    for (const Section& section : sections()) {
        if (section.name == name) return section;
    }
    return std::nullopt;
}

std::span<const std::byte> ElfImage::bytes_of(const Section& section) {
    if (section.header.sh_type == SHT_NOBITS) return {};
    const Elf_Data* data = elf_getdata(section.handle, nullptr);
    if (data == nullptr || data->d_buf == nullptr) return {};
    return {static_cast<const std::byte*>(data->d_buf), data->d_size};
}

std::vector<std::byte> ElfImage::build_id() const {
    for (const Section& section : sections()) {
        if (section.header.sh_type != SHT_NOTE) continue;
        Elf_Data* data = elf_getdata(section.handle, nullptr);
        GElf_Nhdr note;
        std::size_t name = 0;
        std::size_t id = 0;
        for (std::size_t at = 0; data != nullptr && (at = gelf_getnote(data, at, &note, &name, &id)) > 0;) {
            const auto* bytes = static_cast<const std::byte*>(data->d_buf);
            const bool is_gnu = note.n_namesz == 4 && std::memcmp(bytes + name, "GNU", 4) == 0;
            if (!is_gnu || note.n_type != NT_GNU_BUILD_ID || note.n_descsz > kLongestId) continue;
            return {bytes + id, bytes + id + note.n_descsz};
        }
    }
    return {};
}

}  // namespace pyprof
