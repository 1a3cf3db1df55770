// SPDX-License-Identifier: Apache-2.0
//
// The functions are those of debuginfod_find_debuginfo(3). The library keeps what it fetched below
// DEBUGINFOD_CACHE_PATH, and remembers there what no server had.
#include "native/debuginfod.h"

#include <dlfcn.h>
#include <cstdlib>
#include <memory>

namespace pyprof {
namespace {

constexpr const char* kLibrary = "libdebuginfod.so.1";

struct Client;  // debuginfod_client

struct Functions {
    Client* (*begin)() = nullptr;
    int (*find)(Client*, const unsigned char*, int, char**) = nullptr;
    void (*end)(Client*) = nullptr;
};

template <class Function>
bool load_function(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
}

}  // namespace

Result<DebugSearch::Download> open_debuginfod() {
    const char* const servers = std::getenv("DEBUGINFOD_URLS");
    if (servers == nullptr || *servers == '\0') {
        return fail(ExitCode::kUsage, "--debuginfod without a server",
                    "name one or more: DEBUGINFOD_URLS=https://debuginfod.elfutils.org pyprof ...");
    }
    void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // stays until the end
    Functions functions;
    const bool is_loaded = library != nullptr && load_function(library, "debuginfod_begin", functions.begin) &&
                           load_function(library, "debuginfod_find_debuginfo", functions.find) &&
                           load_function(library, "debuginfod_end", functions.end);
    Client* const client = is_loaded ? functions.begin() : nullptr;
    if (client == nullptr) {
        return fail(ExitCode::kFailure, std::string("--debuginfod needs ") + kLibrary, "install it: apt install libdebuginfod1");
    }
    const std::shared_ptr<Client> shared(client, functions.end);
    return DebugSearch::Download([shared, functions](std::span<const std::byte> id) {
        return UniqueFd(functions.find(shared.get(), reinterpret_cast<const unsigned char*>(id.data()),
                                       static_cast<int>(id.size()), nullptr));
    });
}

}  // namespace pyprof
