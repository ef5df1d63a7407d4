// SPDX-License-Identifier: Apache-2.0
// Tests src/model/json_schema_leaves.cc
// Tests src/model/json_schema_reader.cc
// Tests src/model/json_schema_pattern.cc
#include "model/json_schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/grammar.h"
#include "support/must.h"
#include "support/prompt_model.h"
#include "support/seed.h"

namespace incipit::model {
namespace {

using test::must;

const Tokenizer& tokenizer() { return *test::smollm().tokenizer; }

std::string refusal(const std::string& schema) {
  const auto grammar = json_schema_grammar(schema);
  if (!grammar) return grammar.error().message;
  const auto made = Grammar::create(tokenizer(), *grammar);
  return made ? "" : made.error().message;
}

// Whether the grammar of the schema takes the whole of `text`.
bool matches(const std::string& schema, const std::string& text) {
  const auto grammar = must(Grammar::create(tokenizer(), must(json_schema_grammar(schema))));
  for (const Token token : must(tokenizer().encode_plain(text))) {
    if (!grammar->allows(token)) return false;
    grammar->accept(token);
  }
  return grammar->end().has_value();
}

void expect(const std::string& schema, const std::vector<std::string>& good,
            const std::vector<std::string>& bad) {
  ASSERT_EQ(refusal(schema), "") << schema;
  for (const std::string& text : good) EXPECT_TRUE(matches(schema, text)) << schema << "\n" << text;
  for (const std::string& text : bad) EXPECT_FALSE(matches(schema, text)) << schema << "\n" << text;
}

TEST(JsonSchema, AdmitsWhatTheSchemaSays) {
  expect(R"({"type":"object","required":["a","b"],"properties":{"a":{"enum":["x","y\""]},
             "b":{"type":"array","items":{"type":"integer","minimum":1,"maximum":12},"minItems":1,
             "maxItems":3},"c":{"type":["string","null"],"maxLength":3}}})",
         {R"({"a":"x","b":[1]})", R"({"a": "y\"", "b": [12, 3,4] })",
          R"({"a":"x","b":[1],"c":null})", R"({"a":"x","b":[1],"c":"abc"})"},
         {R"({"a":"x"})", R"({"a":"z","b":[1]})", R"({"a":"x","b":[]})", R"({"a":"x","b":[13]})",
          R"({"a":"x","b":[1,2,3,4]})", R"({"a":"x","b":[1],"c":"abcd"})", "{", ""});
  expect(R"({"anyOf":[{"const":"a"},{"type":"boolean"},{"allOf":[{"type":"null"}]}]})",
         {"\"a\"", "true", "null"}, {"\"b\"", "1"});
  expect("{}", {"1", "[1,{}]", "\"a\"", R"({"a":[null]})"}, {"x"});
  expect("true", {"1"}, {"x"});
  expect(R"({"properties":{"a":{}, "b":true},"required":["a"]})", {R"({"a":1,"b":[2]})"}, {"{}"});
  expect(R"({"type":"object","additionalProperties":{"type":"integer"}})",
         {"{}", R"({"k":1,"l":2})"}, {R"({"k":"v"})"});
  expect(R"({"type":"array","prefixItems":[{"const":1},{"const":2}],"minItems":2,"maxItems":2})",
         {"[1,2]"}, {"[1]", "[1,2,3]"});
  expect(R"({"type":"array","minItems":2})", {"[1,\"a\"]"}, {"[1]"});
  expect(R"({"minLength":2})", {"\"ab\""}, {"\"a\"", "7"});
  expect(R"({"type":"string","format":"date"})", {"\"2026-01-31\""}, {"\"2026-13-31\"", "\"x\""});
  expect(R"({"enum":[1,"a",null],"type":["integer","string","null"]})", {"1", "\"a\""}, {"2"});
}

TEST(JsonSchema, FollowsReferencesInside) {
  expect(R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","required":["v"],
             "properties":{"v":{"$ref":"#/$defs/a~1b"},"next":{"$ref":"#/$defs/node"}}},
             "a/b":{"type":"integer","minimum":0,"maximum":9},"a-b":{"type":"null"}}})",
         {R"({"v":1})", R"({"v":1,"next":{"v":2,"next":{"v":3}}})"},
         {R"({"v":10})", R"({"v":null})"});
  expect(R"({"properties":{"a":{"$ref":"#/$defs/a_b"},"b":{"$ref":"#/$defs/a-b"}},
             "required":["a","b"],"$defs":{"a_b":{"const":1},"a-b":{"const":2}}})",
         {R"({"a":1,"b":2})"}, {R"({"a":1,"b":1})"});
}

