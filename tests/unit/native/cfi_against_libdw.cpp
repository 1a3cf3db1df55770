// SPDX-License-Identifier: Apache-2.0
//
// Every row of whole files as elfutils reads them: an independent reader of the same bytes. Files that are on
// every machine: libc, libstdc++, libdw, and the interpreter or its library.
#include "elf/elf_module.h"
#include "native/cfi_table.h"

#include <catch2/catch.hpp>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

using namespace pyprof;

namespace {

// What libdw says of a register, in our words; expressions as the bytes' operators alone.
std::string operations_text(const Dwarf_Op* ops, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) {
        text += fmt::format("{:x}:{}:{};", ops[i].atom, static_cast<std::int64_t>(ops[i].number),
                            static_cast<std::int64_t>(ops[i].number2));
    }
    return text;
}

struct LibdwFile {
    explicit LibdwFile(const std::string& path) : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        elf_version(EV_CURRENT);
        elf = elf_begin(fd, ELF_C_READ, nullptr);
        cfi = dwarf_getcfi_elf(elf);
        REQUIRE(cfi != nullptr);
    }
    ~LibdwFile() {
        dwarf_cfi_end(cfi);
        elf_end(elf);
        ::close(fd);
    }
    LibdwFile(const LibdwFile&) = delete;
    LibdwFile& operator=(const LibdwFile&) = delete;
    int fd;
    Elf* elf = nullptr;
    Dwarf_CFI* cfi = nullptr;
};

struct Row {
    std::string text;  // CFA and each register
    std::uint64_t end = 0;
    bool is_signal = false;
};

std::string libdw_register(Dwarf_Frame* frame, int number) {
    Dwarf_Op memory[3];
    Dwarf_Op* ops = nullptr;
    std::size_t count = 0;
    REQUIRE(dwarf_frame_register(frame, number, memory, &ops, &count) == 0);
    if (count == 0) return ops == nullptr ? "same" : "undefined";
    return operations_text(ops, count);
}

// Empty where libdw has none.
std::optional<Row> libdw_row(const LibdwFile& file, std::uint64_t address) {
    Dwarf_Frame* frame = nullptr;
    if (dwarf_cfi_addrframe(file.cfi, address, &frame) != 0) return std::nullopt;
    Row row;
    Dwarf_Addr start = 0;
    Dwarf_Addr end = 0;
    REQUIRE(dwarf_frame_info(frame, &start, &end, &row.is_signal) >= 0);
    row.end = end;
    Dwarf_Op* ops = nullptr;
    std::size_t count = 0;
    REQUIRE(dwarf_frame_cfa(frame, &ops, &count) == 0);
    row.text = "cfa " + operations_text(ops, count);
    for (int number : {3, 6, 7, 12, 13, 14, 15, 16})
        row.text += fmt::format(" r{} {}", number, libdw_register(frame, number));
    std::free(frame);
    return row;
}

// Our row in libdw's words: a register at an offset is call_frame_cfa, plus_uconst, and so on.
std::string own_expression(std::span<const std::byte> bytes) {
    // Parsed by libdw itself would be no check; so only operators with at most one operand are spelt out
    // here.
    std::string text;
    const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
    const auto* end = at + bytes.size();
    while (at < end) {
        const unsigned code = *at++;
        std::int64_t operand = 0;
        if (code >= DW_OP_breg0 && code <= DW_OP_breg31) {
            unsigned shift = 0;
            unsigned byte = 0x80;
            while ((byte & 0x80U) != 0 && at < end) {
                byte = *at++;
                operand |= static_cast<std::int64_t>(byte & 0x7fU) << shift;
                shift += 7;
            }
            if ((byte & 0x40U) != 0 && shift < 64) operand |= -(std::int64_t{1} << shift);
        } else if (code == DW_OP_plus_uconst) {
            unsigned shift = 0;
            unsigned byte = 0x80;
            while ((byte & 0x80U) != 0 && at < end) {
                byte = *at++;
                operand |= static_cast<std::int64_t>(byte & 0x7fU) << shift;
                shift += 7;
            }
        } else if (code == DW_OP_const1u) {
            operand = *at++;
        }
        text += fmt::format("{:x}:{}:0;", code, operand);
    }
    return text;
}

std::string own_rule(const UnwindRow& row, const RegisterRule* rule) {
    using Kind = RegisterRule::Kind;
    if (rule == nullptr || rule->kind == Kind::kSame) return "same";
    const auto at_cfa = [&] {
        return fmt::format("{:x}:0:0;", DW_OP_call_frame_cfa) +
               (rule->value == 0 ? ""
                                 : fmt::format("{:x}:{}:0;", DW_OP_plus_uconst, std::int64_t{rule->value}));
    };
    switch (rule->kind) {
        case Kind::kUndefined:
            return "undefined";
        case Kind::kAtOffset:
            return at_cfa();
        case Kind::kIsOffset:
            return at_cfa() + fmt::format("{:x}:0:0;", DW_OP_stack_value);
        case Kind::kInRegister:
            return fmt::format("{:x}:{}:0;", DW_OP_regx, rule->value);
        case Kind::kAtExpression:  // which starts with the CFA on its stack
            return fmt::format("{:x}:0:0;", DW_OP_call_frame_cfa) +
                   own_expression(row.expression(rule->value, rule->size));
        default:
            return "?";
    }
}

