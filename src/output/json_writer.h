// SPDX-License-Identifier: Apache-2.0
//
// How all JSON of ours is written: ASCII alone, whatever else as \uNNNN, DEL too. No control sequence of a terminal can be
// spelled in it. Text must be valid UTF-8.
#pragma once

#include <rapidjson/prettywriter.h>
#include <rapidjson/writer.h>

#include <ostream>
#include <sstream>
#include <string>
#include <string_view>

namespace pyprof {

// What rapidjson writes to.
class JsonStream {
public:
    using Ch = char;
    explicit JsonStream(std::ostream& out) : out_(out) {}
    void Put(char c) {
        constexpr char kDelete = 0x7f;  // it stands in strings alone; rapidjson leaves it as it is
        if (c == kDelete) {
            out_ << "\\u007F";
        } else {
            out_.rdbuf()->sputc(c);
        }
    }
    void Flush() {}

private:
    std::ostream& out_;
};

using rapidjson::PutUnsafe;  // rapidjson's encodings look for it beside the stream

using JsonWriter = rapidjson::Writer<JsonStream, rapidjson::UTF8<>, rapidjson::ASCII<>>;
using PrettyJsonWriter = rapidjson::PrettyWriter<JsonStream, rapidjson::UTF8<>, rapidjson::ASCII<>>;

// Where it is to become a string.
class JsonText {
public:
    [[nodiscard]] JsonStream& stream() { return stream_; }
    [[nodiscard]] std::string text() const { return out_.str(); }
    // With the end of the line.
    [[nodiscard]] std::string line() const { return out_.str() + '\n'; }

private:
    std::ostringstream out_;
    JsonStream stream_{out_};
};

template <class Writer>
void put_text(Writer& writer, std::string_view text) {
    writer.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}

}  // namespace pyprof
