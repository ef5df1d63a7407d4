// SPDX-License-Identifier: Apache-2.0
//
// Both formats, with Python's csv module as the oracle of CSV.
// Tests src/api/byte_reader.cc
// Tests src/api/csv_reader.cc
// Tests src/api/jsonl_reader.cc
#include "api/row_reader.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "api/json_cursor.h"
#include "api/json_writer.h"
#include "support/temp_dir.h"

namespace incipit::api {
namespace {

using namespace std::string_literals;

Result<std::vector<Row>> read_all(const std::string& bytes, RowFormat format, RowFields fields) {
  const test::TempDir dir;
  const std::string path = dir.file("rows", bytes);
  INCIPIT_TRY(File file, File::open_read(path));
  INCIPIT_TRY(auto reader, RowReader::open(std::move(file), format, fields));
  std::vector<Row> rows;
  while (true) {
    Row row;
    INCIPIT_TRY(const bool more, reader->next(row));
    if (!more) return rows;
    rows.push_back(std::move(row));
  }
}

std::vector<Row> jsonl(const std::string& bytes, RowFields fields = {}) {
  return read_all(bytes, {.kind = RowFormat::Kind::kJsonl}, std::move(fields)).value();
}

std::vector<Row> csv(const std::string& bytes, RowFields fields = {}, RowFormat format = {}) {
  format.kind = RowFormat::Kind::kCsv;
  return read_all(bytes, format, std::move(fields)).value();
}

// Public report (C28): large ids lost digits on their way through a double.
TEST(JsonlReader, EchoesIdsByteForByte) {
  const auto rows = jsonl(
      "{\"id\":50000000014435121,\"text\":\"x\"}\n{\"id\":1.10,\"text\":\"y\"}\r\n"
      "{\"id\":\"a\\u00e9\",\"text\":\"z\"}\n{\"custom_id\":\"c\",\"text\":\"\"}\n"
      "\n{\"text\":\"w\",\"label\":\"billing\"}");
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_EQ(rows[0].id, "50000000014435121");
  EXPECT_EQ(rows[1].id, "1.10");
  EXPECT_EQ(rows[2].id, "\"a\\u00e9\"");
  EXPECT_EQ(rows[3].id, "\"c\"");
  EXPECT_EQ(rows[4].id, "6");  // The line number; the empty line counts.
  EXPECT_EQ(rows[4].gold, "billing");
  EXPECT_EQ(rows[0].text, "x");
}

TEST(JsonlReader, KeepsABadRowToItself) {
  const auto rows = jsonl(
      "{\"text\":\"a\"}\n{\"text\":\n{\"text\":7}\n{}\n[1]\n"
      "{\"text\":\"a\",\"text\":\"b\"}\n{\"id\":[],\"text\":\"a\"}\n"
      "{\"text\":\"nul\0\"}\n{\"text\":\"z\"}\n" +
      std::string());
  ASSERT_GE(rows.size(), 7U);
  EXPECT_EQ(rows[0].error, "");
  EXPECT_EQ(rows[1].error, "invalid_json");
  EXPECT_EQ(rows[1].message, "line 2, column 9: the JSON text ends where a value is expected");
  EXPECT_EQ(rows[1].id, "2");
  EXPECT_EQ(rows[2].error, "missing_text");
  EXPECT_EQ(rows[3].error, "missing_text");
  EXPECT_EQ(rows[3].message, "line 4: the row has no field 'text'");
  EXPECT_EQ(rows[4].error, "invalid_json");
  EXPECT_EQ(rows[5].error, "invalid_json");
  EXPECT_EQ(rows[6].error, "invalid_id");
}

TEST(JsonlReader, TakesNulByEscapeAndRefusesItRaw) {
  const auto rows = jsonl("{\"text\":\"a\\u0000b\"}\n{\"text\":\"a\0b\"}\n"s);
  EXPECT_EQ(rows[0].text, std::string("a\0b", 3));
  EXPECT_EQ(rows[1].error, "invalid_json");
}

// Public report (C25): bytes that are not UTF-8 reached the JSON writer and ended the process.
TEST(JsonlReader, LetsBytesThatAreNotUtf8Through) {
  const auto rows = jsonl("{\"id\":\"\xE9\",\"text\":\"caf\xE9 bill\"}\n");
  EXPECT_EQ(rows[0].text, "caf\xE9 bill");
  EXPECT_EQ(rows[0].id, "\"\xEF\xBF\xBD\"");
}

TEST(JsonlReader, PassesOverALongLineWithoutHoldingIt) {
  const auto rows = jsonl("{\"text\":\"" + std::string(300'000, 'x') + "\"}\n{\"text\":\"b\"}\n",
                          {.row_bytes_max = 1000});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].error, "row_too_long");
  EXPECT_EQ(rows[0].message, "line 1: this line is longer than 1000 bytes");
  EXPECT_EQ(rows[1].text, "b");
}

TEST(JsonlReader, JoinsTextFieldsAndKeepsTheOthers) {
  const auto rows =
      jsonl(R"({"b":"2","n":{"k": [1.50]},"a":"1","q":1,"q":2,"i":9,"g":true})",
            {.text = {"a", "b"}, .join = " - ", .id = "i", .label = "g", .keep = true});
  EXPECT_EQ(rows[0].text, "1 - 2");
  EXPECT_EQ(rows[0].id, "9");
  EXPECT_EQ(rows[0].gold, "true");
  ASSERT_EQ(rows[0].kept.size(), 2U);
  EXPECT_EQ(rows[0].kept[0].json, R"({"k": [1.50]})");
  EXPECT_EQ(rows[0].kept[1].json, "2");
}

// Public report (C26): a byte order mark became part of the first column name.
TEST(RowReader, StripsAByteOrderMarkAtOffsetZeroOnly) {
  EXPECT_EQ(csv("\xEF\xBB\xBFid,text\n7,x\n")[0].id, "\"7\"");
  EXPECT_EQ(jsonl("\xEF\xBB\xBF{\"text\":\"\xEF\xBB\xBFx\"}\n")[0].text, "\xEF\xBB\xBFx");
  EXPECT_EQ(csv("text\n\xEF\xBB\xBFx\n")[0].text, "\xEF\xBB\xBFx");
  const auto utf16 = read_all(std::string("\xFF\xFEi\0d\0", 6), {}, {});
  ASSERT_FALSE(utf16);
  EXPECT_NE(utf16.error().message.find("UTF-16"), std::string::npos);
}

TEST(CsvReader, ReadsQuotedCells) {
  const auto rows = csv("id,text,label\r\n1,\"a \"\"quoted\"\", one\r\ntwo\",x\r\n2,plain,\n");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].text, "a \"quoted\", one\r\ntwo");
  EXPECT_EQ(rows[0].gold, "x");
  EXPECT_EQ(rows[1].line, 4U);
  EXPECT_FALSE(rows[1].gold);
}