TEST(JsonSchema, PatternsStayWithinTheString) {
  expect(R"({"type":"string","pattern":"^\\d{3}-[\\w.-]+ (?:ab|c)*$"})",
         {"\"123-a.b- ab\"", "\"123-x \""}, {"\"12-a \"", "\"123- \""});
  expect(R"({"type":"string","pattern":"^.*[^a]$"})", {"\"aab\""},
         {"\"a\"", "\"a\"b\"", "\"a\\\"", "\"a\\nb\""});
}

TEST(JsonSchema, IntegersKeepTheirBounds) {
  std::mt19937_64 random(test::seed_of(3));
  for (int round = 0; round < 150; ++round) {
    const unsigned scale = 1U << (random() % 14);
    const auto draw = [&] {
      return static_cast<int>(random() % (2 * scale + 1)) - static_cast<int>(scale);
    };
    const auto [low, high] = std::minmax({draw(), draw()});
    const bool one_sided = round % 3 == 0;
    const std::string schema = R"({"type":"integer","minimum":)" + std::to_string(low) +
                               (one_sided ? "}" : R"(,"maximum":)" + std::to_string(high) + "}");
    for (const int value :
         {low - 1, low, low + 1, high - 1, high, high + 1, draw(), draw(), 0, 15, 9}) {
      const bool inside = value >= low && (one_sided || value <= high);
      EXPECT_EQ(matches(schema, std::to_string(value)), inside) << schema << " " << value;
    }
  }
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

TEST(JsonSchema, RefusesByPlaceWhatItCannotHonour) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{", "parse error"},
      {"{\"type\":\"\xFF\"}", "no UTF-8"},
      {"[]", "#: a schema must be an object"},
      {"false", "#: a schema must be"},
      {"12", "#: a schema must be"},
      {R"({"type":"thing"})", "#/type: it must be"},
      {R"({"type":["string","string"]})", "#/type: it must be"},
      {R"({"type":[]})", "#/type: the list must not be empty"},
      {R"({"properties":{"a":{"multipleOf":2}}})", "#/properties/a/multipleOf: this keyword"},
      {R"({"properties":{"a/b":{"type":1}}})", "#/properties/a~1b/type: it must be"},
      {R"({"type":"number","minimum":1})", "#/minimum: it does not belong"},
      {R"({"type":"integer","minimum":1.5})", "#/minimum: it must be a whole number"},
      {R"({"type":"integer","minimum":1e300})", "#/minimum: it must be a whole number"},
      {R"({"type":"integer","maximum":18446744073709551615})",
       "#/maximum: it must be a whole number"},
      {R"({"type":"integer","minimum":-9223372036854775808})", "#/minimum: it must be"},
      {R"({"type":"integer","minimum":5,"maximum":4})", "#: no integer lies"},
      {R"({"minItems":-1})", "#/minItems: it must be a whole number"},
      {R"({"minItems":3,"maxItems":2})", "#/minItems: it is above"},
      {R"({"maxItems":100000})", "#/maxItems: it must be a whole number"},
      {R"({"uniqueItems":true})", "#/uniqueItems: it is not supported"},
      {R"({"minLength":"7"})", "#/minLength: it must be a whole number"},
      {R"({"format":"email"})", "#/format: known are"},
      {R"({"pattern":"a"})", "#/pattern: a pattern must begin"},
      {R"({"pattern":"^a\"$"})", "#/pattern: a pattern cannot hold quotes"},
      {R"({"pattern":"^\\b$"})", "#/pattern: the escape \\b"},
      {R"({"pattern":"^[a$"})", "#/pattern: a class has no closing"},
      {R"({"pattern":"^[!-z]$"})", "#/pattern: a range"},
      {R"({"pattern":"^[\\d-z]$"})", "#/pattern: a range"},
      {R"({"pattern":"^a\\$"})", "#/pattern: the pattern's last $"},
      {R"({"pattern":5})", "#/pattern: a pattern must"},
      {R"({"pattern":"^(?=a)$"})", "#/pattern: "},
      {R"({"properties":{"a":{"items":{"pattern":"^(a$"}}}})", "#/properties/a/items/pattern: "},
      {R"({"pattern":"^(a*)*$"})", "begins with itself"},
      {R"({"pattern":"^(((a{0,50}){0,50}){0,50})$"})", "ways to begin"},
      {R"({"pattern":"^a{5,2}$"})", "M <= N"},
      {R"({"enum":[]})", "#/enum: it must be a list"},
      {R"({"enum":[1],"type":"string"})", "#/enum: value 0 is not of its type"},
      {R"({"const":1,"minimum":0})", "#/minimum: beside const"},
      {R"({"anyOf":[]})", "#/anyOf: it must be a list"},
      {R"({"anyOf":[{}],"type":"object"})", "#: anyOf must stand alone; move type"},
      {R"({"allOf":[{},{}]})", "#/allOf: only one schema"},
      {R"({"required":["a"]})", "#/required/0: it names none"},
      {R"({"required":5})", "#/required: it must be a list"},
      {R"({"properties":{"a":{}},"additionalProperties":{}})", "#/additionalProperties: beside"},
      {R"({"minLength":1,"minItems":1})", "#: its keywords belong to several types"},
      {R"({"$ref":"https://example.com/x"})", "#/$ref: only a reference into this schema"},
      {R"({"$ref":"#"})", "#/$ref: only a reference"},
      {R"({"$ref":7})", "#/$ref: only a reference"},
      {R"({"$ref":"#/$defs/x"})", "#/$defs/x: a $ref leads here"},
      {R"({"$ref":"#/$defs/x","$defs":{"x":{"$ref":"#/$defs/x"}}})", "begins with itself"},
      {R"({"$ref":"#/$defs/x","$defs":{"x":{"allOf":[{"$ref":"#/$defs/x"}]}}})",
       "begins with itself"},
      {repeated("[", 60'000), "nest deeper than 128"},
      {repeated(R"({"items":)", 60) + "{}" + repeated("}", 60), "nest too deeply"},
      {R"({"enum":[")" + repeated("x", 50'000) + R"("]})", ""},
      {R"({"properties":{")" + repeated("x", 101) + R"(":{}}})", "#/properties: a name has more"}};
  for (const auto& [schema, message] : cases) {
    const std::string why = refusal(schema);
    EXPECT_NE(why.find(message), std::string::npos) << schema.substr(0, 100) << "\n"
                                                    << why.substr(0, 500);
    EXPECT_EQ(why.empty(), message.empty()) << schema.substr(0, 100) << why;
  }
}

TEST(JsonSchema, HostileSizesEndSoon) {
  std::string wide = R"({"properties":{)";
  for (int i = 0; i < 100; ++i)
    wide += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + "\":{\"type\":\"integer\"}";
  EXPECT_EQ(refusal(wide + "}}"), "");
  std::string definitions = R"({"$ref":"#/$defs/0","$defs":{)";
  for (int i = 0; i < 60; ++i)
    definitions += "\"" + std::to_string(i) +
                   R"(":{"items":{"items":{"items":{"items":{"$ref":"#/$defs/)" +
                   std::to_string(i + 1) + "\"}}}}},";
  EXPECT_NE(refusal(definitions + R"("60":{}}})").find("definitions nest too deeply"),
            std::string::npos);
}

// Schemas of a grammar of their own, with keywords where they do not belong: always an answer.
TEST(JsonSchema, RandomSchemasNeverCrash) {
  std::mt19937_64 random(test::seed_of(9));
  const auto below = [&](std::size_t end) { return random() % end; };
  const std::vector<std::string> keys{
      "type",       "properties", "required", "items",   "enum",    "const",
      "anyOf",      "allOf",      "$ref",     "minimum", "maximum", "minItems",
      "maxLength",  "pattern",    "format",   "$defs",   "title",   "additionalProperties",
      "prefixItems"};
  const std::vector<std::string> leaves{"\"object\"",
                                        "\"array\"",
                                        "\"string\"",
                                        "\"integer\"",
                                        "3",
                                        "-1",
                                        "true",
                                        "false",
                                        "null",
                                        "1.5",
                                        "\"#/$defs/a\"",
                                        "\"^a+[b-c]?$\"",
                                        "\"date\"",
                                        "[\"a\"]",
                                        "[\"string\",\"null\"]",
                                        "{}",
                                        "[]"};
  const std::function<std::string(int)> value = [&](int depth) -> std::string {
    if (depth == 0 || below(3) == 0) return leaves[below(leaves.size())];
    std::string text;
    const bool list = below(4) == 0;
    for (std::size_t i = below(4); i > 0; --i) {
      if (!text.empty()) text += ",";
      if (!list) text += "\"" + (below(5) == 0 ? "a" : keys[below(keys.size())]) + "\":";
      text += value(depth - 1);
    }
    return list ? "[" + text + "]" : "{" + text + "}";
  };
  std::size_t taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto grammar = json_schema_grammar(value(4));
    if (!grammar) {
      EXPECT_EQ(grammar.error().code, ErrorCode::kInvalidArgument);
    } else {
      ++taken;
    }
  }
  EXPECT_GT(taken, 100U);
}

}  // namespace
}  // namespace incipit::model
