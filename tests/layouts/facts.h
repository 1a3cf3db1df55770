// SPDX-License-Identifier: Apache-2.0
//
// What a program of a test says of itself: one fact a line, a kind and its words.
#pragma once

#include <pyprof/address.h>

#include <sstream>
#include <string>
#include <vector>

namespace pyprof::test {

struct Fact {
    std::string kind;
    std::vector<std::string> words;

    [[nodiscard]] std::uint64_t number(std::size_t i) const { return std::stoull(words.at(i)); }
    [[nodiscard]] Address address(std::size_t i = 0) const { return Address{number(i)}; }
    [[nodiscard]] std::string text(std::size_t i) const {
        std::string bytes;
        const std::string& hex = words.at(i);
        if (hex == "-") return bytes;
        for (std::size_t at = 0; at + 2 <= hex.size(); at += 2) {
            bytes.push_back(static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16)));
        }
        return bytes;
    }
};

inline std::vector<Fact> parse_facts(const std::vector<std::string>& lines) {
    std::vector<Fact> facts;
    for (const std::string& line : lines) {
        std::istringstream stream(line);
        Fact fact;
        stream >> fact.kind;
        for (std::string word; stream >> word;) fact.words.push_back(word);
        facts.push_back(fact);
    }
    return facts;
}

}  // namespace pyprof::test
