// SPDX-License-Identifier: Apache-2.0
//
// llama.cpp's conversion of JSON schemas to grammars, without the rest of its `common`: the three
// string functions that it calls are given here.
//
// Where the conversion is incomplete it prints a warning and goes on with a wider grammar. Here
// that is an error: a caller who asked for a pattern gets the pattern, and a library prints nothing.
#include "common.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

std::string string_join(const std::vector<std::string> & values, const std::string & separator) {
    std::string joined;
    for (size_t i = 0; i < values.size(); ++i) {
        if (i > 0) joined += separator;
        joined += values[i];
    }
    return joined;
}

std::vector<std::string> string_split(const std::string & text, const std::string & delimiter) {
    std::vector<std::string> parts;
    size_t begin = 0;
    for (size_t end; (end = text.find(delimiter, begin)) != std::string::npos; begin = end + delimiter.size())
        parts.push_back(text.substr(begin, end - begin));
    parts.push_back(text.substr(begin));
    return parts;
}

std::string string_repeat(const std::string & text, size_t times) {
    std::string repeated;
    for (size_t i = 0; i < times; ++i) repeated += text;
    return repeated;
}

#define fprintf(stream, format, text) throw std::invalid_argument(text)
#include "json-schema-to-grammar.cpp"
