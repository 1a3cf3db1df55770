// SPDX-License-Identifier: Apache-2.0
//
// The shortening rule, case by case; paths as Debian, pyenv, virtualenv and CPython's own builds lay
// them out.
#include "profile/source_path.h"

#include <catch2/catch.hpp>
#include <string_view>

using pyprof::Origin;
using pyprof::shorten;

namespace {
struct Case {
    std::string_view path;
    std::string_view expected;
    Origin origin;
};
}  // namespace

TEST_CASE("source path: what lies below a library directory is named from there on") {
    const Case cases[] = {
        {"/usr/lib/python3.11/threading.py", "threading.py", Origin::kStandard},
        {"/usr/lib/python3.11/asyncio/base_events.py", "asyncio/base_events.py", Origin::kStandard},
        {"/opt/py/lib/python3.13t/json/decoder.py", "json/decoder.py", Origin::kStandard},
        {"/usr/lib64/python3.9/ast.py", "ast.py", Origin::kStandard},
        {"/usr/lib/python3/dist-packages/yaml/reader.py", "yaml/reader.py", Origin::kPackage},
        {"/app/venv/lib/python3.12/site-packages/flask/app.py", "flask/app.py", Origin::kPackage},
        {"venv/lib/python3.12/site-packages/six.py", "six.py", Origin::kPackage},
        {"/a/lib/python3.12/site-packages/x/lib/python3.12/y.py", "y.py", Origin::kStandard},
        {"<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>", Origin::kStandard},
    };
    for (const Case& each : cases) {
        CHECK(shorten(each.path, "/app").short_path == each.expected);
        CHECK(shorten(each.path, "/app").origin == each.origin);
    }
}

TEST_CASE("source path: what only looks like a library directory is none") {
    for (const std::string_view path :
         {"/srv/python3.11/threading.py", "/usr/lib/python3/x.py", "/usr/lib/python3.11",
          "/usr/lib/python3.x/y.py", "/usr/lib/pythonic3.1/y.py", "/usr/lib/python.1/y.py",
          "/x/site-packages", "/x/site-packages/", "/x/my-site-packages/y.py", "site-packages.py"}) {
        CHECK(shorten(path, "").short_path == path);
        CHECK(shorten(path, "").origin == Origin::kProgram);
    }
}

TEST_CASE("source path: below the working directory it is relative, else whole") {
    CHECK(shorten("/home/u/app/pkg/main.py", "/home/u/app").short_path == "pkg/main.py");
    CHECK(shorten("/home/u/app/pkg/main.py", "/home/u/app/").short_path == "pkg/main.py");
    CHECK(shorten("/home/u/application/main.py", "/home/u/app").short_path == "/home/u/application/main.py");
    CHECK(shorten("/home/u/app", "/home/u/app").short_path == "/home/u/app");
    CHECK(shorten("/srv/main.py", "/").short_path == "/srv/main.py");
    CHECK(shorten("/srv/main.py", "").short_path == "/srv/main.py");
    CHECK(shorten("./main.py", "/srv").short_path == "main.py");
    CHECK(shorten("main.py", "/srv").short_path == "main.py");
    CHECK(shorten("../main.py", "/srv").short_path == "../main.py");
    for (const std::string_view name : {"", "<string>", "<stdin>", "<ipython-input-1-0a>", "/", "//", "./"}) {
        CHECK(shorten(name, "/srv").short_path == name);
    }
}
