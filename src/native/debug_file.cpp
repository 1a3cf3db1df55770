// SPDX-License-Identifier: Apache-2.0
//
// The places are those of GDB's manual, "Debugging Information in Separate Files".
#include "native/debug_file.h"

#include "elf/hex.h"
#include "target/proc_files.h"

#include <pyprof/memory.h>

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>

namespace pyprof {
namespace {

constexpr const char* kDebugDirectory = "/usr/lib/debug";
constexpr std::uint64_t kLargestChecked = std::uint64_t{4} << 30;

std::optional<std::uint32_t> checksum_of(int file) {
    std::vector<Bytef> buffer(std::size_t{1} << 20);
    uLong sum = ::crc32(0, nullptr, 0);
    for (std::uint64_t at = 0; at < kLargestChecked;) {
        const ssize_t got = ::pread(file, buffer.data(), buffer.size(), static_cast<off_t>(at));
        if (got < 0) return std::nullopt;
        if (got == 0) return static_cast<std::uint32_t>(sum);
        sum = ::crc32(sum, buffer.data(), static_cast<uInt>(got));
        at += static_cast<std::uint64_t>(got);
    }
    return std::nullopt;
}

struct Link {
    std::string name;
    std::uint32_t checksum = 0;
};

std::optional<Link> link_of(const ElfImage& image) {
    const auto section = image.find_section(".gnu_debuglink");
    if (!section) return std::nullopt;
    const auto bytes = ElfImage::bytes_of(*section);
    const auto end = std::find(bytes.begin(), bytes.end(), std::byte{0});
    const auto length = static_cast<std::size_t>(end - bytes.begin());
    const std::size_t at = (length + 4) & ~std::size_t{3};
    if (end == bytes.end() || length == 0 || at + 4 > bytes.size()) return std::nullopt;
    Link link;
    for (const std::byte byte : bytes.first(length)) link.name += static_cast<char>(byte);
    if (link.name.find('/') != std::string::npos) return std::nullopt;
    link.checksum = load<std::uint32_t>(bytes.data(), at);
    return link;
}

bool has_debug_information(const ElfImage& image) {
    return image.find_section(".debug_info") || image.find_section(".zdebug_info") || image.find_section(".symtab");
}

}  // namespace

std::optional<ElfImage> find_debug_file(const ElfImage& stripped, const std::string& path, const DebugSearch& search) {
    const std::vector<std::byte> id = stripped.build_id();
    const auto belongs = [&](const ElfImage& image) { return image.build_id() == id && has_debug_information(image); };
    if (id.size() > 1) {
        const std::string hex = hex_of(id);
        const std::string below = std::string(kDebugDirectory) + "/.build-id/" + hex.substr(0, 2) + "/" + hex.substr(2) + ".debug";
        for (const std::string& root : search.roots) {
            auto image = ElfImage::open(open_regular(root + below));
            if (image && belongs(*image)) return image;
        }
    }
    if (const auto link = link_of(stripped)) {
        const std::string directory = path.substr(0, path.rfind('/') + 1);
        for (const std::string& root : search.roots) {
            for (const std::string& place : {directory, directory + ".debug/", kDebugDirectory + directory}) {
                UniqueFd file = open_regular(root + place + link->name);
                if (!file || (id.empty() && checksum_of(file.get()) != link->checksum)) continue;
                auto image = ElfImage::open(std::move(file));
                if (image && (id.empty() || belongs(*image))) return image;
            }
        }
    }
    if (search.download && id.size() > 1) {
        auto image = ElfImage::open(search.download(id));
        if (image && belongs(*image)) return image;
    }
    return std::nullopt;
}

}  // namespace pyprof
