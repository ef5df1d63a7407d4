// SPDX-License-Identifier: Apache-2.0
#include "model/bit_law.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <optional>
#include <sstream>
#include <vector>

#include "base/check.h"
#include "base/elapsed.h"
#include "base/file.h"

namespace incipit::model {
namespace {

constexpr std::uint32_t kPromptTokens = 24;
// Filler sequences live in one block of 32 cells, so no setting can ask for more.
constexpr std::size_t kRowsTried[] = {2, 8, 16, 32};

TokenVector test_tokens(std::size_t count, std::size_t seed, std::size_t vocabulary) {
  TokenVector tokens;
  for (std::size_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<Token>((seed + i * 7919 + i * i * 31) % vocabulary));
  }
  return tokens;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// What a prompt leaves behind: the logits of some of its rows, and its cells.
struct Trace {
  std::vector<float> logits;
  std::vector<std::byte> cells;
};

Result<Trace> whole_trace(OpenVinoRuntime& runtime, TokenSpan tokens,
                          std::span<const std::uint32_t> rows) {
  INCIPIT_TRY(const Sequence sequence, Sequence::create(runtime));
  const Step step{.sequence = sequence.id(), .tokens = tokens, .logits_rows = rows};
  INCIPIT_TRY(const Logits logits, runtime.evaluate({&step, 1}));
  Trace trace;
  trace.logits.assign(logits.values.begin(), logits.values.end());
  INCIPIT_TRY(trace.cells, runtime.save(sequence.id(), 0, tokens.size()));
  return trace;
}

// The pieces that a prompt is cut into: lone tokens, one of them among strangers, and every small
// number of rows, since the fewest rows are not always those that take another kernel.
struct Cut {
  std::uint32_t size = 0;
  bool among_strangers = false;
};
constexpr Cut kCuts[] = {{6}, {1}, {1, true}, {2}, {3}, {4}, {7}};

// `past` tokens, and behind them the kPromptTokens that are cut.
Result<bool> keeps_the_law_behind(OpenVinoRuntime& runtime, std::size_t past) {
  const TokenVector tokens = test_tokens(past + kPromptTokens, 11, runtime.limits().vocabulary);
  const TokenVector stranger = test_tokens(9, 4242, runtime.limits().vocabulary);
  std::vector<std::uint32_t> ends;
  for (auto end = static_cast<std::uint32_t>(past); const Cut& cut : kCuts)
    ends.push_back((end += cut.size) - 1);
  INCIPIT_CHECK(ends.back() + 1 == tokens.size(), "the pieces are not the prompt");
  INCIPIT_TRY(const Trace whole, whole_trace(runtime, tokens, ends));

  INCIPIT_TRY(const Sequence sequence, Sequence::create(runtime));
  INCIPIT_TRY(const Sequence other, Sequence::create(runtime));
  std::vector<float> logits;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const auto last = static_cast<std::uint32_t>(ends[i] - begin);
    const Step steps[] = {{.sequence = sequence.id(),
                           .tokens = TokenSpan(tokens).subspan(begin, last + 1),
                           .logits_rows = {&last, 1}},
                          {.sequence = other.id(), .tokens = stranger, .logits_rows = {}}};
    INCIPIT_TRY(const Logits result,
                runtime.evaluate(std::span(steps).first(kCuts[i].among_strangers ? 2 : 1)));
    logits.insert(logits.end(), result.values.begin(), result.values.end());
    begin = ends[i] + 1;
  }
  INCIPIT_TRY(const auto cells, runtime.save(sequence.id(), 0, tokens.size()));
  return same_bits(logits, whole.logits) && cells == whole.cells;
}

}  // namespace

Result<bool> keeps_the_law(OpenVinoRuntime& runtime) {
  INCIPIT_TRY(const bool kept, keeps_the_law_behind(runtime, 0));
  if (!kept || runtime.window() == 0) return kept;
  // Rows that see no longer all keys take another way through attention. The first piece crosses
  // into them; what does not fit into the cells cannot happen either.
  constexpr std::size_t kOthers = 2 * kBlockCells;
  const std::size_t room = runtime.limits().cells;
  const std::size_t most = room > kPromptTokens + kOthers ? room - kPromptTokens - kOthers : 0;
  const std::size_t past = std::min(most, runtime.window() > 4 ? runtime.window() - 4 : 0);
  return keeps_the_law_behind(runtime, past);
}