TEST(CsvReader, NamesTheLineOfAWrongColumnCount) {
  const auto rows = csv("id,text\n1,\"a\nb\"\n2\n3,c,d\n4,e");
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[1].error, "wrong_column_count");
  EXPECT_EQ(rows[1].message, "line 4: this record has 1 cell where the file has 2 columns");
  EXPECT_EQ(rows[2].error, "wrong_column_count");
  EXPECT_EQ(rows[3].text, "e");
}

TEST(CsvReader, GoesOnAfterBadQuotes) {
  const auto rows = csv("id,text\n1,\"a\"b\n2,ok\n3,\"never\n4,x\n");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].error, "invalid_csv");
  EXPECT_EQ(rows[1].text, "ok");
  EXPECT_EQ(rows[2].message, "line 4: this quote is never closed");
}

TEST(CsvReader, LimitsARecordThatNeverEnds) {
  const auto rows = csv("text\n\"" + std::string(200'000, 'x') + "\n" + std::string(200'000, ','),
                        {.row_bytes_max = 1000});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_FALSE(rows[0].error.empty());
}

TEST(CsvReader, KeepsNulAndBytesThatAreNotUtf8) {
  EXPECT_EQ(csv(std::string("text\na\0\xE9\n", 9))[0].text, std::string("a\0\xE9", 3));
}

TEST(CsvReader, ReadsColumnsByNumberWithoutAHeader) {
  const auto rows =
      csv("x;first\ny;second\n", {.text = {"2"}, .id = "1"}, {.delimiter = ';', .header = false});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].id, "\"x\"");
  EXPECT_EQ(rows[1].text, "second");
}

