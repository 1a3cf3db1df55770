// SPDX-License-Identifier: Apache-2.0
//
// The two sections differ in few things: how an entry refers to its common part, and that .eh_frame writes
// addresses in forms of its own (Linux Standard Base, 10.6; DWARF 5, 6.4.1 and 7.24).
#include "native/cfi_section.h"

#include "native/cfi_program.h"
#include "native/dwarf_reader.h"

#include <dwarf.h>
#include <algorithm>
#include <cstring>
#include <string_view>

namespace pyprof {
namespace {

constexpr std::size_t kTableHead = 12;
constexpr std::size_t kTableRow = 8;

}  // namespace

CfiSection::CfiSection(Kind kind, ModuleFile::Contents contents,
                       std::optional<ModuleFile::Contents> search_table)
    : kind_(kind), contents_(std::move(contents)) {
    if (search_table) table_ = std::move(*search_table);
    use_table();
    if (table_rows_ == 0) list_entries();
}

// The one form that all linkers write: 32 bits, relative to the table.
void CfiSection::use_table() {
    const auto& bytes = table_.bytes;
    if (kind_ != Kind::kEhFrame || bytes.size() < kTableHead) return;
    const auto byte_at = [&](std::size_t at) { return std::to_integer<std::uint8_t>(bytes[at]); };
    const bool is_known = byte_at(0) == 1 && byte_at(1) == (DW_EH_PE_pcrel | DW_EH_PE_sdata4) &&
                          byte_at(2) == DW_EH_PE_udata4 && byte_at(3) == (DW_EH_PE_datarel | DW_EH_PE_sdata4);
    if (!is_known) return;
    const std::size_t rows = load<std::uint32_t>(bytes.data(), 8);
    if (rows <= (bytes.size() - kTableHead) / kTableRow) table_rows_ = rows;
}

CfiSection::Listed CfiSection::table_row(std::size_t index) const {
    const std::size_t at = kTableHead + index * kTableRow;
    const auto place = [&](std::size_t offset) {
        return raw(table_.address) +
               static_cast<std::uint64_t>(std::int64_t{load<std::int32_t>(table_.bytes.data(), offset)});
    };
    return {FileAddress{place(at)}, static_cast<std::size_t>(place(at + 4) - raw(contents_.address))};
}

std::optional<std::size_t> CfiSection::offset_of(FileAddress address) const {
    if (table_rows_ == 0) {
        const auto after =
            std::upper_bound(listed_.begin(), listed_.end(), address,
                             [](FileAddress at, const Listed& entry) { return raw(at) < raw(entry.start); });
        if (after == listed_.begin()) return std::nullopt;
        return std::prev(after)->offset;
    }
    std::size_t low = 0;  // rows before it start at or below the address
    std::size_t high = table_rows_;
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        if (raw(table_row(middle).start) <= raw(address)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) return std::nullopt;
    return table_row(low - 1).offset;
}

std::optional<CfiSection::Header> CfiSection::read_header(std::size_t offset) const {
    DwarfReader in(contents_.bytes, offset);
    std::uint64_t length = in.take<std::uint32_t>();
    const bool is_long = length == 0xffffffff;
    if (is_long) length = in.take<std::uint64_t>();
    if (in.has_failed() || length > contents_.bytes.size() - in.position()) return std::nullopt;
    Header header;
    header.end = in.position() + static_cast<std::size_t>(length);
    if (length == 0) {
        header.is_terminator = true;
        return header;
    }
    const std::size_t field = in.position();
    const bool is_eh = kind_ == Kind::kEhFrame;
    const std::uint64_t id = is_long && !is_eh ? in.take<std::uint64_t>() : in.take<std::uint32_t>();
    if (in.has_failed() || in.position() > header.end) return std::nullopt;
    header.body = in.position();
    // .eh_frame counts back from the field itself, .debug_frame from the start of the section.
    const std::uint64_t common_id = is_eh ? 0 : is_long ? ~std::uint64_t{0} : 0xffffffff;
    header.is_common = id == common_id;
    if (!header.is_common) {
        if (is_eh ? id > field : id >= contents_.bytes.size()) return std::nullopt;
        header.common = is_eh ? field - static_cast<std::size_t>(id) : static_cast<std::size_t>(id);
    }
    return header;
}

std::optional<CfiSection::Common> CfiSection::read_common(std::size_t offset) const {
    const auto header = read_header(offset);
    if (!header || header->is_terminator || !header->is_common) return std::nullopt;
    DwarfReader in(std::span(contents_.bytes).first(header->end), header->body);
    const auto version = in.take<std::uint8_t>();
    if (version != 1 && version != 3 && version != 4) return std::nullopt;
    const auto* text = reinterpret_cast<const char*>(in.here());
    const std::size_t text_size = ::strnlen(text, header->end - in.position());
    const std::string_view augmentation(text, text_size);
    static_cast<void>(in.take_bytes(std::uint64_t{text_size} + 1));
    Common common;
    if (version == 4 && (in.take<std::uint8_t>() != 8 || in.take<std::uint8_t>() != 0)) return std::nullopt;
    common.code_factor = in.take_uleb();
    common.data_factor = in.take_sleb();
    common.return_register = version == 1 ? in.take<std::uint8_t>() : in.take_uleb();
    common.program_end = header->end;
    if (augmentation.starts_with('z')) {
        common.has_augmentation = true;
        const std::uint64_t size = in.take_uleb();
        const std::size_t start = in.position();
        for (const char letter : augmentation.substr(1)) {
            if (letter == 'R') {
                common.pointer_encoding = in.take<std::uint8_t>();
            } else if (letter == 'P') {
                const auto encoding = in.take<std::uint8_t>();
                // Only its length matters; where it leads to may be told in ways that need more than a file.
                static_cast<void>(take_encoded_pointer(in, encoding & 0x0fU, contents_.address));
            } else if (letter == 'L') {
                static_cast<void>(in.take<std::uint8_t>());
            } else if (letter == 'S') {
                common.is_signal_frame = true;
            } else if (letter != 'B') {
                return std::nullopt;  // nobody can tell what follows
            }
        }
        if (in.has_failed() || size > header->end - start) return std::nullopt;
        common.program = start + static_cast<std::size_t>(size);
    } else if (augmentation.empty()) {
        common.program = in.position();
    } else {
        return std::nullopt;
    }
    if (in.has_failed() || common.return_register != RegisterSet::kReturnAddress) return std::nullopt;
    return common;
}

std::optional<CfiSection::Entry> CfiSection::read_entry(std::size_t offset) const {
    const auto header = read_header(offset);
    if (!header || header->is_terminator || header->is_common) return std::nullopt;
    const auto common = read_common(header->common);
    if (!common) return std::nullopt;
    DwarfReader in(std::span(contents_.bytes).first(header->end), header->body);
    const auto start = take_encoded_pointer(in, common->pointer_encoding, contents_.address);
    // The length has the size of the pointer but is relative to nothing.
    const auto length = take_encoded_pointer(in, common->pointer_encoding & 0x0fU, contents_.address);
    if (!start || !length || *length > ~*start) return std::nullopt;
    Entry entry{FileAddress{*start}, FileAddress{*start + *length}, *common, 0, header->end};
    if (common->has_augmentation) static_cast<void>(in.take_bytes(in.take_uleb()));
    if (in.has_failed()) return std::nullopt;
    entry.program = in.position();
    return entry;
}

void CfiSection::list_entries() {
    for (std::size_t offset = 0; offset < contents_.bytes.size();) {
        const auto header = read_header(offset);
        if (!header || (header->is_terminator && kind_ == Kind::kEhFrame)) break;
        if (!header->is_terminator && !header->is_common) {
            if (const auto entry = read_entry(offset)) listed_.push_back({entry->start, offset});
        }
        offset = header->end;
    }
    std::stable_sort(listed_.begin(), listed_.end(), [](const Listed& left, const Listed& right) {
        return raw(left.start) < raw(right.start);
    });
}

std::vector<FileAddress> CfiSection::function_starts() const {
    std::vector<FileAddress> starts;
    for (const Listed& entry : listed_) starts.push_back(entry.start);
    for (std::size_t i = 0; i < table_rows_; ++i) starts.push_back(table_row(i).start);
    return starts;
}

std::optional<CfiSection::Found> CfiSection::find(FileAddress address) const {
    const auto offset = offset_of(address);
    const auto entry = offset ? read_entry(*offset) : std::nullopt;
    if (!entry || raw(address) < raw(entry->start) || raw(address) >= raw(entry->end)) return std::nullopt;
    CfiProgram program;
    program.section = contents_.bytes;
    program.common = entry->common.program;
    program.common_end = entry->common.program_end;
    program.own = entry->program;
    program.own_end = entry->program_end;
    program.code_factor = entry->common.code_factor;
    program.data_factor = entry->common.data_factor;
    program.pointer_encoding = entry->common.pointer_encoding;
    program.section_address = contents_.address;
    program.function = entry->start;
    auto run = run_cfi_program(program, address);
    if (!run) return std::nullopt;
    Found found{run->row, entry->start, entry->end};
    UnwindRow& row = found.row;
    row.is_signal_frame = entry->common.is_signal_frame;
    const auto rules = row.all_rules();
    row.is_plain =
        !row.is_signal_frame && std::all_of(rules.begin(), rules.end(), [](const RegisterRule& rule) {
            return rule.kind == RegisterRule::Kind::kAtOffset;
        });
    if (run->end && raw(*run->end) < raw(entry->end)) found.end = *run->end;
    return found;
}

}  // namespace pyprof
