// SPDX-License-Identifier: Apache-2.0
//
// libiberty knows both languages. Substitutions let a short name stand for one that grows without end, so
// its output is taken piece by piece and given up when it is too long.
#include "native/demangle.h"

#include <libiberty/demangle.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace pyprof {
namespace {

constexpr std::size_t kLongestSymbol = 4096;
constexpr std::size_t kLongestName = 1024;

struct TooLong {};

// Thrown through libiberty: its frames have unwind tables, as all code of the x86-64 and AArch64 ABIs, and own
// nothing but their stack.
void append(const char* piece, std::size_t size, void* to) {
    auto& text = *static_cast<std::string*>(to);
    if (size > kLongestName - std::min(text.size(), kLongestName)) throw TooLong{};
    text.append(piece, size);
}

using Decoder = int (*)(const char*, int, demangle_callbackref, void*);

std::string decoded(Decoder decode, const std::string& symbol) {
    std::string text;
    try {
        if (decode(symbol.c_str(), DMGL_ANSI, append, &text) == 0) return {};
    } catch (const TooLong&) {
        return {};
    }
    return text;
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
    return std::any_of(beginnings.begin(), beginnings.end(),
                       [&](std::string_view beginning) { return text.substr(0, beginning.size()) == beginning; });
}

// Of GCC (clone_function_name, its callers, and omp-low.cc) and of LLVM.
constexpr std::array kClones{std::string_view("cold"), std::string_view("localalias"), std::string_view("omp_outlined")};
constexpr std::array kNumberedClones{
    std::string_view("cold"),       std::string_view("part"),    std::string_view("constprop"), std::string_view("isra"),
    std::string_view("lto_priv"),   std::string_view("_omp_fn"), std::string_view("simdclone"), std::string_view("llvm"),
    std::string_view("localalias"), std::string_view("__uniq"),  std::string_view("specialized"), std::string_view("omp_outlined"),
};

template <class Words>
bool is_one_of(const Words& words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_number(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string decoded_name(std::string_view symbol) {
    symbol = symbol.substr(0, symbol.find('@'));
    // The C library's second name of a function, for calls within it.
    if (symbol.substr(0, 5) == "__GI_") symbol.remove_prefix(5);
    if (symbol.empty()) return {};
    const bool may_be_rust = starts_with_any(symbol, {"_R", "_ZN"});
    const bool may_be_cpp = starts_with_any(symbol, {"_Z"});
    // Legacy Rust escapes characters as "..": its names end with the hash, behind which suffixes begin.
    const std::string_view plain = symbol.substr(0, 3) == "_ZN" ? symbol.substr(0, symbol.rfind('E') + 1) : symbol;
    if (may_be_rust) {
        if (std::string text = decoded(rust_demangle_callback, std::string(plain)); !text.empty()) return text;
    }
    // Other mangled names hold no dot.
    std::string base(may_be_cpp || may_be_rust ? symbol.substr(0, symbol.find('.')) : without_clone_suffix(symbol));
    if (may_be_rust) {
        if (std::string text = decoded(rust_demangle_callback, base); !text.empty()) return text;
    }
    if (may_be_cpp) {
        if (std::string text = decoded(cplus_demangle_v3_callback, base); !text.empty()) return text;
    }
    return base;
}

}  // namespace

// "cold" of "run.cold", "isra" of "run.isra.0"; other parts of a name belong to it, such as those of Go's
// "main.(*T).run" and its closure "main.run.func1.2".
std::string_view without_clone_suffix(std::string_view symbol) {
    for (;;) {
        const std::size_t dot = symbol.rfind('.');
        if (dot == std::string_view::npos || dot == 0) return symbol;
        const std::string_view last = symbol.substr(dot + 1);
        std::string_view rest = symbol.substr(0, dot);
        if (is_number(last)) {
            const std::size_t word = rest.rfind('.');
            // A function of a function (GCC) or one of several static ones of a name (LLVM).
            if (word == std::string_view::npos) return rest;
            if (word == 0 || !is_one_of(kNumberedClones, rest.substr(word + 1))) return symbol;
            rest = rest.substr(0, word);
        } else if (!is_one_of(kClones, last)) {
            return symbol;
        }
        symbol = rest;
    }
}

std::string demangle(std::string_view symbol) {
    if (symbol.size() > kLongestSymbol) return std::string(symbol.substr(0, kLongestSymbol));
    constexpr std::string_view kStub = "@plt";
    if (symbol.ends_with(kStub)) return decoded_name(symbol.substr(0, symbol.size() - kStub.size())).append(kStub);
    return decoded_name(symbol);
}

}  // namespace pyprof