TEST(CsvReader, NamesTheColumnsThatExist) {
  const auto missing = read_all("utt,intent\na,b\n", {.kind = RowFormat::Kind::kCsv}, {});
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error().message.ends_with(
      ":1: there is no column 'text'; name one of these with --text-field: utt, intent"));
  const auto twice = read_all("text,text\na,b\n", {.kind = RowFormat::Kind::kCsv}, {});
  ASSERT_FALSE(twice);
  EXPECT_TRUE(twice.error().message.ends_with("two columns are named 'text'"));
  EXPECT_FALSE(read_all("", {.kind = RowFormat::Kind::kCsv}, {}));
}

TEST(RowFormat, GoesByTheName) {
  EXPECT_EQ(format_of_path("a.tsv")->delimiter, '\t');
  EXPECT_EQ(format_of_path("-")->kind, RowFormat::Kind::kJsonl);
  EXPECT_FALSE(format_of_path("a.txt"));
  EXPECT_FALSE(format_of_name("xml"));
}

// What Python's csv module reads of each file: [[cells of row 1], ...], or null where it refuses.
std::string python_csv(const std::vector<std::string>& files) {
  const test::TempDir dir;
  JsonWriter json;
  json.begin_array();
  for (const std::string& bytes : files) json.string(bytes);
  json.end_array();
  const std::string script =
      "import csv, io, json, sys\n"
      "def rows(text):\n"
      "  try: return [r for r in csv.reader(io.StringIO(text, newline=''), strict=True) if r]\n"
      "  except csv.Error: return None\n"
      "print(json.dumps([rows(text) for text in json.load(open(sys.argv[1]))]))\n";
  const std::string command = "python3 " + dir.file("read.py", script) + " " +
                              dir.file("files.json", json.text()) + " > " + dir.path("rows.json");
  EXPECT_EQ(std::system(command.c_str()), 0) << "this test needs python3";
  return dir.read("rows.json");
}

// The same shape from our reader. Rows with a wrong count keep the cells that fit, so they are
// left out on both sides.
using Rows = std::vector<std::vector<std::string>>;

std::optional<Rows> our_rows(const std::string& bytes) {
  Rows rows;
  for (const Row& row : csv(bytes, {.text = {"h1"}})) {
    if (row.error == "invalid_csv") return std::nullopt;
    if (row.error.empty()) rows.push_back(row.cells);
  }
  return rows;
}

std::optional<Rows> their_rows(JsonCursor& json) {
  if (json.peek().value() == JsonKind::kNull) {
    EXPECT_TRUE(json.skip());
    return std::nullopt;
  }
  Rows rows;
  EXPECT_TRUE(json.enter_array());
  while (json.next_item().value()) {
    EXPECT_TRUE(json.enter_array());
    std::vector<std::string> cells;
    while (json.next_item().value()) cells.push_back(json.string().value());
    if (cells.size() == 2) rows.push_back(cells);
  }
  if (!rows.empty()) rows.erase(rows.begin());  // The header.
  return rows;
}

TEST(CsvReader, ReadsWhatPythonReads) {
  const std::vector<std::string> pieces = {"a",    "\"", "\"\"", ",",     ",",   "\n", "\n",
                                           "\r\n", " ",  "bc,",  "\"x\"", ",\"", "\","};
  std::mt19937 random(20260131);
  std::vector<std::string> files;
  for (int i = 0; i < 600; ++i) {
    std::string bytes = "h1,h2\n";
    for (std::size_t n = random() % 14; n > 0; --n) bytes += pieces[random() % pieces.size()];
    files.push_back(bytes);
  }
  const std::string answer = python_csv(files);
  JsonCursor json(answer);
  ASSERT_TRUE(json.enter_array());
  std::size_t refused = 0;
  for (const std::string& bytes : files) {
    ASSERT_TRUE(json.next_item().value());
    const auto theirs = their_rows(json);
    refused += theirs ? 0 : 1;
    EXPECT_EQ(our_rows(bytes), theirs) << "file: " << json_string(bytes);
  }
  EXPECT_GT(refused, 50U);
  EXPECT_LT(refused, 500U);
}

}  // namespace
}  // namespace incipit::api
