// SPDX-License-Identifier: Apache-2.0
#include "api/row_writer.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "api/json_cursor.h"
#include "api/json_writer.h"

namespace incipit::api {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::array kOwnKeys = {"id"sv,          "label"sv,         "labels"sv,
                                 "level"sv,       "confidence"sv,    "margin"sv,
                                 "gap"sv,         "mass"sv,          "status"sv,
                                 "best"sv,        "reason"sv,        "tie"sv,
                                 "dup_of"sv,      "probabilities"sv, "tokens"sv,
                                 "error"sv,       "message"sv,       "truncated_tokens"sv,
                                 "neutralised"sv, "utf8_replaced"sv, "rescored"sv};

std::string_view status_name(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kReview:
      return "review";
    case Status::kError:
      break;
  }
  return "error";
}

// What a row is called by: the node of a label path, else the label.
std::string label_name(const Task& task, const Label& label) {
  if (!label.node.empty()) return label.node;
  return label.label ? task.labels[*label.label].name : std::string();
}

class JsonlWriter final : public RowWriter {
 public:
  JsonlWriter(const Task& task, bool probabilities) : task_(task), probabilities_(probabilities) {}

  void write_header(std::string&) const override {}

  void write(const Row& row, const Label& label, const std::string& dup_of,
             std::string& out) const override {
    JsonWriter json;
    json.begin_object().key("id").raw(row.id);
    write_answer(json, label);
    if (label.status != Status::kError) write_scores(json, label);
    json.key("status").string(status_name(label.status));
    if (!label.reason.empty()) json.key("reason").string(label.reason);
    if (label.status == Status::kReview && label.best) {
      json.key("best").string(task_.labels[*label.best].name);
    }
    if (label.tie) json.key("tie").boolean(true);
    if (!dup_of.empty()) json.key("dup_of").raw(dup_of);
    write_facts(json, label.facts);
    if (!label.error.empty()) json.key("error").string(label.error);
    if (!row.message.empty()) json.key("message").string(row.message);
    for (const KeptField& field : row.kept) {
      const bool is_ours = std::ranges::find(kOwnKeys, field.name) != kOwnKeys.end();
      json.key(is_ours ? "input_" + field.name : field.name).raw(field.json);
    }
    out += json.end_object().text();
    out += '\n';
  }

 private:
  void write_answer(JsonWriter& json, const Label& label) const {
    const bool is_ok = label.status == Status::kOk;
    if (task_.options.multi_label) {
      json.key("labels").begin_array();
      for (const std::size_t index : label.chosen) json.string(task_.labels[index].name);
      json.end_array();
      return;
    }
    const std::string name = label_name(task_, label);
    json.key("label");
    if (!is_ok || name.empty()) {
      json.null();
    } else {
      json.string(name);
    }
    if (is_ok && !label.node.empty()) {
      json.key("level").number(1 + std::ranges::count(label.node, '/'));
    }
  }

  void write_scores(JsonWriter& json, const Label& label) const {
    json.key("confidence").number(label.confidence);
    json.key("margin").number(label.margin);
    json.key("gap").number(label.gap);
    json.key("mass").number(label.mass);
    if (!probabilities_) return;
    json.key("probabilities").begin_object();
    for (std::size_t i = 0; i < label.probabilities.size(); ++i) {
      json.key(task_.labels[i].name).number(label.probabilities[i]);
    }
    json.end_object();
  }

  static void write_facts(JsonWriter& json, const TextFacts& facts) {
    if (facts.tokens > 0) json.key("tokens").number(facts.tokens);
    if (facts.truncated_tokens > 0) json.key("truncated_tokens").number(facts.truncated_tokens);
    if (facts.neutralised > 0) json.key("neutralised").number(facts.neutralised);
    if (facts.utf8_replaced > 0) json.key("utf8_replaced").number(facts.utf8_replaced);
    if (facts.rescored) json.key("rescored").boolean(true);
  }

