// SPDX-License-Identifier: Apache-2.0
#include "api/verifier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "support/fake_classifier.h"
#include "support/ticket_task.h"

namespace incipit::api {
namespace {

using test::FakeClassifier;
using test::ticket_task;

Result<void> go_on() { return {}; }

Scored score(FakeClassifier& classifier, std::string_view text) {
  return classifier.score(std::span(&text, 1), Route::kBatched).value().front();
}

// The ids that are compared, seen through mismatches on all of them.
std::set<std::string> chosen(std::size_t wanted, bool backwards) {
  FakeClassifier classifier(ticket_task(), {.full_drift = 0.5});
  Verifier verifier(classifier, wanted, 0.05, go_on);
  for (int i = 0; i < 50; ++i) {
    const std::string id = std::to_string(backwards ? 49 - i : i);
    EXPECT_TRUE(verifier.add(id, "text " + id, score(classifier, "text " + id)));
  }
  std::set<std::string> ids;
  const VerifyReport report = verifier.finish().value();
  for (const VerifyMismatch& mismatch : report.examples) ids.insert(mismatch.id);
  return ids;
}

TEST(Verifier, ChoosesTheSameTextsInAnyOrder) {
  EXPECT_EQ(chosen(7, false).size(), 7U);
  EXPECT_EQ(chosen(7, false), chosen(7, true));
}

TEST(Verifier, DoesNothingUnlessAsked) {
  FakeClassifier classifier(ticket_task(), {.full_drift = 0.5});
  Verifier verifier(classifier, 0, 0.05, go_on);
  EXPECT_TRUE(verifier.add("1", "a", score(classifier, "a")));
  EXPECT_EQ(verifier.finish().value().rows, 0U);
}

TEST(Verifier, WantsTheSameBitsWhereTheClassifierIsExact) {
  for (const bool exact : {true, false}) {
    FakeClassifier classifier(ticket_task(), {.exact = exact});
    Verifier verifier(classifier, FileJob::kVerifyAll, 0.05, go_on);
    Scored scored = score(classifier, "billing");
    scored.scores[1] = std::nextafter(scored.scores[1], 0);
    EXPECT_TRUE(verifier.add("1", "billing", scored));
    EXPECT_EQ(verifier.finish().value().mismatches, exact ? 1U : 0U);
  }
}

TEST(Verifier, WantsTheSameLabelInsideTheTolerance) {
  FakeClassifier classifier(ticket_task(), {.exact = false});
  Verifier verifier(classifier, FileJob::kVerifyAll, 100, go_on);
  Scored scored = score(classifier, "billing");
  std::swap(scored.scores[0], scored.scores[1]);
  EXPECT_TRUE(verifier.add("1", "billing", scored));
  const VerifyReport report = verifier.finish().value();
  EXPECT_EQ(report.label_mismatches, 1U);
  EXPECT_TRUE(report.examples.at(0).label_differs);
}

}  // namespace
}  // namespace incipit::api
