// SPDX-License-Identifier: Apache-2.0
#include "native/cython_names.h"

#include <charconv>
#include <vector>

namespace pyprof {
namespace {

constexpr std::string_view kPrefix = "__pyx_";
constexpr std::string_view kFused = "__pyx_fuse_";
constexpr std::string_view kLambda = "__pyx_lambda_funcdef_";
constexpr std::string_view kWrapper = "pw";    // of a Python function: it takes the arguments apart
constexpr std::string_view kFunction = "pf";   // what the wrapper calls
constexpr std::string_view kOfC = "f";         // cdef, and the C side of cpdef
constexpr std::string_view kGenerator = "gb";

struct Mangled {
    std::string_view kind;
    std::string_view scope;                // "_5hello_3Foo"
    std::vector<std::string_view> parts;   // of it: module, classes
    std::optional<std::size_t> number;     // within the scope; 0 is not written
    std::string_view name;
};

std::optional<std::size_t> take_number(std::string_view& text) {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether what stands behind a part of a scope can be a numbered name, or a lambda, whose wrapper may be the first.
bool may_be_numbered(std::string_view rest) {
    return rest.size() > 2 && rest.front() == '_' && (is_digit(rest[1]) || rest.substr(1).starts_with(kLambda));
}

std::optional<Mangled> parse(std::string_view symbol) {
    if (!symbol.starts_with(kPrefix)) return std::nullopt;
    symbol.remove_prefix(kPrefix.size());
    Mangled mangled;
    mangled.kind = symbol.substr(0, symbol.find('_'));
    const bool is_numbered = mangled.kind == kWrapper || mangled.kind == kGenerator;
    if (!is_numbered && mangled.kind != kFunction && mangled.kind != kOfC) return std::nullopt;
    symbol.remove_prefix(mangled.kind.size());
    const char* const begin = symbol.data();
    const char* end = begin;
    while (!symbol.empty() && symbol.front() == '_') {
        symbol.remove_prefix(1);
        std::string_view rest = symbol;
        const auto length = take_number(rest);
        if (!length) break;
        // A part has its length before it and something behind it; else the number is the function's own. "3foo_bar" may
        // be both, but where a number must follow.
        const bool is_part = *length > 0 && *length < rest.size() && rest[*length] == '_' &&
                             (!is_numbered || may_be_numbered(rest.substr(*length)));
        if (!is_part) {
            mangled.number = length;
            symbol = rest;
            break;
        }
        mangled.parts.push_back(rest.substr(0, *length));
        symbol = rest.substr(*length);
        end = symbol.data();
    }
    if (symbol.empty() || is_digit(symbol.front())) return std::nullopt;
    mangled.scope = std::string_view(begin, static_cast<std::size_t>(end - begin));
    mangled.name = symbol;
    return mangled;
}

// The name itself may be one of Cython's: of a lambda, or of a fused function's variant.
std::string plain_name(std::string_view name) {
    if (name.starts_with(kLambda) && name != kLambda) return std::string(name.substr(kLambda.size()));
    if (name.starts_with(kFused)) {
        std::string_view rest = name.substr(kFused.size());
        if (!take_number(rest) || rest.empty()) return std::string(name);
        const auto inner = parse(rest);
        return std::string(inner ? inner->name : rest);
    }
    return std::string(name);
}

}  // namespace

std::optional<std::string> cython_name(std::string_view symbol) {
    if (symbol.starts_with(kLambda) && symbol.size() > kLambda.size()) return plain_name(symbol);
    if (symbol.starts_with(kFused)) {
        symbol.remove_prefix(kFused.size());
        if (!take_number(symbol)) return std::nullopt;
    }
    const auto mangled = parse(symbol);
    if (!mangled) return std::nullopt;
    std::string name;
    for (std::size_t i = 1; i < mangled->parts.size(); ++i) name.append(mangled->parts[i]).append(".");
    return name + plain_name(mangled->name);
}

int cython_layer(std::string_view symbol) {
    if (symbol.starts_with(kLambda)) return 2;
    if (symbol.starts_with(kFused)) {
        symbol.remove_prefix(kFused.size());
        if (!take_number(symbol)) return 0;
    }
    const auto mangled = parse(symbol);
    if (!mangled || mangled->kind == kGenerator) return 0;
    return mangled->kind == kWrapper ? 1 : mangled->kind == kFunction ? 2 : 3;
}

bool is_generator_body(std::string_view symbol) { return symbol.starts_with("__pyx_gb_"); }

// Numbers are given in the order function, wrapper, body. A lambda has no number of its own before its wrapper's.
bool makes_generator(std::string_view function, std::string_view body) {
    const auto maker = parse(function);
    const auto made = parse(body);
    if (!maker || !made || made->kind != kGenerator || maker->scope != made->scope || !made->number) return false;
    if (maker->kind == kWrapper) return maker->number.value_or(0) + 1 == *made->number;
    return maker->kind == kFunction && maker->number.value_or(0) + 2 == *made->number;
}

}  // namespace pyprof
