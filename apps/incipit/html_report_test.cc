// SPDX-License-Identifier: Apache-2.0
#include "incipit/html_report.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <regex>
#include <string>
#include <vector>

#include "incipit/html_text.h"

namespace incipit::app {
namespace {

BenchReport small_report() {
  return {
      .title = "Sorting 30 tickets",
      .date = "2026-01-02 03:04 UTC",
      .command = "incipit bench classify --task task.json tickets.jsonl",
      .tickets = 30,
      .prefix_tokens = 145,
      .prompt_tokens = 167,
      .modes = {{"bf16", BenchMode::kFull, 6.72, 224.1, 1},
                {"bf16", BenchMode::kFullBatched, 5.10, 170.0, 1.32},
                {"bf16", BenchMode::kCached, 2.31, 76.9, 2.91},
                {"bf16", BenchMode::kBatched, 0.486, 16.2, 13.83},
                {"bf16", BenchMode::kDeduplicated, 0.471, 15.7, 14.27},
                {"f32", BenchMode::kFull, 9.81, 327.0, 1},
                {"f32", BenchMode::kFullBatched, 8.55, 285.0, 1.15},
                {"f32", BenchMode::kCached, 2.10, 70.1, 4.66},
                {"f32", BenchMode::kBatched, 0.894, 29.8, 10.97},
                {"f32", BenchMode::kDeduplicated, 0.881, 29.4, 11.12}},
      .shares = {{"bf16", 50, 0.746, 92, 16, 5.75},
                 {"bf16", 100, 0.855, 158, 16.1, 9.81},
                 {"bf16", 200, 0.922, 263, 16.4, 16},
                 {"bf16", 500, 0.967, 640, 17.2, 37.2},
                 {"bf16", 1000, 0.983, 1390, 18.9, 73.5},
                 {"bf16", 2000, 0.992, 3383, 22.5, 150.4},
                 {"f32", 50, 0.746, 130, 29, 4.48},
                 {"f32", 100, 0.855, 226, 29.2, 7.74},
                 {"f32", 200, 0.922, 402, 29.9, 13.4},
                 {"f32", 500, 0.967, 985, 31, 31.8},
                 {"f32", 1000, 0.983, 2120, 34.2, 62},
                 {"f32", 2000, 0.992, 4950, 41, 120.7}},
      .batches = {{"bf16", 1, 76.9},
                  {"bf16", 2, 49},
                  {"bf16", 4, 31},
                  {"bf16", 8, 22.4},
                  {"bf16", 16, 18.1},
                  {"bf16", 32, 16.1},
                  {"bf16", 64, 15.8},
                  {"f32", 1, 70.1},
                  {"f32", 2, 52},
                  {"f32", 4, 41},
                  {"f32", 8, 34.9},
                  {"f32", 16, 31.6},
                  {"f32", 32, 29.7},
                  {"f32", 64, 29.2}},
      .proofs = {{"cached = full, bf16", 30, 30, "bit-equal"},
                 {"batched = full, bf16", 30, 30, "bit-equal"},
                 {"cached = full, f32", 30, 30, "bit-equal"},
                 {"batched = full, f32", 30, 30, "bit-equal"}},
      .machine = {{"CPU", "Example CPU @ 2.0 GHz"},
                  {"Instructions", "AVX-512 VNNI, bf16"},
                  {"Threads", "2"},
                  {"Model", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf, 491 MB"},
                  {"Versions", "incipit 0.1.0, OpenVINO 2026.4.1"}},
  };
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

// Every opened element is closed in order: what a browser would silently repair is an error here.
std::string first_unbalanced_tag(const std::string& html) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z][a-z0-9]*)((?:[^<>\"]|\"[^\"]*\")*)>");
  for (std::sregex_iterator it(html.begin(), html.end(), tag), end; it != end; ++it) {
    const std::string name = (*it)[2];
    const std::string attributes = (*it)[3];
    if (name == "meta" || attributes.ends_with("/")) continue;
    if ((*it)[1].length() == 0) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return it->str();
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back();
}

TEST(HtmlReport, IsOneFileWithoutScriptOrOutsideResources) {
  const std::string html = html_report(small_report());
  for (const char* forbidden : {"<script", "http:", "https:", "src=", "<link", "@import", "url("}) {
    EXPECT_EQ(html.find(forbidden), std::string::npos) << forbidden;
  }
  EXPECT_EQ(count_of(html, "<svg class=\"plot\""), 2U);
  EXPECT_EQ(first_unbalanced_tag(html), "");
}

TEST(HtmlReport, ShowsTheFiguresOfTheFastestModeThatScoresEveryTicket) {
  const std::string html = html_report(small_report());
  EXPECT_NE(html.find("16.2 <small>ms per ticket"), std::string::npos);
  EXPECT_NE(html.find("13.83x"), std::string::npos);
  EXPECT_NE(html.find("87 % <small>static"), std::string::npos);
  EXPECT_NE(html.find("145 of 167 prompt tokens"), std::string::npos);
}

TEST(HtmlReport, HasEveryNumberOfThePlotsInTables) {
  const BenchReport report = small_report();
  const std::string html = html_report(report);
  for (const SharePoint& point : report.shares) {
    const std::string cells = "<td>" + fixed_number(point.full_ms, 1) + "</td><td>" +
                              fixed_number(point.batched_ms, 1) + "</td><td>" +
                              fixed_number(point.speed_up, 2) + "x</td>";
    EXPECT_NE(html.find(cells), std::string::npos) << cells;
  }
  for (const BatchPoint& point : report.batches) {
    const std::string cells = "<td>" + grouped_number(point.batch) + "</td><td>" +
                              fixed_number(point.ms_per_ticket, 2) + "</td>";
    EXPECT_NE(html.find(cells), std::string::npos) << cells;
  }
}

TEST(HtmlReport, ShowsEveryModeOfEachPrecisionAndExplainsItOnce) {
  const std::string html = html_report(small_report());
  for (const BenchMode mode : {BenchMode::kFull, BenchMode::kFullBatched, BenchMode::kCached,
                               BenchMode::kBatched, BenchMode::kDeduplicated}) {
    const std::string name(mode_name(mode));
    EXPECT_EQ(count_of(html, "<th scope=\"row\">" + name + "</th>"), 2U) << name;
    EXPECT_EQ(count_of(html, "<dt>" + name + "</dt>"), 1U) << name;
  }
  EXPECT_NE(html.find("<td>0.49 s</td><td>16.2</td>"), std::string::npos);
}

TEST(HtmlReport, SaysWhichProofFailed) {
  BenchReport report = small_report();
  EXPECT_NE(html_report(report).find("cached = full, bf16: 30 of 30, bit-equal"),
            std::string::npos);
  EXPECT_EQ(html_report(report).find("class=\"fails\""), std::string::npos);
  report.proofs[1].equal = 28;
  const std::string html = html_report(report);
  EXPECT_NE(html.find("differs</span><span>batched = full, bf16: 28 of 30</span>"),
            std::string::npos);
  EXPECT_EQ(html.find("changes no answer"), std::string::npos);
}

TEST(HtmlReport, ACheckOfNothingIsNoProof) {
  BenchReport report = small_report();
  report.proofs = {{"cached = full", 0, 0, "bit-equal"}};
  EXPECT_EQ(html_report(report).find("changes no answer"), std::string::npos);
}

TEST(HtmlReport, EscapesEveryText) {
  const std::string hostile = "</style></svg><script>alert(\"1\")</script>&'\x01";
  BenchReport report = small_report();
  report.title = report.date = report.command = hostile;
  for (ModeTime& time : report.modes) time.precision = hostile;
  for (SharePoint& point : report.shares) point.series = hostile;
  for (BatchPoint& point : report.batches) point.series = hostile;
  for (Proof& proof : report.proofs) proof.claim = proof.kind = hostile;
  for (Fact& fact : report.machine) fact.name = fact.value = hostile;
  const std::string html = html_report(report);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("alert(\"1\")"), std::string::npos);
  EXPECT_EQ(html.find('\x01'), std::string::npos);
  EXPECT_EQ(count_of(html, "</style>"), 1U);
  EXPECT_EQ(first_unbalanced_tag(html), "");
}

TEST(HtmlReport, SaysWhatWasNotMeasured) {
  const std::string html = html_report({});
  EXPECT_EQ(count_of(html, "Not measured in this run."), 3U);
  EXPECT_NE(html.find("Nothing was checked in this run."), std::string::npos);
  EXPECT_EQ(first_unbalanced_tag(html), "");
}

TEST(HtmlReport, KeepsNumbersThatAreNotFiniteOutOfThePlots) {
  BenchReport report = small_report();
  report.shares[0].speed_up = std::numeric_limits<double>::quiet_NaN();
  report.batches[0].ms_per_ticket = std::numeric_limits<double>::infinity();
  report.modes[0].ms_per_ticket = std::numeric_limits<double>::infinity();
  const std::string html = html_report(report);
  EXPECT_EQ(html.find("nan"), std::string::npos);
  EXPECT_EQ(html.find("inf"), std::string::npos);
  EXPECT_NE(html.find("<td>n/a</td>"), std::string::npos);
  EXPECT_EQ(count_of(html, "class=\"mark\""), report.shares.size() + report.batches.size() - 2);
}

// Writes the page where a person or a browser can look at it: INCIPIT_REPORT_SAMPLE=FILE.
TEST(HtmlReport, CanBeLookedAt) {
  const std::string html = html_report(small_report());
  if (const char* path = std::getenv("INCIPIT_REPORT_SAMPLE")) {
    std::ofstream(path) << html;
    EXPECT_TRUE(std::ifstream(path).good()) << path;
  }
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
}

}  // namespace
}  // namespace incipit::app
