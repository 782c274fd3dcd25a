// What is text and what is not: names in files may hold any bytes.
#ifndef SLIPWAY_BASE_UTF8_H_
#define SLIPWAY_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace slipway::text {

// Bytes of the well-formed UTF-8 sequence at the front of `s`, which is not empty (RFC 3629: no overlong forms,
// surrogates or more than U+10FFFF); 0 where there is none.
size_t Utf8Length(std::string_view s);

// What a file calls things may hold anything: the same text with control characters (a forged line, an escape sequence,
// another direction of writing) and bytes that are not UTF-8 shown as escapes.
std::string Printable(std::string_view s);

// Whether all of it is UTF-8.
bool IsUtf8(std::string_view s);

// Whether the text is UTF-8 without control characters: what can be the name of a file, and what readers of archives
// take.
bool IsPlain(std::string_view s);

// The text in double quotes as the text form has strings and Python reads them: \", \\, \n, \t, control characters and
// bytes that are not UTF-8 as \xHH (which is a character in Python: IsUtf8() tells whether that makes a difference).
std::string Quoted(std::string_view s);
void AppendQuoted(std::string_view s, std::string* out);

// A text of at most about `most` bytes: what is longer loses its middle, "abc … 113000 bytes … xyz", between
// characters.
std::string Shortened(std::string_view s, size_t most);

}  // namespace slipway::text

#endif  // SLIPWAY_BASE_UTF8_H_
