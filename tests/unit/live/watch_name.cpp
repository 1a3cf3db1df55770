// SPDX-License-Identifier: Apache-2.0
//
// Names of functions as people write them, and lines of commands.
#include "live/watch_config.h"
#include "live/watch_name.h"
#include "live/watch_words.h"

#include <catch2/catch.hpp>

#include <fnmatch.h>

#include <random>

using namespace pyprof;

namespace {

bool matches(const std::string& name, const std::string& function, const std::string& file) {
    const auto parsed = WatchName::parse(name);
    REQUIRE(parsed);
    return parsed->matches({function, file, file});
}

std::vector<std::string> misses(const std::string& name, const std::vector<std::string>& functions) {
    std::vector<SeenFunction> seen;
    for (const std::string& function : functions) seen.push_back({function, "/srv/app.py", "app.py"});
    std::vector<std::string> found;
    for (const SeenFunction* miss : near_misses(*WatchName::parse(name), seen)) found.push_back(miss->name);
    return found;
}

}  // namespace

TEST_CASE("watch name: a function is the end of a qualified name, a module and a file the end of a path") {
    struct Case {
        const char* name;
        const char* function;
        const char* file;
        bool matches;
    };
    constexpr Case kCases[] = {
        {"median", "median", "/srv/app.py", true},
        {"median", "Page.median", "/srv/app.py", true},
        {"Page.median", "Page.median", "/srv/app.py", true},
        {"Page.median", "Book.Page.median", "/srv/app.py", true},
        {"<lambda>", "f.<locals>.<lambda>", "/srv/app.py", true},
        {"edian", "Page.median", "/srv/app.py", false},
        {"age.median", "Page.median", "/srv/app.py", false},
        {"Page", "Page.median", "/srv/app.py", false},

        {"app:main", "main", "/srv/app.py", true},
        {"srv.app:main", "main", "/srv/app.py", true},
        {"json.encoder:dumps", "JSONEncoder.dumps", "/usr/lib/python3.12/json/encoder.py", true},
        {"json:dumps", "dumps", "/usr/lib/python3.12/json/__init__.py", true},
        {"importlib._bootstrap:_load", "_load", "<frozen importlib._bootstrap>", true},
        {"pp:main", "main", "/srv/app.py", false},
        {"json:dumps", "dumps", "/usr/lib/python3.12/json/encoder.py", false},

        {"app.py:main", "main", "/srv/app.py", true},
        {"srv/app.py:main", "main", "/srv/app.py", true},
        {"/srv/app.py:main", "main", "/srv/app.py", true},
        {"<string>:main", "main", "<string>", true},
        {"./serve:main", "main", "./serve", true},
        {"pp.py:main", "main", "/srv/app.py", false},
    };
    for (const Case& each : kCases) {
        INFO(each.name << " and " << each.function << " in " << each.file);
        CHECK(matches(each.name, each.function, each.file) == each.matches);
    }
}

TEST_CASE("watch name: globs") {
    CHECK(matches("Page.*", "Page.median", "/srv/app.py"));
    CHECK(matches("test_?", "Suite.test_a", "/srv/app.py"));
    CHECK(matches("*", "anything", "/srv/app.py"));
    CHECK(matches("app.py:*", "Page.median", "/srv/app.py"));
    CHECK(matches("*.py:main", "main", "/srv/app.py"));
    CHECK(matches("json.*:*", "dumps", "/usr/lib/python3.12/json/encoder.py"));
    CHECK_FALSE(matches("Page.*", "Pages.median", "/srv/app.py"));
    CHECK_FALSE(matches("json.*:*", "dumps", "/usr/lib/python3.12/xml/encoder.py"));
    CHECK(matches_glob("a*b*c", "a-b-b-c"));
    CHECK(matches_glob("?", "\xC3\xA9"));  // one character, two bytes
    CHECK(matches_glob("[", "["));
    CHECK(matches_glob("[]]", "]"));
    CHECK(matches_glob("[!a-c]x", "dx"));
    CHECK_FALSE(matches_glob("[!a-c]x", "bx"));
    CHECK(matches_glob("", ""));
    CHECK_FALSE(matches_glob("", "a"));
    CHECK(matches_glob(std::string(200, '*') + "b", std::string(2000, 'a') + "b"));
    std::string hard;
    for (int i = 0; i < 100; ++i) hard += "*a";
    CHECK_FALSE(matches_glob(hard + "b", std::string(1000, 'a')));  // ends in this life
}

