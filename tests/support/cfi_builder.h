// SPDX-License-Identifier: Apache-2.0
//
// .eh_frame and .debug_frame written by hand: one common part and functions that use it.
#pragma once

#include "native/cfi_section.h"

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

namespace pyprof::test {

class CfiBuilder {
public:
    using Codes = std::vector<int>;
    static constexpr std::uint64_t kSection = 0x100000;  // where .eh_frame is loaded

    explicit CfiBuilder(CfiSection::Kind kind, const Codes& program, const char* augmentation = "zR")
        : kind_(kind) {
        std::vector<std::byte> body;
        put<std::uint32_t>(body, kind == CfiSection::Kind::kEhFrame ? 0 : 0xffffffff);
        const bool is_eh = kind == CfiSection::Kind::kEhFrame;
        put<std::uint8_t>(body, is_eh ? 1 : 4);
        const std::string text = is_eh ? augmentation : "";
        for (const char c : text) put<std::uint8_t>(body, static_cast<std::uint8_t>(c));
        put<std::uint8_t>(body, 0);
        if (!is_eh) put<std::uint16_t>(body, 8);  // size of an address; no segments
        put<std::uint8_t>(body, 1);               // code factor
        put<std::uint8_t>(body, 0x78);            // data factor -8
        put<std::uint8_t>(body, 16);              // the return address
        if (text.find('R') != std::string::npos) {
            put<std::uint8_t>(body, 1);
            put<std::uint8_t>(body, 0x1b);  // relative to its place, 32 bits
        }
        put_codes(body, program);
        add_entry(body);
    }

    // Returns where the entry stands.
    std::size_t add_function(std::uint64_t start, std::uint64_t size, const Codes& program) {
        const std::size_t at = bytes.size();
        std::vector<std::byte> body;
        if (kind_ == CfiSection::Kind::kEhFrame) {
            put<std::uint32_t>(body, static_cast<std::uint32_t>(at + 4));
            put<std::uint32_t>(body, static_cast<std::uint32_t>(start - (kSection + at + 8)));
            put<std::uint32_t>(body, static_cast<std::uint32_t>(size));
            put<std::uint8_t>(body, 0);  // no augmentation data
        } else {
            put<std::uint32_t>(body, 0);
            put<std::uint64_t>(body, start);
            put<std::uint64_t>(body, size);
        }
        put_codes(body, program);
        add_entry(body);
        return at;
    }

    [[nodiscard]] ModuleFile::Contents contents() const {
        return {FileAddress{kind_ == CfiSection::Kind::kEhFrame ? kSection : 0}, bytes};
    }
    [[nodiscard]] CfiSection section() const { return {kind_, contents(), std::nullopt}; }

    std::vector<std::byte> bytes;

private:
    template <class T>
    static void put(std::vector<std::byte>& to, T value) {
        const std::size_t at = to.size();
        to.resize(at + sizeof value);
        std::memcpy(to.data() + at, &value, sizeof value);
    }
    static void put_codes(std::vector<std::byte>& to, const Codes& codes) {
        for (const int code : codes) to.push_back(static_cast<std::byte>(code));
    }
    void add_entry(std::vector<std::byte>& body) {
        while (body.size() % 4 != 0) body.push_back(std::byte{0});  // DW_CFA_nop
        put<std::uint32_t>(bytes, static_cast<std::uint32_t>(body.size()));
        bytes.insert(bytes.end(), body.begin(), body.end());
    }

    CfiSection::Kind kind_;
};

}  // namespace pyprof::test
