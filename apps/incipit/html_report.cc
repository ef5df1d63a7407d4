// SPDX-License-Identifier: Apache-2.0
#include "incipit/html_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include "incipit/html_report_style.h"
#include "incipit/html_text.h"
#include "incipit/svg_plot.h"

namespace incipit::app {
namespace {

struct ModeText {
  std::string_view name;
  std::string_view explanation;
};

ModeText mode_text(BenchMode mode) {
  switch (mode) {
    case BenchMode::kFull:
      return {"full", "the whole prompt for each ticket, one at a time"};
    case BenchMode::kFullBatched:
      return {"full batched", "whole prompts, many in one pass"};
    case BenchMode::kCached:
      return {"cached", "the prefix computed once, tickets one at a time"};
    case BenchMode::kBatched:
      return {"batched", "the prefix computed once, many tickets in one pass"};
    case BenchMode::kDeduplicated:
      return {"deduplicated", "as batched, and equal tickets scored once"};
  }
  return {"unknown", ""};
}

// "<name>text</name>" with escaped text.
std::string element(std::string_view name, std::string_view text) {
  const std::string tag = std::string(name);
  return "<" + tag + ">" + escape_html(text) + "</" + tag.substr(0, tag.find(' ')) + ">";
}

std::string figure(std::string_view number, std::string_view unit, std::string_view text) {
  return "<section><p class=\"figure\">" + escape_html(number) + " <small>" + escape_html(unit) +
         "</small></p>" + element("p class=\"muted\"", text) + "</section>\n";
}

bool held(const Proof& proof) { return proof.total > 0 && proof.equal == proof.total; }

std::string proof_figure(const std::vector<Proof>& proofs) {
  if (proofs.empty()) return figure("-", "", "nothing was checked");
  const auto count = static_cast<std::size_t>(std::ranges::count_if(proofs, held));
  const std::string of = "of " + grouped_number(proofs.size());
  const std::string_view text = count == proofs.size() ? "checks hold: the cache changes no answer"
                                                       : "checks hold: see below what differs";
  return figure(grouped_number(count), of, text);
}

// The fastest run that scores every ticket: a gain by leaving out repeats is the file's, not ours.
const ModeTime* fastest_mode(const BenchReport& report) {
  const ModeTime* best = nullptr;
  for (const ModeTime& time : report.modes) {
    if (time.mode == BenchMode::kDeduplicated || !std::isfinite(time.ms_per_ticket)) continue;
    if (best == nullptr || time.ms_per_ticket < best->ms_per_ticket) best = &time;
  }
  return best;
}

std::string headline(const BenchReport& report) {
  std::string html = "<div class=\"headline\">\n";
  if (const ModeTime* best = fastest_mode(report)) {
    const std::string way = std::string(mode_name(best->mode)) + ", " + best->precision;
    html += figure(fixed_number(best->ms_per_ticket, 1), "ms per ticket", way);
    html += figure(fixed_number(best->speed_up, 2) + "x", "",
                   "faster than full prompts one at a time, " + best->precision);
  }
  const double share = 100 * static_cast<double>(report.prefix_tokens) / report.prompt_tokens;
  html += figure(fixed_number(share, 0) + " %", "static",
                 grouped_number(report.prefix_tokens) + " of " +
                     fixed_number(report.prompt_tokens, 0) + " prompt tokens never change");
  return html + proof_figure(report.proofs) + "</div>\n";
}

// A table row: the first cell names the row.
std::string table_row(const std::vector<std::string>& cells) {
  std::string html = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    html += element(i == 0 ? "th scope=\"row\"" : "td", cells[i]);
  }
  return html + "</tr>\n";
}

std::string table_head(std::initializer_list<std::string_view> names) {
  std::string html = "<thead><tr>";
  for (const std::string_view name : names) html += element("th scope=\"col\"", name);
  return html + "</tr></thead>\n";
}

std::string legend(const std::vector<PlotSeries>& series) {
  std::string html = "<ul class=\"key\">";
  for (std::size_t i = 0; i < series.size(); ++i) {
    html += "<li><svg class=\"look" + std::to_string(i % 4) +
            "\" viewBox=\"0 0 34 12\" aria-hidden=\"true\"><path class=\"curve\" "
            "d=\"M2 6H32\"/></svg>" +
            escape_html(series[i].name) + "</li>";
  }
  return html + "</ul>\n";
}

struct PlotText {
  std::string_view heading;
  std::string_view explanation;
  std::string table;  // Rows and head; the numbers behind the plot.
};

std::string plot_section(const Plot& plot, const PlotText& text) {
  std::string html = "<section>" + element("h2", text.heading) +
                     element("p class=\"muted\"", text.explanation) + "\n";
  if (!has_points(plot)) return html + "<p>Not measured in this run.</p></section>\n";
  html += legend(plot.series) + svg_plot(plot);
  return html +
         "<details><summary>The numbers</summary><div class=\"scroll\" role=\"region\" "
         "tabindex=\"0\" aria-label=\"" +
         escape_html(text.heading) + "\"><table>\n" + text.table +
         "</table></div></details></section>\n";
}

// Adds a point to the series of that name, which is made on first use: the order of a report is
// the order of its legend.
void add_point(std::vector<PlotSeries>& series, const std::string& name, PlotPoint point) {
  auto found = std::ranges::find(series, name, &PlotSeries::name);
  if (found == series.end()) found = series.insert(series.end(), PlotSeries{name, {}});
  found->points.push_back(point);
}

std::string share_section(const BenchReport& report) {
  Plot plot{.id = "share",
            .description =
                "Line plot: speed-up over full prompts for growing prefixes. The "
                "numbers are in the table below.",
            .x_title = "Prefix tokens, and their share of the prompt",
            .y_title = "Times faster than full prompts",
            .y_unit = "x",
            .y_scale = Scale::kLogarithmic,
            .ticks = {},
            .series = {}};
  std::map<std::size_t, double> shares;
  std::string rows;
  for (const SharePoint& point : report.shares) {
    const double tokens = static_cast<double>(point.prefix_tokens);
    add_point(plot.series, point.series, {tokens, point.speed_up});
    shares.emplace(point.prefix_tokens, point.static_share);
    rows +=
        table_row({point.series, grouped_number(point.prefix_tokens),
                   fixed_number(100 * point.static_share, 1) + " %", fixed_number(point.full_ms, 1),
                   fixed_number(point.batched_ms, 1), fixed_number(point.speed_up, 2) + "x"});
  }
  for (const auto& [tokens, share] : shares) {
    // One digit more where rounding would claim that nothing is left to compute.
    const int decimals = share > 0.985 ? 1 : 0;
    plot.ticks.push_back({static_cast<double>(tokens), grouped_number(tokens),
                          fixed_number(100 * share, decimals) + "%"});
  }
  return plot_section(
      plot,
      {.heading = "Speed-up against static share",
       .explanation = "The longer the part that all prompts share, the more a cache saves.",
       .table = table_head({"", "Prefix tokens", "Static", "Full, ms", "Batched, ms", "Speed-up"}) +
                "<tbody>" + rows + "</tbody>"});
}

std::string batch_section(const BenchReport& report) {
  Plot plot{.id = "batch",
            .description =
                "Line plot: milliseconds per ticket for growing batch sizes. The "
                "numbers are in the table below.",
            .x_title = "Tickets in one pass",
            .y_title = "ms per ticket",
            .y_unit = " ms",
            .y_scale = Scale::kFromZero,
            .ticks = {},
            .series = {}};
  std::set<std::size_t> sizes;
  std::string rows;
  for (const BatchPoint& point : report.batches) {
    add_point(plot.series, point.series, {static_cast<double>(point.batch), point.ms_per_ticket});
    sizes.insert(point.batch);
    rows += table_row(
        {point.series, grouped_number(point.batch), fixed_number(point.ms_per_ticket, 2)});
  }
  for (const std::size_t size : sizes) {
    plot.ticks.push_back({static_cast<double>(size), grouped_number(size), ""});
  }
  return plot_section(
      plot, {.heading = "Time against batch size",
             .explanation = "Tickets that are evaluated together read the weights only once.",
             .table = table_head({"", "Tickets in one pass", "ms per ticket"}) + "<tbody>" + rows +
                      "</tbody>"});
}

std::string mode_row(const ModeTime& time, double slowest_ms, bool is_best) {
  const double share = slowest_ms > 0 ? 100 * time.ms_per_ticket / slowest_ms : 0;
  return std::string("<tr") + (is_best ? " class=\"best\">" : ">") +
         element("th scope=\"row\"", mode_name(time.mode)) +
         element("td", fixed_number(time.total_s, 2) + " s") +
         element("td", fixed_number(time.ms_per_ticket, 1)) +
         "<td class=\"wide\"><div class=\"bar\" style=\"width:" +
         fixed_number(std::isfinite(share) ? share : 0, 1) + "%\"></div></td>" +
         element("td", fixed_number(time.speed_up, 2) + "x") + "</tr>\n";
}

std::string mode_explanations(const std::vector<ModeTime>& modes) {
  std::set<BenchMode> used;
  std::string html = "<dl>";
  for (const ModeTime& time : modes) {
    if (!used.insert(time.mode).second) continue;
    const ModeText text = mode_text(time.mode);
    html += element("dt", text.name) + element("dd", text.explanation);
  }
  return html + "</dl>\n";
}

std::string mode_section(const BenchReport& report) {
  std::string html = "<section class=\"modes\"><h2>Every mode</h2>\n";
  if (report.modes.empty()) return html + "<p>Not measured in this run.</p></section>\n";
  double slowest_ms = 0;
  for (const ModeTime& time : report.modes) {
    if (std::isfinite(time.ms_per_ticket)) slowest_ms = std::max(slowest_ms, time.ms_per_ticket);
  }
  html +=
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Every mode\">"
      "<table>\n<caption>" +
      grouped_number(report.tickets) + (report.tickets == 1 ? " ticket" : " tickets") +
      ". Speed-up: against full prompts one at a time, same precision.</caption>\n"
      "<thead><tr><th scope=\"col\">Mode</th><th scope=\"col\">Total</th>"
      "<th scope=\"col\">ms per ticket</th><th class=\"wide\"></th>"
      "<th scope=\"col\">Speed-up</th></tr></thead>\n";
  const ModeTime* best = fastest_mode(report);
  const std::string* precision = nullptr;
  std::size_t groups = 0;
  for (const ModeTime& time : report.modes) {
    if (precision == nullptr || *precision != time.precision) {
      html += groups > 0 ? "</tbody>" : "";
      html += groups % 2 == 0 ? "<tbody>" : "<tbody class=\"second\">";
      html += "<tr><th class=\"group\" scope=\"rowgroup\" colspan=\"5\">" +
              escape_html(time.precision) + "</th></tr>\n";
      precision = &time.precision;
      ++groups;
    }
    html += mode_row(time, slowest_ms, &time == best);
  }
  return html + "</tbody></table></div>\n" + mode_explanations(report.modes) + "</section>\n";
}

std::string proof_section(const std::vector<Proof>& proofs) {
  std::string html =
      "<section><h2>Proof</h2><p class=\"muted\">Checked before anything was "
      "timed, on every distinct ticket.</p>\n";
  if (proofs.empty()) return html + "<p>Nothing was checked in this run.</p></section>\n";
  html += "<ul class=\"proofs\">";
  for (const Proof& proof : proofs) {
    const bool holds = held(proof);
    html += std::string("<li><span class=\"") + (holds ? "holds\">equal" : "fails\">differs") +
            "</span><span>" + escape_html(proof.claim) + ": " + grouped_number(proof.equal) +
            " of " + grouped_number(proof.total) +
            (holds ? ", " + escape_html(proof.kind) : std::string()) + "</span></li>\n";
  }
  return html + "</ul></section>\n";
}

std::string machine_section(const BenchReport& report) {
  std::string html = "<section><h2>Machine and versions</h2>\n<dl>";
  for (const Fact& fact : report.machine) {
    html += element("dt", fact.name) + element("dd", fact.value) + "\n";
  }
  if (!report.command.empty()) {
    html += "<dt>Command</dt><dd>" + element("code", report.command) + "</dd>\n";
  }
  return html + "</dl></section>\n";
}

}  // namespace

std::string_view mode_name(BenchMode mode) { return mode_text(mode).name; }

std::string html_report(const BenchReport& report) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  html += element("title", "Incipit: " + report.title) + "\n<style>";
  html += std::string(kReportStyle) + std::string(svg_plot_style());
  html += "</style>\n</head>\n<body>\n<main>\n<header>" + element("h1", report.title) +
          element("p class=\"muted lead\"", "Incipit benchmark, " + report.date) + "</header>\n";
  html += headline(report);
  html += "<div class=\"plots\">\n" + share_section(report) + batch_section(report) + "</div>\n";
  html += mode_section(report) + proof_section(report.proofs) + machine_section(report);
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace incipit::app