std::string own_text(const UnwindRow& row) {
    std::string text = "cfa ";
    if (row.cfa == UnwindRow::Cfa::kRegister) {
        text += fmt::format("{:x}:{}:{};", DW_OP_bregx, row.cfa_register, row.cfa_value);
    } else {
        text += own_expression(row.expression(row.cfa_value, row.cfa_size));
    }
    for (unsigned number : {3U, 6U, 7U, 12U, 13U, 14U, 15U, 16U}) {
        const RegisterRule* found = nullptr;
        for (const RegisterRule& rule : row.all_rules()) {
            if (rule.number == number) found = &rule;
        }
        // The ABI's word for the stack pointer: it is the CFA.
        const bool is_sp = number == RegisterSet::kRsp && found == nullptr;
        // libdw 0.188 takes rax for rbx where it knows what the ABI keeps (backends/x86_64_cfi.c).
        const bool is_rbx = number == RegisterSet::kRbx && found == nullptr;
        text +=
            fmt::format(" r{} {}", number,
                        is_rbx  ? "undefined"
                        : is_sp ? fmt::format("{:x}:0:0;{:x}:0:0;", DW_OP_call_frame_cfa, DW_OP_stack_value)
                                : own_rule(row, found));
    }
    return text;
}

struct Compared {
    std::size_t rows = 0;
    std::set<std::string> different;
};

Compared compare_file(const std::string& path, std::size_t every) {
    Compared result;
    const LibdwFile reference(path);
    auto module = open_elf_module(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), path);
    REQUIRE(module);
    const CfiTable table(**module);
    REQUIRE_FALSE(table.sections().empty());
    const auto starts = table.sections().front().function_starts();
    REQUIRE_FALSE(starts.empty());
    for (std::size_t i = 0; i < starts.size(); i += every) {
        const FileAddress start = starts[i];
        auto own = table.find(start);
        for (std::uint64_t at = raw(start); own; own = table.find(FileAddress{at})) {
            const auto expected = libdw_row(reference, at);
            ++result.rows;
            const std::string text = own_text(own->row);
            if (!expected || expected->text != text || expected->end != raw(own->end) ||
                expected->is_signal != own->row.is_signal_frame) {
                result.different.insert(fmt::format("{:x}: {} until {:x}, libdw: {} until {:x}", at, text,
                                                    raw(own->end), expected ? expected->text : "none",
                                                    expected ? expected->end : 0));
            }
            at = raw(own->end);
            if (own->function != start) break;
        }
    }
    return result;
}

std::vector<std::string> files() {
    std::vector<std::string> found;
    for (const char* path :
         {"/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
          "/usr/lib/x86_64-linux-gnu/libdw.so.1", "/usr/bin/python3", "/lib64/ld-linux-x86-64.so.2"}) {
        if (std::filesystem::exists(path)) found.emplace_back(path);
    }
    // PYPROF_CFI_FILES, paths with colons between them, adds more and has every function looked at, not each
    // fourth.
    if (const char* more = std::getenv("PYPROF_CFI_FILES")) {
        std::string list(more);
        for (std::size_t at = 0; at < list.size();) {
            const std::size_t end = std::min(list.find(':', at), list.size());
            found.push_back(list.substr(at, end - at));
            at = end + 1;
        }
    }
    return found;
}

}  // namespace

TEST_CASE("cfi: the rows of real files are as elfutils reads it") {
    const auto paths = files();
    REQUIRE_FALSE(paths.empty());
    const bool takes_all = std::getenv("PYPROF_CFI_FILES") != nullptr;
    for (const std::string& path : paths) {
        const Compared compared = compare_file(path, takes_all ? 1 : 8);
        INFO(path << ": " << compared.different.size() << " of " << compared.rows << " rows differ, first: "
                  << (compared.different.empty() ? "" : *compared.different.begin()));
        CHECK(compared.rows > 100);
        CHECK(compared.different.empty());
        if (takes_all) WARN(path << ": " << compared.rows << " rows");
    }
}

TEST_CASE("cfi: without its search table a section is read to the same rows") {
    const std::string path = "/lib/x86_64-linux-gnu/libc.so.6";
    if (!std::filesystem::exists(path)) return;
    auto module = open_elf_module(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), path);
    REQUIRE(module);
    auto contents = (*module)->read_section(".eh_frame");
    REQUIRE(contents);
    const CfiSection with(CfiSection::Kind::kEhFrame, *contents, (*module)->read_section(".eh_frame_hdr"));
    const CfiSection without(CfiSection::Kind::kEhFrame, *contents, std::nullopt);
    const auto starts = with.function_starts();
    CHECK(starts.size() > 1000);
    CHECK(without.function_starts() == starts);
    for (const FileAddress start : starts) {
        const auto left = with.find(start);
        const auto right = without.find(start);
        REQUIRE(left.has_value() == right.has_value());
        if (left) REQUIRE(own_text(left->row) == own_text(right->row));
    }
}
