// SPDX-License-Identifier: Apache-2.0
//
// One .eh_frame or .debug_frame: which function an address lies in, and the row for it. The bytes may be torn
// or hostile: every offset and length is checked, and what does not add up is no row.
#pragma once

#include "native/unwind_row.h"

#include <pyprof/target.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pyprof {

class CfiSection {
public:
    enum class Kind : std::uint8_t { kEhFrame, kDebugFrame };

    // With `search_table`, the .eh_frame_hdr of the file, nothing is read in advance; without it all entries
    // are listed now, some 30 ns each.
    CfiSection(Kind kind, ModuleFile::Contents contents, std::optional<ModuleFile::Contents> search_table);

    struct Found {
        UnwindRow row;
        FileAddress function{};  // the start of what the entry describes
        FileAddress end{};       // the first address behind `address` for which another row counts
    };
    [[nodiscard]] std::optional<Found> find(FileAddress address) const;

    // Starts of all entries, for tests that compare all of them with another reader.
    [[nodiscard]] std::vector<FileAddress> function_starts() const;

private:
    // What a function's entry shares with others.
    struct Common {
        std::uint64_t code_factor = 1;
        std::int64_t data_factor = 1;
        std::uint64_t return_register = 0;
        std::uint8_t pointer_encoding = 0;  // DW_EH_PE_absptr
        bool has_augmentation = false;
        bool is_signal_frame = false;
        std::size_t program = 0;
        std::size_t program_end = 0;
    };
    struct Entry {
        FileAddress start{};
        FileAddress end{};
        Common common;
        std::size_t program = 0;
        std::size_t program_end = 0;
    };
    struct Header {  // of either kind of entry
        std::size_t body = 0;
        std::size_t end = 0;
        bool is_common = false;
        std::size_t common = 0;  // where the common part of a function's entry stands
        bool is_terminator = false;
    };
    struct Listed {
        FileAddress start{};
        std::size_t offset = 0;
    };

    [[nodiscard]] std::optional<Header> read_header(std::size_t offset) const;
    [[nodiscard]] std::optional<Common> read_common(std::size_t offset) const;
    [[nodiscard]] std::optional<Entry> read_entry(std::size_t offset) const;
    void use_table();
    void list_entries();
    [[nodiscard]] std::optional<std::size_t> offset_of(FileAddress address) const;
    [[nodiscard]] Listed table_row(std::size_t index) const;

    Kind kind_;
    ModuleFile::Contents contents_;
    ModuleFile::Contents table_;
    std::size_t table_rows_ = 0;  // 0: there is no table that we can use
    std::vector<Listed> listed_;  // sorted, where there is no table
};

}  // namespace pyprof
