// SPDX-License-Identifier: Apache-2.0
#include "live/watch_config.h"

#include "base/parse.h"

#include <fmt/format.h>
#include <toml++/toml.h>

namespace pyprof {

namespace {

constexpr const char* kKeys = "known are: functions (a list of names), rate (200 or \"1k\"), threads (\"running\", \"all\" or \"gil\"), nonblocking";

tl::unexpected<Error> wrong(std::string_view key, std::string_view wanted) {
    return fail(ExitCode::kUsage, fmt::format("{} must be {}", key, wanted), kKeys);
}

Result<void> take(WatchConfig& config, std::string_view key, const toml::node& value) {
    if (key == "functions") {
        const toml::array* names = value.as_array();
        if (names == nullptr) return wrong(key, "a list of names");
        for (const toml::node& name : *names) {
            const auto text = name.value_exact<std::string>();
            if (!text) return wrong(key, "a list of names");
            config.functions.push_back(*text);
        }
        return {};
    }
    if (key == "rate") {
        const std::string text = value.is_string() ? *value.value<std::string>() : fmt::format("{}", value.value<double>().value_or(0));
        const auto rate = parse_rate(text);
        if (!rate) return tl::unexpected(rate.error());
        config.rate_hz = *rate;
        return {};
    }
    if (key == "threads") {
        config.threads = value.value_exact<std::string>().value_or("?");
        if (config.threads != "running" && config.threads != "all" && config.threads != "gil") return wrong(key, "\"running\", \"all\" or \"gil\"");
        return {};
    }
    if (key == "nonblocking") {
        const auto flag = value.value_exact<bool>();
        if (!flag) return wrong(key, "true or false");
        config.nonblocking = *flag;
        return {};
    }
    return fail(ExitCode::kUsage, fmt::format("unknown key {}", key), kKeys);
}

}  // namespace

Result<WatchConfig> parse_watch_config(std::string_view text) {
    WatchConfig config;
    try {
        for (auto&& [key, value] : toml::parse(text)) {
            const auto taken = take(config, key.str(), value);
            if (!taken) return tl::unexpected(taken.error());
        }
    } catch (const toml::parse_error& error) {
        return fail(ExitCode::kUsage, fmt::format("line {}: {}", error.source().begin.line, error.description()), "the file is TOML");
    }
    return config;
}

}  // namespace pyprof
