// SPDX-License-Identifier: Apache-2.0
//
// Files that a test builds with the tools of every build machine: cc, and strip, objcopy, nm and objdump of binutils.
#pragma once

#include "native/module_symbols.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace pyprof::test {

class BuildDirectory {
public:
    BuildDirectory() {
        std::string name = (std::filesystem::temp_directory_path() / "pyprof-built-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~BuildDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    BuildDirectory(const BuildDirectory&) = delete;
    BuildDirectory& operator=(const BuildDirectory&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }

    // In the directory; the test ends where it fails.
    void run(const std::string& command) const {
        INFO(command);
        REQUIRE(std::system(("cd '" + path_ + "' && " + command).c_str()) == 0);
    }
    // A line of what a command prints there, whose words the pattern of awk(1) wants: its first word as a number.
    [[nodiscard]] FileAddress address(const std::string& command, const std::string& pattern) const {
        run(command + " | awk '" + pattern + " { print $1; exit }' > address");
        std::ifstream file(path_ + "/address");
        std::uint64_t value = 0;
        file >> std::hex >> value;
        INFO(pattern);
        REQUIRE(value != 0);
        return FileAddress{value};
    }
    // NAME.so of C source.
    void build(const std::string& name, const std::string& source, const std::string& flags = "") const {
        std::ofstream(path_ + "/" + name + ".c") << source;
        run("cc -shared -fPIC -O1 -g0 " + flags + " -o " + name + ".so " + name + ".c");
    }
    [[nodiscard]] std::optional<ElfImage> open(const std::string& name) const {
        return ElfImage::open(UniqueFd(::open((path_ + "/" + name).c_str(), O_RDONLY | O_CLOEXEC)));
    }
    [[nodiscard]] FileAddress address_of(const std::string& file, const std::string& symbol) const {
        return address("nm " + file, "$3 == \"" + symbol + "\"");
    }

private:
    std::string path_;
};

}  // namespace pyprof::test
