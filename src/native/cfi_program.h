// SPDX-License-Identifier: Apache-2.0
//
// Runs the instructions of call frame information up to an address (DWARF 5, 6.4.2).
#pragma once

#include "native/unwind_row.h"

#include <pyprof/address.h>

#include <cstdint>
#include <optional>
#include <span>

namespace pyprof {

struct CfiProgram {
    std::span<const std::byte> section;  // all of it; the two programs are parts
    std::size_t common = 0;              // what every function of this kind starts with
    std::size_t common_end = 0;
    std::size_t own = 0;
    std::size_t own_end = 0;
    std::uint64_t code_factor = 1;
    std::int64_t data_factor = 1;
    std::uint8_t pointer_encoding = 0;  // of DW_CFA_set_loc
    FileAddress section_address{};
    FileAddress function{};
};

struct CfiRow {
    UnwindRow row;
    std::optional<FileAddress> end;  // where the next row begins; none: it is the last of the function
};

// Empty when the program can't be understood.
std::optional<CfiRow> run_cfi_program(const CfiProgram& program, FileAddress address);

// A pointer in one of the forms of DW_EH_PE_* (Linux Standard Base, 10.5.1). `section_address` is where byte
// 0 of the reader's section is loaded. Empty: omitted, or a form that can't be resolved in a file.
class DwarfReader;
std::optional<std::uint64_t> take_encoded_pointer(DwarfReader& reader, std::uint8_t encoding,
                                                  FileAddress section_address);

}  // namespace pyprof
