// SPDX-License-Identifier: Apache-2.0
//
// Directories are looked for by name only; what they hold is for the compiler to judge.
#include "layouts/headers.h"

#include "support/files.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <vector>

namespace pyprof::test {

namespace {

std::string text_of(const char* variable) {
    const char* value = std::getenv(variable);
    return value != nullptr ? value : "";
}

// Directories that may hold "python3.14" and the like.
std::vector<std::string> include_directories(const std::string& minor_version) {
    std::vector<std::string> all;
    std::istringstream listed(text_of("PYPROF_HEADERS"));
    for (std::string directory; std::getline(listed, directory, ':');) all.push_back(directory);
    const std::string versions = text_of("HOME") + "/.pyenv/versions";
    for (const std::string& version : files_in(versions, "")) {
        if (version.starts_with(minor_version + ".")) all.push_back(versions + "/" + version + "/include");
    }
    all.push_back("/usr/include");
    // What scripts/pythons has fetched; somebody may have installed them in its chroot, too.
    const std::string cache =
        text_of("XDG_CACHE_HOME").empty() ? text_of("HOME") + "/.cache" : text_of("XDG_CACHE_HOME");
    const std::string own_cache =
        text_of("PYPROF_CACHE").empty() ? cache + "/pyprof" : text_of("PYPROF_CACHE");
    all.push_back(own_cache + "/headers");
    all.push_back(own_cache + "/sid/usr/include");
    return all;
}

}  // namespace

std::optional<std::string> find_headers(const std::string& build) {
    const std::string minor_version = build.substr(0, build.find('.', 2));
    for (const std::string& directory : include_directories(minor_version)) {
        const std::string headers = directory + "/python" + minor_version;
        if (std::filesystem::exists(headers + "/internal/pycore_pystate.h")) return headers;
    }
    return std::nullopt;
}

std::string run_print_offsets(const std::string& directory, const std::string& headers,
                              const std::string& build) {
    std::string command = "'" + directory + "/print_offsets' '" + headers + "'";
    if (build.ends_with("t")) command += " -DPy_GIL_DISABLED=1";
    if (build.ends_with("d")) command += " -DPy_DEBUG=1";
    const auto close = [](std::FILE* stream) { ::pclose(stream); };
    const std::unique_ptr<std::FILE, decltype(close)> stream(::popen(command.c_str(), "r"), close);
    if (!stream) return {};
    std::string output;
    char piece[4096];
    while (const std::size_t count = std::fread(piece, 1, sizeof piece, stream.get()))
        output.append(piece, count);
    return output;
}

}  // namespace pyprof::test
