// SPDX-License-Identifier: Apache-2.0
#include "native/cfi_program.h"

#include "native/dwarf_reader.h"

#include <dwarf.h>
#include <array>
#include <limits>

namespace pyprof {
namespace {

constexpr std::size_t kMostRemembered = 32;

class Machine {
public:
    explicit Machine(const CfiProgram& program) : program_(program), location_(program.function) {}

    // False when the part can't be understood. Ends early when a row begins behind `address`.
    bool run(std::size_t from, std::size_t to, FileAddress address);
    void keep_initial() { initial_ = now_; }
    [[nodiscard]] std::optional<CfiRow> take() const;

private:
    struct State {
        UnwindRow::Cfa cfa = UnwindRow::Cfa::kNone;
        std::uint8_t cfa_register = 0;
        std::int32_t cfa_value = 0;
        std::uint16_t cfa_size = 0;
        std::array<RegisterRule, RegisterSet::kCount> rules;
        std::uint32_t written = 0;  // bits of the registers that have a rule
    };

    bool step(DwarfReader& in, std::uint8_t code);
    bool step_packed(DwarfReader& in, std::uint8_t code, bool& is_packed);
    bool step_cfa(DwarfReader& in, std::uint8_t code, bool& is_cfa);
    bool step_rule(DwarfReader& in, std::uint8_t code);
    void advance(std::uint64_t delta) { move_to(FileAddress{raw(location_) + delta * program_.code_factor}); }
    void move_to(FileAddress location);
    bool write(std::uint64_t number, RegisterRule::Kind kind, std::int64_t value, std::uint16_t size = 0);
    bool write_expression(DwarfReader& in, std::uint64_t number, RegisterRule::Kind kind);
    bool restore(std::uint64_t number);
    bool set_cfa(std::uint64_t number, std::int64_t offset);
    // Where the next block of bytes stands; false when it is too long.
    bool take_block(DwarfReader& in, std::int32_t& at, std::uint16_t& size);
    std::int64_t factored(std::uint64_t value) const {
        return static_cast<std::int64_t>(value * static_cast<std::uint64_t>(program_.data_factor));
    }

