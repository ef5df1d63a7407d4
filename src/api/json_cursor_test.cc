// SPDX-License-Identifier: Apache-2.0
#include "api/json_cursor.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <simdjson.h>

#include "api/json_writer.h"
#include "base/utf8.h"

namespace incipit::api {
namespace {

Result<std::string> whole(std::string_view text) {
  JsonCursor json(text);
  INCIPIT_TRY(const std::string_view source, json.skip());
  INCIPIT_TRY_VOID(json.finish());
  return std::string(source);
}

TEST(JsonCursor, HandsOutNumbersAsTheyWereWritten) {
  for (const char* source :
       {"50000000014435121", "1.10", "-0", "1E+400", "123456789012345678901"}) {
    EXPECT_EQ(whole(std::string(" ").append(source).append("\n")).value(), source);
  }
}

TEST(JsonCursor, RefusesWhatIsNotJson) {
  for (const char* source :
       {"",          "{",     "[1,]",  "{\"a\":1,}", "01",      "1.",          ".5",     "+1",
        "1e",        "tru",   "nulll", "\"a",        "\"\\x\"", "\"\\u12g4\"", "\"\n\"", "[1 2]",
        "{\"a\" 1}", "{a:1}", "1 2",   "[",          "]",       "-",           "'a'"}) {
    EXPECT_FALSE(whole(source).has_value()) << source;
  }
}

TEST(JsonCursor, UnescapesStringsAndJoinsSurrogates) {
  EXPECT_EQ(JsonCursor(R"("a\u00e9\ud83d\ude00\n\/\u0000")").string().value(),
            std::string("a\xC3\xA9\xF0\x9F\x98\x80\n/") + '\0');
}

TEST(JsonCursor, MarksALoneSurrogateAsABadByte) {
  EXPECT_EQ(JsonCursor(R"("a\ud800b")").string().value(),
            "a\xFF"
            "b");
  EXPECT_EQ(JsonCursor(R"("\ud800\u0041")").string().value(),
            "\xFF"
            "A");
  EXPECT_EQ(JsonCursor(R"("\udc00")").string().value(), "\xFF");
}

TEST(JsonCursor, KeepsBytesThatAreNotUtf8) {
  EXPECT_EQ(JsonCursor("\"caf\xE9\"").string().value(), "caf\xE9");
}

TEST(JsonCursor, NamesFileLineAndColumn) {
  JsonCursor json("{\n  \"a\": x}", "task.json", 10);
  std::string key;
  ASSERT_TRUE(json.enter_object());
  ASSERT_TRUE(json.next_member(key).value());
  EXPECT_EQ(json.skip().error().message, "task.json:11:8: expected a JSON value");
}

TEST(JsonCursor, LimitsNesting) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(whole(nested(JsonCursor::kDepthMax)));
  EXPECT_FALSE(whole(nested(JsonCursor::kDepthMax + 1)));
  EXPECT_FALSE(whole(std::string(1 << 20, '[')));
}

// The oracle is a JSON library; texts are drawn from pieces that nearly fit together.
RC_GTEST_PROP(JsonCursor, AcceptsExactlyWhatALibraryAccepts, ()) {
  const auto pieces =
      *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(std::vector<std::string>{
          "{", "}",    "[",    "]", ",",  ":",  "\"a\"", "\"b\\n\"", "1",      "-2.5e3",
          "0", "true", "null", " ", "\"", "\\", ".",     "e",        "\"k\":", "[]"}));
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  simdjson::dom::parser parser;
  const bool is_json = parser.parse(text).error() == simdjson::SUCCESS;
  RC_ASSERT(whole(text).has_value() == is_json);
}

RC_GTEST_PROP(JsonWriter, WritesStringsThatComeBack, (const std::string& text)) {
  const std::string json = json_string(text);
  RC_ASSERT(is_valid_utf8(json));
  RC_ASSERT(JsonCursor(json).string().value() == repair_utf8(text, nullptr));
  simdjson::dom::parser parser;
  RC_ASSERT(std::string(parser.parse(json).get_string().value()) == repair_utf8(text, nullptr));
}

TEST(JsonWriter, WritesSixSignificantDigitsAndNeverAnInfinity) {
  JsonWriter json;
  json.begin_array().number(0.97312399).number(1.0).number(1.2345678e-7);
  json.number(std::numeric_limits<double>::infinity()).number(0.0).end_array();
  EXPECT_EQ(json.text(), "[0.973124,1,1.23457e-07,null,0]");
}

TEST(JsonWriter, LaysOutForPeople) {
  JsonWriter json(2);
  json.begin_object().key("a").number(1).key("b").begin_array().end_array().end_object();
  EXPECT_EQ(json.text(), "{\n  \"a\": 1,\n  \"b\": []\n}");
}

}  // namespace
}  // namespace incipit::api
