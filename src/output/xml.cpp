// SPDX-License-Identifier: Apache-2.0
//
// XML 1.0, section 2.2: Char leaves out C0 but for tab and newlines, surrogates, U+FFFE and U+FFFF.
#include "output/xml.h"

#include "base/text.h"

namespace pyprof {

std::string xml_text(std::string_view text) {
    const std::string visible = escape_control(text);
    std::string result;
    result.reserve(visible.size());
    for (std::size_t i = 0; i < visible.size(); ++i) {
        const std::string_view rest = std::string_view(visible).substr(i, 3);
        switch (visible[i]) {
            case '&':
                result += "&amp;";
                break;
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '"':
                result += "&quot;";
                break;
            case '\'':
                result += "&#39;";
                break;
            default:
                if (rest == "\xEF\xBF\xBE" || rest == "\xEF\xBF\xBF") {
                    result += "\xEF\xBF\xBD";
                    i += 2;
                } else {
                    result += visible[i];
                }
        }
    }
    return result;
}

}  // namespace pyprof
