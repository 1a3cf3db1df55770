// SPDX-License-Identifier: Apache-2.0
//
// From a copied stack to the native frames on it, innermost first, by the call frame information of the files
// that are mapped. It touches the target only to read its mappings anew when an address is in none of them.
// A frame that is not certain is not shown: where no rule applies, the walk ends and says why.
//
// Once the rows of a stack are known, a frame costs some 20 ns: a look into a table by its address.
#pragma once

#include "native/cfi_table.h"
#include "native/module_map.h"
#include "native/row_cache.h"
#include "native/stack_copy.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace pyprof {

struct NativeFrame {
    Address pc{};
    // The frame's part of the stack is [sp, cfa): a local variable of it, such as CPython's entry frame of an
    // evaluation, lies there. `cfa` is null in a last frame for which no rule is known.
    Address sp{};
    Address cfa{};
    ModuleId module = kNoModule;
    // `pc` is where a call returns to, perhaps already the next function or line: look up pc - 1.
    bool is_call_site = false;
    [[nodiscard]] Address lookup() const { return is_call_site ? pc - 1 : pc; }
};

enum class UnwindEnd : std::uint8_t {
    kRoot,             // the outermost frame: _start or the start of a thread
    kNotCode,          // the address is in no executable memory
    kNoRule,           // code without call frame information, such as code made at run time
    kUnknownRegister,  // the rule wants a register that is not known
    kOutsideCopy,      // the frame goes on outside of what was copied: another or a longer stack
    kBadRule,          // the information contradicts itself or the stack
    kTooDeep,          // more frames than we take
};

struct Unwound {
    UnwindEnd end = UnwindEnd::kRoot;
    [[nodiscard]] bool is_complete() const { return end == UnwindEnd::kRoot; }
};

class Unwinder {
public:
    // `target` must outlive it.
    explicit Unwinder(Target& target);

    // Code without tables keeps the frame pointer: right for CPython 3.15's JIT, whose code reserves rbp.
    void trust_frame_pointer_in_anonymous_code(bool is_trusted) { trusts_frame_pointer_ = is_trusted; }

    // Appends to `frames`.
    Unwound unwind(const StackCopy& copy, std::vector<NativeFrame>& frames);

    // Goes on below a gap: the frame of a function whose end on the stack is known to be `cfa`. `lookup` is
    // an address in that function behind its prologue. The frames below it are appended, it itself is not.
    Unwound resume(const StackCopy& copy, Address lookup, Address cfa, std::vector<NativeFrame>& frames);

    // Call it now and then (every second or so): a file may be unmapped and another be mapped at its place. An address that
    // lies in no code does the same; modules().changes() tells of either.
    void refresh();

    [[nodiscard]] const ModuleMap& modules() const { return modules_; }

private:
    const RowCache::Entry& entry_at(Address lookup);
    UnwindRow read_row(Address lookup, ModuleId module);
    void refresh_on_miss();
    Unwound walk(const StackCopy& copy, RegisterSet registers, bool is_call_site,
                 std::vector<NativeFrame>& frames);
    // Makes the registers those of the caller. kRoot: there is none.
    static std::optional<UnwindEnd> step(const StackCopy& copy, const UnwindRow& row, Address cfa,
                                         RegisterSet& registers);
    static bool step_plainly(const StackCopy& copy, const UnwindRow& row, Address cfa,
                             RegisterSet& registers);
    bool step_by_frame_pointer(const StackCopy& copy, RegisterSet& registers, NativeFrame& frame) const;

    ModuleMap modules_;
    RowCache rows_;
    std::vector<std::unique_ptr<CfiTable>> tables_;  // by module; made when it is first asked for
    std::chrono::nanoseconds last_refresh_{0};
    bool trusts_frame_pointer_ = false;
};

}  // namespace pyprof
