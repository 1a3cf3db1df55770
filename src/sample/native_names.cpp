// SPDX-License-Identifier: Apache-2.0
#include "sample/native_names.h"

#include "base/clock.h"
#include "native/cython_names.h"
#include "target/proc_files.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <algorithm>

namespace pyprof {
namespace {

constexpr std::size_t kLargestVdso = 1U << 20;
// A program that maps hundreds of libraries gives us time to look at signals in between.
constexpr std::chrono::milliseconds kPrepareAtOnce{10};

std::uint64_t key_of(std::uint32_t module, std::uint64_t address) {
    return address ^ (std::uint64_t{module} + 1) * 0x9E3779B97F4A7C15ULL;
}

}  // namespace

NativeAddresses::NativeAddresses(pid_t pid, NativeNamingOptions options)
    : pid_(pid), options_(std::move(options)), made_code_(pid) {
    modules_.append();
    places_.append();
}

NativeAddresses::~NativeAddresses() = default;

std::uint32_t NativeAddresses::module_of(const NativeFrame& frame, const ModuleMap& modules, Memory& memory) {
    if (frame.module >= modules.size()) return kMadeCode;
    const auto known = by_module_.find(frame.module);
    if (known != by_module_.end()) return known->second;
    const NativeModule& from = modules.module(frame.module);
    Module module;
    module.path = from.path;
    module.name = module_name(from.path);
    const int file = from.file ? from.file->descriptor() : -1;
    const std::uint64_t size = distance(from.code.start, from.code.end);
    if (file >= 0) {
        module.file.reset(::fcntl(file, F_DUPFD_CLOEXEC, 3));
    } else if (from.path == "[vdso]" && size <= kLargestVdso) {
        module.bytes.resize(size);
        if (!read_bytes(memory, from.code.start, std::as_writable_bytes(std::span(module.bytes)))) module.bytes.clear();
    }
    const std::uint32_t number = modules_.append(std::move(module));
    by_module_.emplace(frame.module, number);
    return number;
}

std::uint32_t NativeAddresses::note(const NativeFrame& frame, bool runs_python, const ModuleMap& modules, Memory& memory) {
    const Address lookup = frame.lookup();
    auto known = by_address_.find(raw(lookup));
    if (known == by_address_.end()) {
        const std::uint32_t module = module_of(frame, modules, memory);
        const auto in_file = modules.in_file(frame.module, lookup);
        const std::uint64_t address = in_file ? raw(*in_file) : raw(lookup);
        const auto [place, is_new] = by_place_.try_emplace(key_of(module, address), 0U);
        if (is_new) {
            if (places_.size() >= kMostPlaces) return 0;
            const std::uint32_t number = places_.append();
            Place& fresh = places_.at(number);
            fresh.module = module;
            if (module == kMadeCode) has_made_code_.store(true, std::memory_order_relaxed);
            fresh.address = address;
            place.value() = number;
        }
        known = by_address_.emplace(raw(lookup), place->second).first;
    }
    if (runs_python && known->second != 0) places_.at(known->second).runs_python.store(true, std::memory_order_relaxed);
    return known->second;
}

void NativeAddresses::prepare() {
    if (has_made_code_.load(std::memory_order_relaxed)) made_code_.open_files();
    const auto end = monotonic_now() + kPrepareAtOnce;
    for (; prepared_ < modules_.size() && monotonic_now() < end; ++prepared_) symbols_of(prepared_);
}

ModuleSymbols& NativeAddresses::symbols_of(std::uint32_t module) {
    if (symbols_.size() <= module) symbols_.resize(module + 1);
    if (symbols_[module] == nullptr) {
        const Module& known = modules_[module];
        std::optional<ElfImage> image;
        if (known.file) image = ElfImage::open(UniqueFd(::fcntl(known.file.get(), F_DUPFD_CLOEXEC, 3)));
        if (!known.bytes.empty()) image = ElfImage::open(known.bytes);
        DebugSearch search;
        search.roots = {fmt::format("/proc/{}/root", living_thread_of(pid_)), ""};
        symbols_[module] = std::make_unique<ModuleSymbols>(std::move(image), known.path, known.name, search);
    }
    return *symbols_[module];
}

// From afar only what a profile asks for, when it is written: that may take long, and the target need not live any more.
ModuleSymbols& NativeAddresses::complete_symbols_of(std::uint32_t module) {
    ModuleSymbols& symbols = symbols_of(module);
    if (options_.download && downloaded_.insert(module).second) symbols.download_debug_file(options_.download);
    return symbols;
}

NativeAddresses::Named NativeAddresses::name_made_code(std::uint64_t address) {
    Named named;
    named.function_start = address;
    const auto name = made_code_.find(Address{address});
    named.has_name = name.has_value();
    ResolvedProfile::Frame frame;
    frame.kind = name ? FrameKind::kNative : FrameKind::kMarker;
    frame.name = name ? std::string(*name) : "[jit]";
    if (name) frame.module = "[jit]";
    // Python's own trampolines (-X perf) say again what the Python frame above them says.
    named.roles.push_back(frame.name.substr(0, 4) == "py::" ? NativeRole::kMachinery : NativeRole::kPlain);
    named.layers.push_back(0);
    named.frames.push_back(std::move(frame));
    return named;
}

const NativeAddresses::Named& NativeAddresses::name(std::uint32_t id) {
    if (named_.size() <= id) named_.resize(id + 1);
    if (named_[id] != nullptr) return *named_[id];
    const Place& place = places_[id];
    auto named = std::make_unique<Named>();
    if (place.module == kMadeCode) {
        *named = name_made_code(place.address);
    } else {
        ModuleSymbols& symbols = complete_symbols_of(place.module);
        NativePlace found = symbols.find(FileAddress{place.address});
        named->function_start = raw(found.function_start);
        named->has_name = found.has_name;
        std::reverse(found.functions.begin(), found.functions.end());
        for (NativeFunction& function : found.functions) {
            named->roles.push_back(role_of_function(function.name, is_interpreter(place.module)));
            named->layers.push_back(cython_layer(function.name));
            ResolvedProfile::Frame frame;
            frame.kind = FrameKind::kNative;
            if (auto python = symbols.python_name(function.name)) function.name = std::move(*python);
            frame.name = std::move(function.name);
            frame.file = function.file;
            frame.full_file = std::move(function.file);
            frame.line = function.line;
            frame.module = modules_[place.module].name;
            named->frames.push_back(std::move(frame));
        }
    }
    named_[id] = std::move(named);
    return *named_[id];
}

bool NativeAddresses::is_interpreter(std::uint32_t module) const {
    const std::string& name = modules_[module].name;
    return loop_modules_.contains(module) || name.substr(0, 9) == "libpython" || name.substr(0, 6) == "python";
}

// Which functions are the loop is known from the places that were seen to run Python frames: a stripped interpreter
// names none, and its loop may be in two parts.
void NativeAddresses::learn_loops() {
    for (std::uint32_t id = 1; id < places_.size(); ++id) {
        const Place& place = places_[id];
        if (!place.runs_python.load(std::memory_order_relaxed) || !learned_.insert(id).second) continue;
        loop_modules_.insert(place.module);
        loops_.emplace(place.module, name(id).function_start);
    }
}

bool NativeAddresses::is_eval(std::uint32_t id, const Named& named) const {
    return loops_.contains({places_[id].module, named.function_start}) ||
           std::find(named.roles.begin(), named.roles.end(), NativeRole::kEval) != named.roles.end();
}

// Of the function that Cython's wrapper calls, which is shown in its place.
bool NativeAddresses::is_wrapper_of_next(std::span<const std::uint32_t> run, std::size_t i, std::size_t level) {
    const Named& outer = name(run[i]);
    const bool is_last = level + 1 == outer.frames.size();
    if (outer.layers[level] == 0 || (is_last && i + 1 == run.size())) return false;
    const std::uint32_t id = is_last ? run[i + 1] : run[i];
    if (id == 0 || id >= places_.size()) return false;
    const Named& inner = name(id);
    const std::size_t next = is_last ? 0 : level + 1;
    return inner.layers[next] > outer.layers[level] && inner.frames[next].name == outer.frames[level].name &&
           places_[id].module == places_[run[i]].module;
}

void NativeAddresses::name_run(std::span<const std::uint32_t> run, RunPlace place, std::vector<ResolvedProfile::Frame>& frames) {
    learn_loops();
    std::vector<bool> evals;
    for (const std::uint32_t id : run) evals.push_back(id != 0 && id < places_.size() && is_eval(id, name(id)));
    // Below the first Python frame one loop runs it. A second one is of another greenlet, whose stack lies below.
    std::size_t first = 0;
    if (place.is_root && !place.is_leaf && !run.empty() && evals.back()) {
        std::size_t own = run.size() - 1;
        while (own > 0 && evals[own - 1]) --own;
        const bool has_other = std::find(evals.begin(), evals.begin() + static_cast<std::ptrdiff_t>(own), true) !=
                               evals.begin() + static_cast<std::ptrdiff_t>(own);
        if (has_other) first = own;
    }
    // A thread without Python begins in the C library, which may have no names for it.
    bool is_start = place.is_root && place.is_leaf;
    for (std::size_t i = first; i < run.size(); ++i) {
        const std::uint32_t id = run[i];
        if (id == 0 || id >= places_.size()) continue;
        const Named& named = name(id);
        const bool interpreter = is_interpreter(places_[id].module);
        is_start = is_start && modules_[places_[id].module].name.substr(0, 5) == "libc.";
        for (std::size_t level = 0; level < named.frames.size(); ++level) {
            const bool is_leaf = place.is_leaf && i + 1 == run.size() && level + 1 == named.frames.size();
            const NativeRole role = named.roles[level];
            const bool is_hidden = evals[i] || role == NativeRole::kMachinery || role == NativeRole::kStart ||
                                   (role == NativeRole::kInterior && !is_leaf) ||
                                   (!named.has_name && !is_leaf && (interpreter || is_start || (place.is_root && !place.is_leaf)));
            if ((is_hidden || is_wrapper_of_next(run, i, level)) && !options_.show_all) continue;
            const ResolvedProfile::Frame& frame = named.frames[level];
            const bool repeats = frame.kind == FrameKind::kMarker && !frames.empty() && frames.back().name == frame.name;
            if (!repeats) frames.push_back(frame);
        }
    }
}

}  // namespace pyprof