    const CfiProgram& program_;
    FileAddress location_;
    FileAddress wanted_{};
    std::optional<FileAddress> next_;
    State now_;
    State initial_;
    std::array<State, kMostRemembered> remembered_;
    std::size_t depth_ = 0;
};

bool fits(std::int64_t value) {
    return value >= std::numeric_limits<std::int32_t>::min() &&
           value <= std::numeric_limits<std::int32_t>::max();
}

void Machine::move_to(FileAddress location) {
    location_ = location;
    if (raw(location) > raw(wanted_)) next_ = location;
}

// Registers behind those of the set (vectors, flags) never take part in a walk.
bool Machine::write(std::uint64_t number, RegisterRule::Kind kind, std::int64_t value, std::uint16_t size) {
    if (number >= RegisterSet::kCount) return true;
    if (!fits(value)) return false;
    const auto index = static_cast<std::uint8_t>(number);
    now_.rules[index] = {kind, index, size, static_cast<std::int32_t>(value)};
    now_.written |= RegisterSet::bit(index);
    return true;
}

bool Machine::take_block(DwarfReader& in, std::int32_t& at, std::uint16_t& size) {
    const std::uint64_t length = in.take_uleb();
    if (length > std::numeric_limits<std::uint16_t>::max() || !fits(static_cast<std::int64_t>(in.position())))
        return false;
    at = static_cast<std::int32_t>(in.position());
    size = static_cast<std::uint16_t>(length);
    static_cast<void>(in.take_bytes(length));
    return !in.has_failed();
}

bool Machine::write_expression(DwarfReader& in, std::uint64_t number, RegisterRule::Kind kind) {
    std::int32_t at = 0;
    std::uint16_t size = 0;
    return take_block(in, at, size) && write(number, kind, at, size);
}

bool Machine::restore(std::uint64_t number) {
    if (number >= RegisterSet::kCount) return true;
    const auto bit = RegisterSet::bit(static_cast<unsigned>(number));
    now_.rules[number] = initial_.rules[number];
    now_.written = (now_.written & ~bit) | (initial_.written & bit);
    return true;
}

bool Machine::set_cfa(std::uint64_t number, std::int64_t offset) {
    if (number >= RegisterSet::kReturnAddress || !fits(offset)) return false;
    now_.cfa = UnwindRow::Cfa::kRegister;
    now_.cfa_register = static_cast<std::uint8_t>(number);
    now_.cfa_value = static_cast<std::int32_t>(offset);
    return true;
}

bool Machine::step_packed(DwarfReader& in, std::uint8_t code, bool& is_packed) {
    const std::uint8_t low = code & 0x3fU;
    is_packed = true;
    switch (code & 0xc0U) {
        case DW_CFA_advance_loc:
            advance(low);
            return true;
        case DW_CFA_offset:
            return write(low, RegisterRule::Kind::kAtOffset, factored(in.take_uleb()));
        case DW_CFA_restore:
            return restore(low);
        default:
            is_packed = false;
            return true;
    }
}

bool Machine::step_cfa(DwarfReader& in, std::uint8_t code, bool& is_cfa) {
    is_cfa = true;
    switch (code) {
        case DW_CFA_def_cfa: {
            const std::uint64_t number = in.take_uleb();
            return set_cfa(number, static_cast<std::int64_t>(in.take_uleb()));
        }
        case DW_CFA_def_cfa_sf: {
            const std::uint64_t number = in.take_uleb();
            return set_cfa(number, factored(static_cast<std::uint64_t>(in.take_sleb())));
        }
        // These two change one half of a rule, so there has to be one.
        case DW_CFA_def_cfa_register:
            return now_.cfa == UnwindRow::Cfa::kRegister && set_cfa(in.take_uleb(), now_.cfa_value);
        case DW_CFA_def_cfa_offset:
            return now_.cfa == UnwindRow::Cfa::kRegister &&
                   set_cfa(now_.cfa_register, static_cast<std::int64_t>(in.take_uleb()));
        case DW_CFA_def_cfa_offset_sf:
            return now_.cfa == UnwindRow::Cfa::kRegister &&
                   set_cfa(now_.cfa_register, factored(static_cast<std::uint64_t>(in.take_sleb())));
        case DW_CFA_def_cfa_expression:
            now_.cfa = UnwindRow::Cfa::kExpression;
            return take_block(in, now_.cfa_value, now_.cfa_size);
        default:
            is_cfa = false;
            return true;
    }
}

bool Machine::step_rule(DwarfReader& in, std::uint8_t code) {
    using Kind = RegisterRule::Kind;
    const std::uint64_t number = in.take_uleb();
    switch (code) {
        case DW_CFA_offset_extended:
            return write(number, Kind::kAtOffset, factored(in.take_uleb()));
        case DW_CFA_offset_extended_sf:
            return write(number, Kind::kAtOffset, factored(static_cast<std::uint64_t>(in.take_sleb())));
        case DW_CFA_GNU_negative_offset_extended:
            return write(number, Kind::kAtOffset, factored(~in.take_uleb() + 1));
        case DW_CFA_val_offset:
            return write(number, Kind::kIsOffset, factored(in.take_uleb()));
        case DW_CFA_val_offset_sf:
            return write(number, Kind::kIsOffset, factored(static_cast<std::uint64_t>(in.take_sleb())));
        case DW_CFA_undefined:
            return write(number, Kind::kUndefined, 0);
        case DW_CFA_same_value:
            return write(number, Kind::kSame, 0);
        case DW_CFA_register: {
            const std::uint64_t other = in.take_uleb();
            return other < RegisterSet::kCount &&
                   write(number, Kind::kInRegister, static_cast<std::int64_t>(other));
        }
        case DW_CFA_expression:
            return write_expression(in, number, Kind::kAtExpression);
        case DW_CFA_val_expression:
            return write_expression(in, number, Kind::kIsExpression);
        case DW_CFA_restore_extended:
            return restore(number);
        default:
            return false;
    }
}

bool Machine::step(DwarfReader& in, std::uint8_t code) {
    bool is_done = false;
    if (const bool is_good = step_packed(in, code, is_done); is_done || !is_good) return is_good;
    switch (code) {
        case DW_CFA_nop:
            return true;
        case DW_CFA_set_loc: {
            const auto to = take_encoded_pointer(in, program_.pointer_encoding, program_.section_address);
            if (!to || *to < raw(location_)) return false;
            move_to(FileAddress{*to});
            return true;
        }
        case DW_CFA_advance_loc1:
            advance(in.take<std::uint8_t>());
            return true;
        case DW_CFA_advance_loc2:
            advance(in.take<std::uint16_t>());
            return true;
        case DW_CFA_advance_loc4:
            advance(in.take<std::uint32_t>());
            return true;
        case DW_CFA_remember_state:
            if (depth_ == remembered_.size()) return false;
            remembered_[depth_++] = now_;
            return true;
        case DW_CFA_restore_state:
            if (depth_ == 0) return false;
            now_ = remembered_[--depth_];
            return true;
        case DW_CFA_GNU_args_size:
            static_cast<void>(in.take_uleb());
            return true;
        default:
            break;
    }
    if (const bool is_good = step_cfa(in, code, is_done); is_done || !is_good) return is_good;
    return step_rule(in, code);
}

bool Machine::run(std::size_t from, std::size_t to, FileAddress address) {
    wanted_ = address;
    DwarfReader in(program_.section.first(to), from);
    while (!in.is_at_end() && !next_) {
        const auto code = in.take<std::uint8_t>();
        if (!step(in, code) || in.has_failed()) return false;
    }
    return !in.has_failed();
}

std::optional<CfiRow> Machine::take() const {
    CfiRow result;
    result.end = next_;
    UnwindRow& row = result.row;
    row.cfa = now_.cfa;
    row.cfa_register = now_.cfa_register;
    row.cfa_value = now_.cfa_value;
    row.cfa_size = now_.cfa_size;
    row.section = program_.section.data();
    for (unsigned number = 0; number < RegisterSet::kCount; ++number) {
        if ((now_.written & RegisterSet::bit(number)) != 0) row.rules[row.rule_count++] = now_.rules[number];
    }
    return result;
}

}  // namespace

std::optional<std::uint64_t> take_encoded_pointer(DwarfReader& reader, std::uint8_t encoding,
                                                  FileAddress section_address) {
    if (encoding == DW_EH_PE_omit) return std::nullopt;
    const std::uint64_t here = raw(section_address) + reader.position();
    std::uint64_t value = 0;
    switch (encoding & 0x0fU) {
        case DW_EH_PE_absptr:
        case DW_EH_PE_udata8:
        case DW_EH_PE_sdata8:
            value = reader.take<std::uint64_t>();
            break;
        case DW_EH_PE_udata2:
            value = reader.take<std::uint16_t>();
            break;
        case DW_EH_PE_sdata2:
            value = static_cast<std::uint64_t>(std::int64_t{reader.take<std::int16_t>()});
            break;
        case DW_EH_PE_udata4:
            value = reader.take<std::uint32_t>();
            break;
        case DW_EH_PE_sdata4:
            value = static_cast<std::uint64_t>(std::int64_t{reader.take<std::int32_t>()});
            break;
        case DW_EH_PE_uleb128:
            value = reader.take_uleb();
            break;
        case DW_EH_PE_sleb128:
            value = static_cast<std::uint64_t>(reader.take_sleb());
            break;
        default:
            return std::nullopt;
    }
    if (reader.has_failed()) return std::nullopt;
    switch (encoding & 0xf0U) {
        case DW_EH_PE_absptr:
            return value;
        case DW_EH_PE_pcrel:
            return value + here;
        default:
            return std::nullopt;
    }
}

std::optional<CfiRow> run_cfi_program(const CfiProgram& program, FileAddress address) {
    if (program.common_end > program.section.size() || program.own_end > program.section.size())
        return std::nullopt;
    Machine machine(program);
    // The common part is no matter of addresses: no row of it lies behind the one that is wanted.
    if (!machine.run(program.common, program.common_end, FileAddress{~std::uint64_t{0}})) return std::nullopt;
    machine.keep_initial();
    if (!machine.run(program.own, program.own_end, address)) return std::nullopt;
    return machine.take();
}

}  // namespace pyprof