TEST_CASE("watch name: globs agree with fnmatch") {
    std::mt19937 random(7);
    const std::string alphabet = "ab*?[]!-";
    const auto word = [&](std::size_t letters) {
        std::string text;
        for (std::size_t i = random() % 7; i > 0; --i) text += alphabet[random() % letters];
        return text;
    };
    for (int i = 0; i < 20'000; ++i) {
        const std::string glob = word(4);  // sets have odd corners that POSIX leaves open
        const std::string text = word(2);
        INFO(glob << " on " << text);
        CHECK(matches_glob(glob, text) == (::fnmatch(glob.c_str(), text.c_str(), FNM_NOESCAPE) == 0));
    }
}

TEST_CASE("watch name: what is no name") {
    for (const char* text : {"", ":", "a:", ":f"}) CHECK_FALSE(WatchName::parse(text));
    CHECK_FALSE(WatchName::parse(std::string(2000, 'a')));
}

TEST_CASE("watch name: near misses") {
    const std::vector<std::string> functions = {"Page.median", "Page.mean", "Report.rows", "main", "Template.render"};
    CHECK(misses("medain", functions).front() == "Page.median");
    CHECK(misses("Page.medien", functions).front() == "Page.median");
    CHECK(misses("Main", functions) == std::vector<std::string>{"main"});
    CHECK(misses("other:render", functions) == std::vector<std::string>{"Template.render"});
    CHECK(misses("Widget.render", functions) == std::vector<std::string>{"Template.render"});
    CHECK(misses("entirely_different", functions).empty());
    CHECK(misses(std::string(500, 'x'), functions).empty());
    CHECK(misses("fa", {"fb", "fc", "fd", "fe"}).size() == 3);
}

TEST_CASE("watch name: edit distance") {
    CHECK(edit_distance("kitten", "sitting", 9) == 3);
    CHECK(edit_distance("ab", "ba", 9) == 1);
    CHECK(edit_distance("", "abc", 9) == 3);
    CHECK(edit_distance("abc", "abc", 0) == 0);
    CHECK(edit_distance("aaaa", "bbbb", 2) == 3);
}

TEST_CASE("watch words: quotes, backslashes and comments") {
    using Words = std::vector<std::string>;
    CHECK(*split_words("  add  a 'b c' \"d 'e\" f\\ g") == Words{"add", "a", "b c", "d 'e", "f g"});
    CHECK(*split_words("results # so far") == Words{"results"});
    CHECK(*split_words("add a#b ''") == Words{"add", "a#b", ""});
    CHECK(split_words("")->empty());
    CHECK(split_words("# nothing")->empty());
    CHECK_FALSE(split_words("add 'a"));
    CHECK_FALSE(split_words("add a\\"));
    CHECK(last_word("add Pag") == "Pag");
    CHECK(last_word("add ").empty());
}

TEST_CASE("watch config: what it understands and what it refuses") {
    const auto config = parse_watch_config("functions = ['a', 'B.c']\nrate = '1k'\nthreads = 'all'\nnonblocking = true\n");
    REQUIRE(config);
    CHECK(config->functions == std::vector<std::string>{"a", "B.c"});
    CHECK(config->rate_hz == 1000.0);
    CHECK(config->threads == "all");
    CHECK(config->nonblocking);
    CHECK(parse_watch_config("rate = 200")->rate_hz == 200.0);
    CHECK(parse_watch_config("rate = 2.5")->rate_hz == 2.5);
    CHECK(parse_watch_config("")->functions.empty());
    for (const char* text : {"function = ['a']", "functions = 'a'", "functions = [1]", "rate = -1", "rate = true", "threads = 'some'",
                             "nonblocking = 1", "functions = [", "a = b", "[!'-"}) {
        INFO(text);
        const auto refused = parse_watch_config(text);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == ExitCode::kUsage);
    }
}
