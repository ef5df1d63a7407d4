// SPDX-License-Identifier: Apache-2.0
//
// Answers in a given form, on a real model: a JSON schema gives JSON that matches it, whatever the
// model would rather say, and the same text alone and among others.
// Tests src/engine/generator_impl.cc
#include <gtest/gtest.h>
#include <json.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "incipit/engine.h"
#include "support/installed_models.h"
#include "support/must.h"

namespace incipit {
namespace {

using test::must;

constexpr const char* kSchema = R"({
  "type": "object",
  "required": ["status", "days"],
  "properties": {
    "status": {"enum": ["lost", "late", "delivered"]},
    "days": {"type": "array", "items": {"type": "integer", "minimum": 3, "maximum": 40},
             "minItems": 2, "maxItems": 4},
    "note": {"type": "string", "maxLength": 12}
  }
})";

void expect_match(const std::string& text) {
  const common_json answer = common_json::parse_no_throw(text);
  ASSERT_TRUE(!answer.is_discarded() && answer.is_object()) << text;
  ASSERT_TRUE(answer.contains("status") && answer.contains("days")) << text;
  const std::set<std::string> known{"lost", "late", "delivered"};
  EXPECT_TRUE(known.contains(answer.at("status").get<std::string>())) << text;
  const common_json& days = answer.at("days");
  ASSERT_TRUE(days.is_array() && days.size() >= 2 && days.size() <= 4) << text;
  for (std::size_t i = 0; i < days.size(); ++i) {
    ASSERT_TRUE(days.at(i).is_number_integer()) << text;
    EXPECT_GE(days.at(i).get<int>(), 3) << text;
    EXPECT_LE(days.at(i).get<int>(), 40) << text;
  }
  if (answer.contains("note")) {
    EXPECT_TRUE(answer.at("note").is_string()) << text;
  }
  EXPECT_LE(answer.size(), 3U) << text;
}

class ConstrainedGeneration : public testing::Test {
 protected:
  void SetUp() override {
    engine_ = must(Engine::open({.model = test::smollm_path(), .ctx_size = 4096}));
    generator_ = must(engine_->generator({}));
  }

  static GenerateRequest request(std::size_t index) {
    const std::vector<std::string> questions{"Where is my parcel?", "Tell me a joke.",
                                             "Write a Python program.",
                                             "It came yesterday, thanks!"};
    GenerateRequest request;
    request.turns = {{"user", questions[index % questions.size()]}};
    request.tokens_max = 200;
    request.sampling.json_schema = kSchema;
    if (index >= questions.size()) {
      request.sampling.temperature = 0.9;
      request.sampling.top_p = 0.95;
      request.sampling.seed = static_cast<std::uint32_t>(index);
    }
    return request;
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Generator> generator_;
};

TEST_F(ConstrainedGeneration, ASchemaGivesJsonThatMatchesAloneAndInACrowd) {
  std::vector<Generated> alone;
  for (std::size_t i = 0; i < 8; ++i) {
    alone.push_back(must(generator_->generate(request(i))));
    EXPECT_EQ(alone.back().finish, FinishReason::kStop);
    expect_match(alone.back().text);
  }
  std::vector<Result<Generated>> crowd(alone.size());
  {
    std::vector<std::jthread> callers;
    for (std::size_t i = 0; i < crowd.size(); ++i)
      callers.emplace_back([&, i] { crowd[i] = generator_->generate(request(i)); });
  }
  for (std::size_t i = 0; i < crowd.size(); ++i) {
    EXPECT_EQ(must(crowd[i]).tokens, alone[i].tokens);
    EXPECT_EQ(crowd[i]->text, alone[i].text);
  }
}

TEST_F(ConstrainedGeneration, AWholeAnswerIsOver) {
  auto yes = request(0);
  yes.sampling = {.grammar = R"(root ::= "yes" | "no")"};
  const Generated answer = must(generator_->generate(yes));
  EXPECT_TRUE(answer.text == "yes" || answer.text == "no") << answer.text;
  EXPECT_EQ(answer.finish, FinishReason::kStop);
}

}  // namespace
}  // namespace incipit
