// SPDX-License-Identifier: Apache-2.0
#include "api/row_writer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <simdjson.h>

#include "api/json_writer.h"
#include "base/utf8.h"
#include "support/temp_dir.h"
#include "support/ticket_task.h"

namespace incipit::api {
namespace {

using test::ticket_task;

Row row_of(const std::string& id, std::vector<std::string> cells = {}) {
  Row row;
  row.id = id;
  row.cells = std::move(cells);
  return row;
}

Label ok_label() {
  Label label;
  label.status = Status::kOk;
  label.label = label.best = 1;
  label.probabilities = {0.0202, 0.973124567, 1.5e-9};
  label.confidence = 0.973124567;
  label.margin = 0.95;
  label.gap = 3.875;
  label.mass = 0.99;
  label.facts.tokens = 22;
  return label;
}

std::string written(const Task& task, const RowStyle& style, const Row& row, const Label& label,
                    const std::string& dup_of = {}) {
  std::string out;
  RowWriter::make(task, style)->write(row, label, dup_of, out);
  return out;
}

TEST(RowWriter, WritesTheKeysThatApply) {
  const Task task = ticket_task();
  EXPECT_EQ(written(task, {}, row_of("1.10"), ok_label()),
            "{\"id\":1.10,\"label\":\"technical\",\"confidence\":0.973125,\"margin\":0.95,"
            "\"gap\":3.875,\"mass\":0.99,\"status\":\"ok\",\"tokens\":22}\n");
  EXPECT_EQ(written(task, {.format = {}, .probabilities = true}, row_of("\"a\""), ok_label(), "7"),
            "{\"id\":\"a\",\"label\":\"technical\",\"confidence\":0.973125,\"margin\":0.95,"
            "\"gap\":3.875,\"mass\":0.99,\"probabilities\":{\"billing\":0.0202,\"technical\":"
            "0.973125,\"account\":1.5e-09},\"status\":\"ok\",\"dup_of\":7,\"tokens\":22}\n");
}

TEST(RowWriter, SaysThatANearTieWasScoredAgain) {
  Label label = ok_label();
  label.facts.rescored = true;
  EXPECT_TRUE(written(ticket_task(), {}, row_of("1"), label).ends_with(",\"rescored\":true}\n"));
}

TEST(RowWriter, KeepsTheBestLabelOfAReview) {
  Label label = ok_label();
  label.status = Status::kReview;
  label.label.reset();
  label.reason = "low_margin";
  label.tie = true;
  label.facts = {.tokens = 3, .truncated_tokens = 1, .neutralised = 2, .utf8_replaced = 4};
  EXPECT_EQ(written(ticket_task(), {}, row_of("1"), label),
            "{\"id\":1,\"label\":null,\"confidence\":0.973125,\"margin\":0.95,\"gap\":3.875,"
            "\"mass\":0.99,\"status\":\"review\",\"reason\":\"low_margin\",\"best\":\"technical\","
            "\"tie\":true,\"tokens\":3,\"truncated_tokens\":1,\"neutralised\":2,"
            "\"utf8_replaced\":4}\n");
}

TEST(RowWriter, WritesSeveralLabelsAndPaths) {
  Task task = ticket_task();
  Label label = ok_label();
  label.node = "billing/refund";
  const std::string path = written(task, {}, row_of("1"), label);
  EXPECT_NE(path.find("\"label\":\"billing/refund\",\"level\":2"), std::string::npos);
  task.options.multi_label = true;
  label.node.clear();
  label.label.reset();
  label.chosen = {0, 2};
  EXPECT_NE(written(task, {}, row_of("1"), label).find("\"labels\":[\"billing\",\"account\"]"),
            std::string::npos);
  EXPECT_EQ(written(task, {.format = {.kind = RowFormat::Kind::kCsv}}, row_of("1"), label),
            "1,billing|account,0.973125,ok,\n");
}

TEST(RowWriter, PassesFieldsThroughAndRenamesThoseThatClash) {
  Row row = row_of("1");
  row.kept = {{.name = "queue", .json = "[1.50]"}, {.name = "status", .json = "\"open\""}};
  const std::string line = written(ticket_task(), {}, row, ok_label());
  EXPECT_TRUE(line.ends_with(",\"queue\":[1.50],\"input_status\":\"open\"}\n")) << line;
}

TEST(RowWriter, AppendsToTheColumnsOfACsvFile) {
  const RowStyle style{.format = {.kind = RowFormat::Kind::kCsv, .delimiter = ';'},
                       .probabilities = true,
                       .input_is_csv = true,
                       .columns = {"id", "label"}};
  const Task task = ticket_task();
  std::string out;
  RowWriter::make(task, style)->write_header(out);
  EXPECT_EQ(out,
            "id;label;predicted_label;confidence;status;reason;p_billing;p_technical;p_account\n");
  EXPECT_EQ(written(task, style, row_of("1", {"a;b", "say \"x\"\nnow"}), ok_label()),
            "\"a;b\";\"say \"\"x\"\"\nnow\";technical;0.973125;ok;;0.0202;0.973125;1.5e-09\n");
  Row bad = row_of("1", {"a", ""});
  bad.error = "wrong_column_count";
  EXPECT_EQ(written(task, style, bad, unreadable_label(bad)), "a;;;;error;wrong_column_count;;;\n");
}

TEST(RowWriter, ChangesFormulasOnlyIfAsked) {
  RowStyle style{.format = {.kind = RowFormat::Kind::kCsv}, .input_is_csv = true};
  const Row row = row_of("1", {"=1+1", "-5", "@x", "a=b"});
  EXPECT_TRUE(written(ticket_task(), style, row, ok_label()).starts_with("=1+1,-5,@x,a=b,"));
  style.csv_safe = true;
  EXPECT_TRUE(written(ticket_task(), style, row, ok_label()).starts_with("'=1+1,'-5,'@x,a=b,"));
}

TEST(RowWriter, GivesBytesThatAreNotUtf8BackAsTheyCame) {
  const RowStyle style{
      .format = {.kind = RowFormat::Kind::kCsv}, .input_is_csv = true, .columns = {"caf\xE9"}};
  std::string out;
  RowWriter::make(ticket_task(), style)->write_header(out);
  EXPECT_TRUE(out.starts_with("caf\xE9,label,"));
  EXPECT_TRUE(written(ticket_task(), style, row_of("1", {"caf\xE9 \xF0\x9F"}), ok_label())
                  .starts_with("caf\xE9 \xF0\x9F,technical,"));
}

// Whatever bytes a row and a label carry, a JSONL row is one line of valid JSON and UTF-8.
RC_GTEST_PROP(RowWriter, WritesValidJson, (const std::string& name, const std::string& text)) {
  Task task = ticket_task();
  const std::string label = "label " + name;
  task.labels[1].name = label;
  Row row = row_of(json_string(text));
  row.message = text;
  row.kept = {{.name = text, .json = json_string(name)}};
  const std::string line = written(task, {.format = {}, .probabilities = true}, row, ok_label());
  RC_ASSERT(line.find('\n') == line.size() - 1);
  RC_ASSERT(is_valid_utf8(line));
  simdjson::dom::parser parser;
  simdjson::dom::element element;
  RC_ASSERT(parser.parse(line).get(element) == simdjson::SUCCESS);
  RC_ASSERT(std::string(element["label"].get_string().value()) == repair_utf8(label, nullptr));
}

// A CSV file that is read and written has the same cells, whatever they hold.
RC_GTEST_PROP(RowWriter, GivesCsvCellsBack, (std::vector<std::string> cells, bool semicolon)) {
  RC_PRE(!cells.empty());
  const RowFormat format{
      .kind = RowFormat::Kind::kCsv, .delimiter = semicolon ? ';' : ',', .header = false};
  const test::TempDir dir;
  const std::string line = written(ticket_task(), {.format = format, .input_is_csv = true},
                                   row_of("1", cells), ok_label());
  auto reader =
      RowReader::open(File::open_read(dir.file("rows", line)).value(), format, {.text = {"1"}});
  Row row;
  RC_ASSERT(reader.value()->next(row).value());
  RC_ASSERT(row.error.empty());
  RC_ASSERT(row.cells.size() == cells.size() + 4);
  row.cells.resize(cells.size());
  RC_ASSERT(row.cells == cells);
  RC_ASSERT(!reader.value()->next(row).value());
}

}  // namespace
}  // namespace incipit::api