namespace {

std::string to_text(const LawProof& proof) {
  std::ostringstream text;
  text << "rows_min " << proof.settings.rows_min << "\nlogits_rows_min "
       << proof.settings.logits_rows_min << "\nexact " << proof.exact << "\nms " << proof.ms
       << '\n';
  return text.str();
}

// prove_law() goes up from the settings that it is given, and no further than it tries.
bool is_sensible(std::size_t rows, std::size_t least) {
  return rows >= least && rows <= std::end(kRowsTried)[-1];
}

// A file that does not read back as written is no proof.
std::optional<LawProof> from_text(const std::string& text, LawSettings settings) {
  std::istringstream in(text);
  LawProof proof{.settings = settings, .exact = false, .reason = "", .ms = 0, .is_kept = true};
  std::string names[4];
  in >> names[0] >> proof.settings.rows_min >> names[1] >> proof.settings.logits_rows_min >>
      names[2] >> proof.exact >> names[3] >> proof.ms;
  const bool good = in && names[0] == "rows_min" && names[1] == "logits_rows_min" &&
                    names[2] == "exact" && names[3] == "ms" &&
                    is_sensible(proof.settings.rows_min, settings.rows_min) &&
                    is_sensible(proof.settings.logits_rows_min, settings.logits_rows_min);
  if (!good) return std::nullopt;
  return proof;
}

constexpr const char* kApproximate =
    "pieces of a prompt and the whole prompt differ in their last bits on this CPU, whatever the "
    "pass size; try another --precision";

}  // namespace

Result<LawProof> prove_law(OpenVinoRuntime& runtime, const std::string& path) {
  if (const auto text = read_file(path, 4096)) {
    if (auto kept = from_text(*text, runtime.law())) {
      runtime.set_law(kept->settings);
      if (!kept->exact) kept->reason = kApproximate;
      runtime.set_exact(kept->exact, kept->reason);
      return *kept;
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  LawProof proof{
      .settings = runtime.law(), .exact = false, .reason = "", .ms = 0, .is_kept = false};
  for (const std::size_t rows : kRowsTried) {
    if (rows < runtime.law().rows_min) continue;
    proof.settings.rows_min = rows;
    proof.settings.logits_rows_min = rows;
    runtime.set_law(proof.settings);
    INCIPIT_TRY(proof.exact, keeps_the_law(runtime));
    if (proof.exact) break;
  }
  proof.ms = ms_since(begin);
  if (!proof.exact) proof.reason = kApproximate;
  runtime.set_exact(proof.exact, proof.reason);
  INCIPIT_TRY_VOID(write_file(path, to_text(proof)));
  return proof;
}

Result<LawMeasurement> measure_law(OpenVinoRuntime& runtime) {
  const LawSettings before = runtime.law();
  const auto holds = [&](LawSettings settings) -> Result<bool> {
    runtime.set_law(settings);
    auto result = keeps_the_law(runtime);
    runtime.set_law(before);
    return result;
  };
  const auto least = [&](std::size_t LawSettings::* setting) -> Result<std::size_t> {
    for (std::size_t rows = 1; rows <= before.*setting; ++rows) {
      LawSettings settings = before;
      settings.*setting = rows;
      settings.few_sizes = false;  // It would fill up what is to be found out.
      INCIPIT_TRY(const bool kept, holds(settings));
      if (kept) return rows;
    }
    return 0;
  };
  LawMeasurement measured;
  LawSettings without_shadow = before;
  without_shadow.shadow_lone_token = false;
  INCIPIT_TRY(const bool kept, holds(without_shadow));
  measured.lone_token_needs_shadow = !kept;
  INCIPIT_TRY(measured.rows_min, least(&LawSettings::rows_min));
  INCIPIT_TRY(measured.logits_rows_min, least(&LawSettings::logits_rows_min));
  return measured;
}

}  // namespace incipit::model