  const Task& task_;
  bool probabilities_;
};

class CsvWriter final : public RowWriter {
 public:
  CsvWriter(const Task& task, RowStyle style) : task_(task), style_(std::move(style)) {}

  void write_header(std::string& out) const override {
    if (!style_.format.header) return;
    Line line(*this, out);
    if (style_.input_is_csv) {
      for (const std::string& column : style_.columns) line.cell(column);
    } else {
      line.cell("id");
    }
    for (const char* name : {"label", "confidence", "status", "reason"}) line.cell(own_name(name));
    if (!style_.probabilities) return;
    for (const LabelDefinition& label : task_.labels) line.cell(own_name("p_" + label.name));
  }

  void write(const Row& row, const Label& label, const std::string&,
             std::string& out) const override {
    Line line(*this, out);
    if (style_.input_is_csv) {
      for (const std::string& cell : row.cells) line.cell(cell);
    } else {
      line.cell(id_text(row.id));
    }
    const bool is_error = label.status == Status::kError;
    line.cell(answer(label));
    line.cell(is_error ? std::string() : six_digits(label.confidence));
    line.cell(status_name(label.status));
    line.cell(is_error ? label.error : label.reason);
    if (!style_.probabilities) return;
    for (std::size_t i = 0; i < task_.labels.size(); ++i) {
      const bool has_one = i < label.probabilities.size();
      line.cell(has_one ? six_digits(label.probabilities[i]) : std::string());
    }
  }

 private:
  // One record; its end writes the line end.
  class Line {
   public:
    Line(const CsvWriter& writer, std::string& out) : writer_(writer), out_(out) {}
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;
    ~Line() { out_ += '\n'; }

    void cell(std::string_view text) {
      if (!std::exchange(is_first_, false)) out_ += writer_.style_.format.delimiter;
      std::string value(text);
      const bool is_formula =
          !value.empty() && "=+-@\t\r"sv.find(value.front()) != std::string_view::npos;
      if (writer_.style_.csv_safe && is_formula) value.insert(0, 1, '\'');
      if (!writer_.needs_quotes(value)) {
        out_ += value;
        return;
      }
      out_ += '"';
      for (const char c : value) {
        if (c == '"') out_ += '"';
        out_ += c;
      }
      out_ += '"';
    }

   private:
    const CsvWriter& writer_;
    std::string& out_;
    bool is_first_ = true;
  };

  [[nodiscard]] bool needs_quotes(std::string_view value) const {
    return value.find_first_of("\"\r\n") != std::string_view::npos ||
           value.find(style_.format.delimiter) != std::string_view::npos;
  }

  [[nodiscard]] std::string own_name(const std::string& name) const {
    const bool is_taken = std::ranges::find(style_.columns, name) != style_.columns.end();
    return is_taken ? "predicted_" + name : name;
  }

  [[nodiscard]] static std::string id_text(const std::string& id) {
    if (!id.starts_with('"')) return id;
    return JsonCursor(id).string().value_or(id);
  }

  [[nodiscard]] std::string answer(const Label& label) const {
    if (label.status != Status::kOk) return {};
    if (!task_.options.multi_label) return label_name(task_, label);
    std::string names;
    for (const std::size_t index : label.chosen) {
      names += (names.empty() ? "" : "|") + task_.labels[index].name;
    }
    return names;
  }

  const Task& task_;
  RowStyle style_;
};

}  // namespace

std::unique_ptr<RowWriter> RowWriter::make(const Task& task, RowStyle style) {
  if (style.format.kind == RowFormat::Kind::kCsv) {
    return std::make_unique<CsvWriter>(task, std::move(style));
  }
  return std::make_unique<JsonlWriter>(task, style.probabilities);
}

Label unreadable_label(const Row& row) {
  Label label;
  label.status = Status::kError;
  label.error = row.error;
  return label;
}

}  // namespace incipit::api
