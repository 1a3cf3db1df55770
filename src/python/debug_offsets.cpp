// SPDX-License-Identifier: Apache-2.0
//
// The table of _Py_DebugOffsets as one list: each version only added fields to the list of the one
// before, so a row says since which minor it is there. All are u64 in the order of this list, behind
// the cookie, PY_VERSION_HEX and a flag for free-threaded builds.
#include "python/debug_offsets.h"

#include "python/layouts.h"

#include <pyprof/memory.h>

#include <fmt/format.h>

namespace pyprof {

namespace {

enum class Kind : std::uint8_t {
    kSize,        // sizeof of the group's struct, within [low, high]
    kInnerSize,   // sizeof of a struct that the group's struct begins with
    kField,       // offset of a field of `low` bytes within it
    kBuildField,  // the same where the GIL is compiled out, 0 elsewhere
    kUnused,      // not needed here, not looked at
};

struct Row {
    int since = 0;
    std::string_view name;
    Kind kind = Kind::kUnused;
    std::uint32_t low = 0;
    std::uint32_t high = 0;
};

constexpr std::uint32_t kKib = 1024;
constexpr std::uint32_t kMib = 1024 * 1024;

constexpr Row kTable[] = {
    {13, "runtime_state.size", Kind::kSize, 4 * kKib, 64 * kMib},
    {13, "runtime_state.finalizing", Kind::kField, 8},
    {13, "runtime_state.interpreters_head", Kind::kField, 8},
    {13, "interpreter_state.size", Kind::kSize, 8 * kKib, 64 * kMib},
    {13, "interpreter_state.id", Kind::kField, 8},
    {13, "interpreter_state.next", Kind::kField, 8},
    {13, "interpreter_state.threads_head", Kind::kField, 8},
    {14, "interpreter_state.threads_main", Kind::kField, 8},
    {13, "interpreter_state.gc", Kind::kField, 8},
    {13, "interpreter_state.imports_modules", Kind::kField, 8},
    {13, "interpreter_state.sysdict", Kind::kField, 8},
    {13, "interpreter_state.builtins", Kind::kField, 8},
    {13, "interpreter_state.ceval_gil", Kind::kField, 8},
    {13, "interpreter_state.gil_runtime_state", Kind::kField, 8},
    {13, "interpreter_state.gil_runtime_state_enabled"},  // 0, or within _gil: never what its name says
    {13, "interpreter_state.gil_runtime_state_locked", Kind::kField, 4},
    {13, "interpreter_state.gil_runtime_state_holder", Kind::kField, 8},
    {14, "interpreter_state.code_object_generation", Kind::kField, 8},
    {14, "interpreter_state.tlbc_generation", Kind::kBuildField, 4},
    {13, "thread_state.size", Kind::kSize, 200, 64 * kKib},
    {13, "thread_state.prev", Kind::kField, 8},
    {13, "thread_state.next", Kind::kField, 8},
    {13, "thread_state.interp", Kind::kField, 8},
    {13, "thread_state.current_frame", Kind::kField, 8},
    {15, "thread_state.base_frame", Kind::kField, 8},
    {15, "thread_state.last_profiled_frame", Kind::kField, 8},
    {15, "thread_state.last_profiled_frame_seq", Kind::kField, 8},
    {13, "thread_state.thread_id", Kind::kField, 8},
    {13, "thread_state.native_thread_id", Kind::kField, 8},
    {13, "thread_state.datastack_chunk", Kind::kField, 8},
    {13, "thread_state.status", Kind::kField, 4},
    {15, "thread_state.holds_gil", Kind::kField, 4},
    {15, "thread_state.gil_requested", Kind::kField, 4},
    {15, "thread_state.current_exception", Kind::kField, 8},
    {15, "thread_state.exc_state", Kind::kField, 8},
    {15, "err_stackitem.exc_value"},
    {13, "interpreter_frame.size", Kind::kSize, 64, 512},
    {13, "interpreter_frame.previous", Kind::kField, 8},
    {13, "interpreter_frame.executable", Kind::kField, 8},
    {13, "interpreter_frame.instr_ptr", Kind::kField, 8},
    {13, "interpreter_frame.localsplus", Kind::kField, 8},
    {13, "interpreter_frame.owner", Kind::kField, 1},
    {14, "interpreter_frame.stackpointer", Kind::kField, 8},
    {14, "interpreter_frame.tlbc_index", Kind::kBuildField, 4},
    {13, "code_object.size", Kind::kSize, 128, 1024},
    {13, "code_object.filename", Kind::kField, 8},
    {13, "code_object.name", Kind::kField, 8},
    {13, "code_object.qualname", Kind::kField, 8},
    {13, "code_object.linetable", Kind::kField, 8},
    {13, "code_object.firstlineno", Kind::kField, 4},
    {13, "code_object.argcount", Kind::kField, 4},
    {13, "code_object.localsplusnames", Kind::kField, 8},
    {13, "code_object.localspluskinds", Kind::kField, 8},
    {13, "code_object.co_code_adaptive", Kind::kField, 1},
    {14, "code_object.co_tlbc", Kind::kBuildField, 8},
    {13, "pyobject.size", Kind::kSize, 16, 64},
    {13, "pyobject.ob_type", Kind::kField, 8},
    {13, "type_object.size", Kind::kSize, 320, 1024},
    {13, "type_object.tp_name", Kind::kField, 8},
    {13, "type_object.tp_repr", Kind::kField, 8},
    {13, "type_object.tp_flags", Kind::kField, 8},
    {15, "type_object.tp_basicsize", Kind::kField, 8},
    {15, "type_object.tp_dictoffset", Kind::kField, 8},
    {15, "heap_type_object.size", Kind::kSize, 640, 4096},
    {15, "heap_type_object.ht_cached_keys", Kind::kField, 8},
    {13, "tuple_object.size", Kind::kSize, 24, 256},
    {13, "tuple_object.ob_item", Kind::kField, 8},
    {13, "tuple_object.ob_size", Kind::kField, 8},
    {13, "list_object.size", Kind::kSize, 32, 256},
    {13, "list_object.ob_item", Kind::kField, 8},
    {13, "list_object.ob_size", Kind::kField, 8},
    {14, "set_object.size", Kind::kSize, 64, 512},
    {14, "set_object.used", Kind::kField, 8},
    {14, "set_object.table", Kind::kField, 8},
    {14, "set_object.mask", Kind::kField, 8},
    {13, "dict_object.size", Kind::kSize, 40, 256},
    {13, "dict_object.ma_keys", Kind::kField, 8},
    {13, "dict_object.ma_values", Kind::kField, 8},
    {13, "float_object.size", Kind::kSize, 24, 256},
    {13, "float_object.ob_fval", Kind::kField, 8},
    {13, "long_object.size", Kind::kSize, 24, 256},
    {13, "long_object.lv_tag", Kind::kField, 8},
    {13, "long_object.ob_digit", Kind::kField, 4},
    {13, "bytes_object.size", Kind::kSize, 32, 256},
    {13, "bytes_object.ob_size", Kind::kField, 8},
    {13, "bytes_object.ob_sval", Kind::kField, 1},
    {13, "unicode_object.size", Kind::kSize, 48, 512},
    {13, "unicode_object.state", Kind::kField, 4},
    {13, "unicode_object.length", Kind::kField, 8},
    {13, "unicode_object.asciiobject_size", Kind::kInnerSize},
    {15, "unicode_object.compactunicodeobject_size", Kind::kInnerSize},
    {13, "gc.size", Kind::kSize, 64, 64 * kKib},
    {13, "gc.collecting", Kind::kField, 4},
    {15, "gc.frame", Kind::kField, 8},
    {15, "gc.generation_stats_size"},
    {15, "gc.generation_stats", Kind::kField, 8},
    {14, "gen_object.size", Kind::kSize, 96, 1024},
    {14, "gen_object.gi_name", Kind::kField, 8},
    {14, "gen_object.gi_iframe", Kind::kField, 8},
    {14, "gen_object.gi_frame_state", Kind::kField, 1},
    {14, "llist_node.next"},
    {14, "llist_node.prev"},
    {14, "debugger_support.eval_breaker"},
    {14, "debugger_support.remote_debugger_support"},
    {14, "debugger_support.remote_debugging_enabled"},
    {14, "debugger_support.debugger_pending_call"},
    {14, "debugger_support.debugger_script_path"},
    {14, "debugger_support.debugger_script_path_size"},
};
static_assert(std::size(kTable) <= DebugOffsets::kMaxFields);

constexpr int kFirstMinor = 13;
constexpr int kLastMinor = 15;

constexpr std::string_view kCookie = "xdebugpy";
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kFreeThreadedAt = 16;
constexpr std::size_t kFieldsAt = 24;

constexpr std::string_view group_of(std::string_view name) {
    return name.substr(0, name.find('.'));
}

bool is_size(std::uint64_t value, const Row& row) {
    return value >= row.low && value <= row.high && value % 8 == 0;
}

// Fields stand aligned and whole within their struct.
bool is_field(std::uint64_t value, std::uint32_t width, std::uint64_t struct_size) {
    return value % width == 0 && value < struct_size && struct_size - value >= width;
}

bool is_plausible(std::uint64_t value, const Row& row, std::uint64_t struct_size, bool free_threaded) {
    switch (row.kind) {
        case Kind::kSize:
            return is_size(value, row);
        case Kind::kInnerSize:
            return value >= 16 && value <= struct_size && value % 8 == 0;
        case Kind::kField:
            return is_field(value, row.low, struct_size);
        case Kind::kBuildField:
            return free_threaded ? is_field(value, row.low, struct_size) : value == 0;
        case Kind::kUnused:
            return true;
    }
    return false;
}

tl::unexpected<Error> implausible(std::uint32_t version_hex, std::string_view what) {
    return fail(ExitCode::kFailure,
                fmt::format("the debug offsets of Python {} make no sense: {}",
                            to_string(version_from_hex(version_hex)), what),
                "the interpreter's memory is damaged or it is a changed build");
}

// Alpha and beta releases still move fields, some of which the table does not describe.
tl::expected<void, Error> check_version(const PythonVersion& version) {
    const std::uint32_t level = version.hex >> 4U & 0xfU;
    if (DebugOffsets::is_known(version.major, version.minor) && level >= 0xcU) return {};
    return fail(ExitCode::kNotPython, fmt::format("Python {} is not supported", to_string(version)),
                kSupportedVersions);
}

}  // namespace

bool has_debug_offsets(std::span<const std::byte> runtime) {
    return runtime.size() >= kCookie.size() &&
           std::memcmp(runtime.data(), kCookie.data(), kCookie.size()) == 0;
}

bool DebugOffsets::is_known(int major, int minor) {
    return major == 3 && minor >= kFirstMinor && minor <= kLastMinor;
}

std::int64_t DebugOffsets::at(std::string_view name) const {
    for (std::size_t i = 0; i < std::size(kTable); ++i) {
        if (kTable[i].name == name) return values_[i];
    }
    check(false, "debug offsets: a name that is not in the table");
    return kNotDescribed;
}

Result<DebugOffsets> DebugOffsets::parse(std::span<const std::byte> bytes) {
    if (!has_debug_offsets(bytes) || bytes.size() < kFieldsAt) {
        return fail(ExitCode::kFailure, "no debug offsets at the start of _PyRuntime");
    }
    DebugOffsets result;
    result.values_.fill(kNotDescribed);
    const auto hex = load<std::uint64_t>(bytes.data(), kVersionAt);
    if (hex > 0xffffffffU) return implausible(0, fmt::format("the version is {:#x}", hex));
    result.version_hex_ = static_cast<std::uint32_t>(hex);
    const PythonVersion version = version_from_hex(result.version_hex_);
    if (auto supported = check_version(version); !supported) return tl::unexpected(supported.error());

    const auto flag = load<std::uint64_t>(bytes.data(), kFreeThreadedAt);
    if (flag > 1) return implausible(result.version_hex_, fmt::format("free_threaded is {}", flag));
    result.free_threaded_ = flag == 1;

    std::size_t position = kFieldsAt;
    std::uint64_t struct_size = 0;
    for (std::size_t i = 0; i < std::size(kTable); ++i) {
        const Row& row = kTable[i];
        if (row.since > version.minor) continue;
        if (bytes.size() - position < 8)
            return implausible(result.version_hex_, "they can't be read in full");
        const auto value = load<std::uint64_t>(bytes.data(), position);
        position += 8;
        if (row.kind == Kind::kSize) struct_size = value;
        if (!is_plausible(value, row, struct_size, result.free_threaded_)) {
            return implausible(result.version_hex_, fmt::format("{} is {}", row.name, value));
        }
        const bool lacks_it =
            row.kind == Kind::kUnused || (row.kind == Kind::kBuildField && !result.free_threaded_);
        result.values_[i] = lacks_it ? kNotDescribed : static_cast<std::int64_t>(value);
    }
    if (auto overlap = result.find_overlap(); !overlap.empty())
        return implausible(result.version_hex_, overlap);
    return result;
}

// No two fields of a struct share a byte. A quadratic look, once per target.
std::string DebugOffsets::find_overlap() const {
    for (std::size_t i = 0; i < std::size(kTable); ++i) {
        for (std::size_t j = i + 1; j < std::size(kTable); ++j) {
            const Row& a = kTable[i];
            const Row& b = kTable[j];
            if (group_of(a.name) != group_of(b.name)) continue;
            const bool are_fields = values_[i] != kNotDescribed && values_[j] != kNotDescribed &&
                                    a.kind != Kind::kSize && a.kind != Kind::kInnerSize &&
                                    b.kind != Kind::kInnerSize;
            if (!are_fields) continue;
            if (values_[i] < values_[j] + b.low && values_[j] < values_[i] + a.low) {
                return fmt::format("{} and {} overlap", a.name, b.name);
            }
        }
    }
    return {};
}

}  // namespace pyprof
