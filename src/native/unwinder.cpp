// SPDX-License-Identifier: Apache-2.0
//
// The order of things in a step (DWARF 5, 6.4.3): the row of the address, the CFA from the registers, then
// every register from the CFA. Stacks grow downwards, so each CFA lies above the one before; that ends every
// cycle.
#include "native/unwinder.h"

#include "base/clock.h"
#include "native/dwarf_expression.h"

namespace pyprof {
namespace {

constexpr std::size_t kMostFrames = 20'000;
// Reading the mappings takes some 100 us; addresses that lie nowhere may come in numbers.
constexpr std::chrono::milliseconds kShortestRefresh{20};

std::optional<std::uint64_t> cfa_of(const UnwindRow& row, const RegisterSet& registers,
                                    const StackCopy& copy) {
    if (row.cfa == UnwindRow::Cfa::kRegister) {
        if (!registers.knows(row.cfa_register)) return std::nullopt;
        return registers.value(row.cfa_register) + static_cast<std::uint64_t>(std::int64_t{row.cfa_value});
    }
    return evaluate_expression(row.expression(row.cfa_value, row.cfa_size), registers, copy, std::nullopt);
}

// Empty: can't be had.
std::optional<std::uint64_t> value_of(const RegisterRule& rule, const UnwindRow& row, std::uint64_t cfa,
                                      const RegisterSet& registers, const StackCopy& copy) {
    using Kind = RegisterRule::Kind;
    const std::uint64_t at_offset = cfa + static_cast<std::uint64_t>(std::int64_t{rule.value});
    const auto evaluate = [&] {
        return evaluate_expression(row.expression(rule.value, rule.size), registers, copy, cfa);
    };
    const auto in_register = [&](unsigned number) {
        return registers.knows(number) ? std::optional(registers.value(number)) : std::nullopt;
    };
    switch (rule.kind) {
        case Kind::kUndefined:
            return std::nullopt;
        case Kind::kSame:
            return in_register(rule.number);
        case Kind::kAtOffset:
            return copy.word_at(Address{at_offset});
        case Kind::kIsOffset:
            return at_offset;
        case Kind::kInRegister:
            return in_register(static_cast<unsigned>(rule.value));
        case Kind::kAtExpression:
            if (const auto place = evaluate()) return copy.word_at(Address{*place});
            return std::nullopt;
        case Kind::kIsExpression:
            return evaluate();
    }
    return std::nullopt;
}

const RegisterRule* return_rule(const UnwindRow& row) {
    const auto rules = row.all_rules();  // sorted, and its number is the highest
    return rules.empty() || rules.back().number != RegisterSet::kReturnAddress ? nullptr : &rules.back();
}

}  // namespace

Unwinder::Unwinder(Target& target) : modules_(target) {
    modules_.refresh();
    last_refresh_ = monotonic_now();
}

void Unwinder::refresh() {
    last_refresh_ = monotonic_now();
    const std::uint64_t before = modules_.changes();
    modules_.refresh();
    if (modules_.changes() != before) rows_.clear();
}

void Unwinder::refresh_on_miss() {
    if (monotonic_now() - last_refresh_ >= kShortestRefresh) refresh();
}

UnwindRow Unwinder::read_row(Address lookup, ModuleId module) {
    const auto address = modules_.in_file(module, lookup);
    if (!address) return {};
    if (tables_.size() <= module) tables_.resize(modules_.size());
    auto& table = tables_[module];
    if (!table) table = std::make_unique<CfiTable>(*modules_.module(module).file);
    const auto found = table->find(*address);
    return found ? found->row : UnwindRow{};
}

const RowCache::Entry& Unwinder::entry_at(Address lookup) {
    if (const auto* known = rows_.find(lookup)) return *known;
    ModuleId module = modules_.find(lookup);
    if (module == kNoModule) {
        refresh_on_miss();
        module = modules_.find(lookup);
    }
    return rows_.add(lookup, module, read_row(lookup, module));
}

// Only for code without tables that is known to keep it: [rbp] the caller's, [rbp + 8] where it goes on.
bool Unwinder::step_by_frame_pointer(const StackCopy& copy, RegisterSet& registers,
                                     NativeFrame& frame) const {
    if (!trusts_frame_pointer_ || frame.module != kAnonymous || !registers.knows(RegisterSet::kRbp))
        return false;
    const Address base{registers.value(RegisterSet::kRbp)};
    const auto saved = copy.word_at(base);
    const auto back = copy.word_at(base + 8);
    if (!saved || !back || raw(base) % 8 != 0 || raw(base) < raw(frame.sp)) return false;
    if (modules_.find(Address{*back} - 1) == kNoModule) return false;
    frame.cfa = base + 16;
    registers.keep_only(0);  // where such code keeps the others nobody has written down
    registers.set(RegisterSet::kRbp, *saved);
    registers.set(RegisterSet::kReturnAddress, *back);
    registers.set(RegisterSet::kRsp, raw(frame.cfa));
    return true;
}

// The common case in place: no rule reads a register, so none is needed once the CFA is known.
bool Unwinder::step_plainly(const StackCopy& copy, const UnwindRow& row, Address cfa,
                            RegisterSet& registers) {
    registers.keep_only(RegisterSet::kKeptByCalls);
    registers.set(RegisterSet::kRsp, raw(cfa));
    for (const RegisterRule& rule : row.all_rules()) {
        const auto word = copy.word_at(cfa + static_cast<std::uint64_t>(std::int64_t{rule.value}));
        if (!word) return false;
        registers.set(rule.number, *word);
    }
    return true;
}

std::optional<UnwindEnd> Unwinder::step(const StackCopy& copy, const UnwindRow& row, Address cfa,
                                        RegisterSet& registers) {
    const RegisterRule* back = return_rule(row);
    if (back == nullptr) return UnwindEnd::kBadRule;
    if (back->kind == RegisterRule::Kind::kUndefined) return UnwindEnd::kRoot;
    if (row.is_plain) {
        if (step_plainly(copy, row, cfa, registers)) return std::nullopt;
        return UnwindEnd::kOutsideCopy;
    }
    RegisterSet caller = registers;
    // A signal interrupts anywhere: only what its frame has saved is known then.
    caller.keep_only(row.is_signal_frame ? 0 : RegisterSet::kKeptByCalls);
    caller.set(RegisterSet::kRsp, raw(cfa));
    for (const RegisterRule& rule : row.all_rules()) {
        if (const auto value = value_of(rule, row, raw(cfa), registers, copy)) {
            caller.set(rule.number, *value);
        } else {
            caller.forget(rule.number);
        }
    }
    if (!caller.knows(RegisterSet::kReturnAddress)) {
        return copy.holds(cfa - 8, 8) ? UnwindEnd::kUnknownRegister : UnwindEnd::kOutsideCopy;
    }
    registers = caller;
    return std::nullopt;
}

Unwound Unwinder::walk(const StackCopy& copy, RegisterSet registers, bool is_call_site,
                       std::vector<NativeFrame>& frames) {
    const std::size_t limit = frames.size() + kMostFrames;
    while (frames.size() < limit) {
        NativeFrame& frame = frames.emplace_back();
        frame.pc = registers.program_counter();
        frame.sp = registers.stack_pointer();
        frame.is_call_site = is_call_site;
        // C libraries whose outermost code has no tables start a thread with no address to return to.
        if (frame.pc == kNullAddress || frame.lookup() == kNullAddress) {
            const bool is_root = is_call_site && frame.pc == kNullAddress;
            frames.pop_back();
            return {is_root ? UnwindEnd::kRoot : UnwindEnd::kNotCode};
        }
        const RowCache::Entry& entry = entry_at(frame.lookup());
        frame.module = entry.module;
        const UnwindRow& row = rows_.row(entry);
        // A handler returns to the first instruction of what nobody has called: the name is that of the address itself.
        if (row.is_signal_frame) frame.is_call_site = false;
        if (row.cfa == UnwindRow::Cfa::kNone) {
            if (!step_by_frame_pointer(copy, registers, frame)) {
                return {frame.module == kNoModule ? UnwindEnd::kNotCode : UnwindEnd::kNoRule};
            }
            is_call_site = true;
            continue;
        }
        const auto cfa = cfa_of(row, registers, copy);
        if (!cfa) return {UnwindEnd::kUnknownRegister};
        if (*cfa <= raw(frame.sp))
            return {row.is_signal_frame ? UnwindEnd::kOutsideCopy : UnwindEnd::kBadRule};
        if (*cfa > raw(copy.end())) {
            // The outermost frame alone may end where the copy does, or behind it.
            const RegisterRule* back = return_rule(row);
            const bool is_root = back != nullptr && back->kind == RegisterRule::Kind::kUndefined;
            if (!is_root) return {UnwindEnd::kOutsideCopy};
        }
        frame.cfa = Address{*cfa};
        is_call_site = !row.is_signal_frame;
        if (const auto end = step(copy, row, frame.cfa, registers)) return {*end};
        // A rule may name another stack pointer than the CFA, and may lie.
        if (raw(registers.stack_pointer()) <= raw(frame.sp)) return {UnwindEnd::kBadRule};
    }
    return {UnwindEnd::kTooDeep};
}

Unwound Unwinder::unwind(const StackCopy& copy, std::vector<NativeFrame>& frames) {
    return walk(copy, copy.registers, false, frames);
}

Unwound Unwinder::resume(const StackCopy& copy, Address lookup, Address cfa,
                         std::vector<NativeFrame>& frames) {
    const UnwindRow& row = rows_.row(entry_at(lookup));
    if (row.cfa == UnwindRow::Cfa::kNone) return {UnwindEnd::kNoRule};
    // Of its own registers nothing is known, but those of its caller stand in its frame.
    RegisterSet registers;
    registers.set(RegisterSet::kRsp, raw(cfa));
    if (const auto end = step(copy, row, cfa, registers)) return {*end};
    return walk(copy, registers, !row.is_signal_frame, frames);
}

}  // namespace pyprof
