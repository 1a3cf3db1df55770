// SPDX-License-Identifier: Apache-2.0
//
// What an address of one loaded file is called: its function, the functions inlined there, their files and lines.
// Takes milliseconds where debug information is read: never call it while anything is stopped, nor on the sampling
// thread.
#pragma once

#include "native/cython_source.h"
#include "native/debug_file.h"
#include "native/elf_image.h"
#include "native/function_starts.h"
#include "native/source_lines.h"
#include "native/symbol_table.h"

#include <pyprof/address.h>

#include <memory>
#include <optional>
#include <string>
#include <map>
#include <vector>

namespace pyprof {

struct NativeFunction {
    std::string name;  // demangled, without parameters
    std::string file;  // of the source; empty: not known
    std::int32_t line = 0;
    bool is_inlined = false;
};

struct NativePlace {
    std::vector<NativeFunction> functions;  // innermost first; never empty
    FileAddress function_start{};           // of the function, or of its part
    bool has_name = false;                  // else the name is the module's and an offset
};

class ModuleSymbols {
public:
    // `path` as the target sees it; `name` is what to call the module. Without an image nothing but offsets is known.
    ModuleSymbols(std::optional<ElfImage> image, const std::string& path, std::string name, const DebugSearch& search);

    // `address` of the instruction; of a caller, of the byte before the one it returns to.
    [[nodiscard]] NativePlace find(FileAddress address);
    // Of a function that Cython made, as find() names it; nothing for others. The body of a generator has the name of the
    // function that makes it, where the file has a symbol of that.
    [[nodiscard]] std::optional<std::string> python_name(const std::string& function);
    [[nodiscard]] const std::string& name() const { return name_; }
    // Where none was found on this machine. May take long.
    void download_debug_file(const DebugSearch::Download& download);

private:
    // Where code at this address stands in the file; nothing where no code is loaded.
    [[nodiscard]] std::optional<std::uint64_t> code_offset(FileAddress address) const;
    [[nodiscard]] bool is_signal_return(std::uint64_t offset) const;
    [[nodiscard]] std::optional<SymbolTable::Function> function_at(FileAddress address) const;
    void find_debug_information(const std::string& path, const DebugSearch& search);

    // Unique: what reads them keeps pointers to them.
    std::unique_ptr<ElfImage> image_;
    std::unique_ptr<ElfImage> debug_;
    std::string name_;
    SymbolTable symbols_;
    FunctionStarts starts_;
    std::optional<SourceLines> lines_;
    CythonSources cython_;
    std::map<std::string, std::optional<std::string>> makers_;  // of generators' bodies: found by a search of all symbols
};

// The last part of a path, made fit to be shown: bounded, without control characters.
std::string module_name(const std::string& path);

}  // namespace pyprof
