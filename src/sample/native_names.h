// SPDX-License-Identifier: Apache-2.0
//
// Native addresses of a profile, first as numbers, then as names. The sampler's thread notes where an address lies
// (a file and a place in it) and never looks up a name; the main thread names what is asked for when a profile is
// written, each address once. Files are kept open, so that names outlive the target.
#pragma once

#include "base/unique_fd.h"
#include "native/machinery.h"
#include "native/module_symbols.h"
#include "native/unwinder.h"
#include "profile/chunked_list.h"
#include "sample/made_code.h"

#include <pyprof/profile.h>
#include <pyprof/target.h>

#include <tsl/robin_map.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace pyprof {

struct NativeNamingOptions {
    bool show_all = false;  // machinery, too
    DebugSearch::Download download = {};  // asked for debug files that are not on this machine; empty: nobody is
};

class NativeAddresses final : public NativeNames {
public:
    NativeAddresses(pid_t pid, NativeNamingOptions options);
    ~NativeAddresses() override;

    // The sampler's thread. The number of the frame's address; 0 when the table is full.
    std::uint32_t note(const NativeFrame& frame, bool runs_python, const ModuleMap& modules, Memory& memory);
    // Addresses of memory that is mapped anew are others.
    void forget_addresses() { by_address_.clear(); }

    // The sampler's thread. A file in which the target names code that it makes.
    void note_jitdump(const std::string& path) { made_code_.note_jitdump(path); }

    // The main thread. Opens debug files of what has come, while the target is there; some milliseconds' worth at once.
    void prepare();
    void name_run(std::span<const std::uint32_t> run, RunPlace place, std::vector<ResolvedProfile::Frame>& frames) override;

private:
    struct Module {
        std::string path;
        std::string name;
        UniqueFd file;            // -1: can't be opened, or memory
        std::vector<char> bytes;  // of the vdso
    };
    struct Place {
        std::uint32_t module = 0;
        std::uint64_t address = 0;  // in the file; in memory where there is no file
        std::atomic<bool> runs_python{false};
    };
    struct Named {
        std::vector<ResolvedProfile::Frame> frames;  // outermost first
        std::vector<NativeRole> roles;               // of each
        std::vector<int> layers;                     // of each: see cython_layer()
        std::uint64_t function_start = 0;
        bool has_name = false;
    };
    std::uint32_t module_of(const NativeFrame& frame, const ModuleMap& modules, Memory& memory);
    const Named& name(std::uint32_t id);
    [[nodiscard]] bool is_eval(std::uint32_t id, const Named& named) const;
    [[nodiscard]] bool is_wrapper_of_next(std::span<const std::uint32_t> run, std::size_t i, std::size_t level);
    ModuleSymbols& symbols_of(std::uint32_t module);
    ModuleSymbols& complete_symbols_of(std::uint32_t module);
    Named name_made_code(std::uint64_t address);
    void learn_loops();
    [[nodiscard]] bool is_interpreter(std::uint32_t module) const;

    static constexpr std::size_t kMostPlaces = std::size_t{1} << 20;
    static constexpr std::uint32_t kMadeCode = 0;  // modules_[0]: memory without a file

    pid_t pid_;
    NativeNamingOptions options_;
    ChunkedList<Module> modules_;
    ChunkedList<Place> places_;  // [0] is none

    // Of the sampler's thread.
    tsl::robin_map<std::uint64_t, std::uint32_t> by_address_;
    tsl::robin_map<std::uint64_t, std::uint32_t> by_place_;
    tsl::robin_map<ModuleId, std::uint32_t> by_module_;

    // Of the main thread.
    std::vector<std::unique_ptr<ModuleSymbols>> symbols_;
    std::vector<std::unique_ptr<Named>> named_;
    std::set<std::pair<std::uint32_t, std::uint64_t>> loops_;  // module and function of the interpreter's loop
    std::set<std::uint32_t> loop_modules_;
    std::set<std::uint32_t> learned_;
    std::set<std::uint32_t> downloaded_;
    std::uint32_t prepared_ = 1;
    MadeCode made_code_;
    std::atomic<bool> has_made_code_{false};
};

}  // namespace pyprof
