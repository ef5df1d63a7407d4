// SPDX-License-Identifier: Apache-2.0
//
// incipit kv: what a folder of KV states holds, whether it is sound, and why a prompt misses.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "incipit/command.h"
#include "incipit/engine_flags.h"
#include "incipit/exit_code.h"
#include "incipit/generator.h"
#include "incipit/terminal_text.h"

namespace incipit::app {
namespace {

struct KvFlags {
  EngineFlags engine;
  std::string folder;
  std::string tenant;
  std::string system;
  std::string prompt;
  std::string file;
  std::size_t sample = 10;
  bool all = false;
};

std::string opening_of(const std::string& text) {
  constexpr std::size_t kShown = 48;
  return printable(text.size() <= kShown ? text : text.substr(0, kShown) + "...",
                   LineEnds::kEscaped);
}

struct Opened {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Generator> generator;  // Uses the engine: goes first.
};

Result<Opened> open(const KvFlags& flags, const Surroundings& around) {
  INCIPIT_TRY(EngineOptions options, engine_options(flags.engine));
  options.on_event = notices(around);
  Opened opened;
  INCIPIT_TRY(opened.engine, around.open_engine(options));
  GeneratorOptions generator_options;
  generator_options.kv.folder = flags.folder;
  generator_options.on_event = options.on_event;
  INCIPIT_TRY(opened.generator, opened.engine->generator(generator_options));
  return opened;
}

PromptRequest request_of(const KvFlags& flags) {
  PromptRequest request;
  if (!flags.system.empty()) request.turns.push_back({"system", flags.system});
  request.turns.push_back({"user", flags.prompt});
  request.tenant = flags.tenant;
  return request;
}

Result<int> list(const KvFlags& flags, const Surroundings& around) {
  INCIPIT_TRY(const auto states, list_kv_folder(flags.folder));
  std::fprintf(around.out, "%-12s %8s %8s %12s  %s\n", "id", "begin", "end", "bytes", "tenant");
  for (const KvState& state : states) {
    if (!state.problem.empty()) {
      std::fprintf(around.out, "unusable: %s\n",
                   printable(state.problem, LineEnds::kEscaped).c_str());
      continue;
    }
    std::fprintf(around.out, "%-12s %8zu %8zu %12llu  %s\n", state.id.substr(0, 12).c_str(),
                 state.begin, state.end, static_cast<unsigned long long>(state.bytes),
                 printable(state.tenant, LineEnds::kEscaped).c_str());
  }
  std::fprintf(around.out, "%s\n", counted(states.size(), "state").c_str());
  return kExitDone;
}

// How far two log probabilities may differ where the runtime promises no bits. On SmolLM2 with
// libllama label scores differed by up to 0.2; those of other prefixes differ by whole nats.
constexpr double kTolerance = 0.5;

bool is_near(const std::vector<TokenLogprob>& a, const std::vector<TokenLogprob>& b) {
  // The first few: those in both lists are compared, and the likeliest must be there.
  std::size_t compared = 0;
  for (const TokenLogprob& one : a) {
    const auto other = std::ranges::find(b, one.token, &TokenLogprob::token);
    if (other == b.end()) continue;
    if (std::abs(one.logprob - other->logprob) > kTolerance) return false;
    ++compared;
  }
  return compared > a.size() / 2;
}

// Asks for the token after a prefix twice: from its cells, and computed. Its bits tell of all
// cells before it.
Result<bool> agrees(Generator& generator, const KvEntry& entry) {
  GenerateRequest request;
  request.tokens = entry.tokens;
  request.tokens.push_back(entry.tokens.back());
  request.tenant = entry.tenant;
  request.tokens_max = 1;
  request.sampling.logprobs = 20;
  request.writes_cache = false;
  INCIPIT_TRY(const Generated cached, generator.generate(request));
  request.reads_cache = false;
  INCIPIT_TRY(const Generated computed, generator.generate(request));
  if (cached.kv.matched < entry.end) return false;
  const auto& a = cached.logprobs[0].top;
  const auto& b = computed.logprobs[0].top;
  if (!generator.exact()) return is_near(a, b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].token != b[i].token || a[i].logprob != b[i].logprob) return false;
  }
  return true;
}

Result<int> verify(const KvFlags& flags, const Surroundings& around) {
  INCIPIT_TRY(const Opened opened, open(flags, around));
  std::vector<KvEntry> entries = opened.generator->entries();
  std::erase_if(entries, [](const KvEntry& entry) { return !entry.is_in_file; });
  const std::size_t count = flags.all ? entries.size() : std::min(flags.sample, entries.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < count; ++i) {
    // Spread over all of them.
    const KvEntry& entry = entries[i * entries.size() / count];
    INCIPIT_TRY(const bool same, agrees(*opened.generator, entry));
    if (same) continue;
    ++different;
    std::fprintf(around.out, "differs: %s, \"%s\"; it was dropped\n",
                 counted(entry.end, "token").c_str(),
                 opening_of(opened.generator->text(entry.tokens)).c_str());
    opened.generator->drop(entry.tenant, entry.tokens);
  }
  std::fprintf(around.out, "%zu of %s computed anew, %s%s\n", count,
               counted(entries.size(), "prefix", "prefixes").c_str(),
               different == 0 ? "all the same" : (std::to_string(different) + " different").c_str(),
               opened.generator->exact() ? "" : " (approximate: compared within a tolerance)");
  return different == 0 ? kExitDone : kExitMismatch;
}

Result<int> explain(const KvFlags& flags, const Surroundings& around) {
  INCIPIT_TRY(const Opened opened, open(flags, around));
  const PromptRequest request = request_of(flags);
  INCIPIT_TRY(const TokenVector tokens, opened.generator->tokens(request));
  INCIPIT_TRY(const KvLookup lookup, opened.generator->explain(request));
  std::fprintf(around.out, "%s, %zu cached (%zu of them in memory or files)\n",
               counted(lookup.tokens, "token").c_str(), lookup.matched, lookup.restored);
  if (lookup.miss == KvMiss::kNone) return kExitDone;
  const std::size_t first = lookup.first_missing;
  std::fprintf(
      around.out, "from token %zu on: %s\nthat token is \"%s\", behind \"%s\"\n", first,
      to_string(lookup.miss).c_str(),
      printable(opened.generator->text(TokenSpan(tokens).subspan(first, 1)), LineEnds::kEscaped)
          .c_str(),
      opening_of(opened.generator->text(TokenSpan(tokens).subspan(
                     first - std::min<std::size_t>(first, 8), std::min<std::size_t>(first, 8))))
          .c_str());
  return kExitDone;
}

Result<int> drop(const KvFlags& flags, const Surroundings& around) {
  if (flags.all != flags.prompt.empty())
    return failure(ErrorCode::kInvalidArgument, "drop needs a prompt, or --all");
  INCIPIT_TRY(const Opened opened, open(flags, around));
  TokenVector tokens;
  if (!flags.all) {
    INCIPIT_TRY(tokens, opened.generator->tokens(request_of(flags)));
    // What was cached of this prompt, not only what is as long.
    INCIPIT_TRY(const KvLookup lookup, opened.generator->explain(request_of(flags)));
    tokens.resize(lookup.matched);
    if (tokens.empty()) {
      std::fputs("nothing of this prompt is cached\n", around.out);
      return kExitDone;
    }
  }
  std::fprintf(around.out, "%s forgotten\n",
               counted(opened.generator->drop(flags.tenant, tokens), "token").c_str());
  return kExitDone;
}

Result<int> save(const KvFlags& flags, const Surroundings& around) {
  INCIPIT_TRY(const Opened opened, open(flags, around));
  INCIPIT_TRY(const KvSaved saved, opened.generator->save(request_of(flags), flags.file));
  std::fprintf(around.out, "%s in %s, %zu of them computed now\n",
               counted(saved.tokens, "token").c_str(),
               printable(flags.file, LineEnds::kEscaped).c_str(), saved.computed);
  return kExitDone;
}

Result<int> restore(const KvFlags& flags, const Surroundings& around) {
  INCIPIT_TRY(const Opened opened, open(flags, around));
  INCIPIT_TRY(const std::size_t tokens, opened.generator->restore(flags.file));
  std::fprintf(around.out, "%s restored\n", counted(tokens, "token").c_str());
  return kExitDone;
}

using Action = Result<int> (*)(const KvFlags&, const Surroundings&);

struct KvAction {
  const char* name;
  const char* summary;
  Action run;
};

constexpr KvAction kActions[] = {
    {"ls", "list the prefixes in the folder; it may be in use", list},
    {"explain", "show how much of a prompt is cached, and why not more", explain},
    {"save", "write the cells of a prompt to one file, computing what is not cached", save},
    {"restore", "take a file that save wrote into the folder", restore},
    {"verify", "compute a sample of the prefixes anew and compare every bit", verify},
    {"drop", "remove what is cached of a prompt, and what goes on from there; or all", drop},
};

void print_usage(std::FILE* out) {
  std::fputs("Usage: incipit kv ls|explain|save|restore|verify|drop --folder FOLDER [FLAGS]\n\n",
             out);
  for (const KvAction& action : kActions) {
    std::fprintf(out, "  %-8s  %s\n", action.name, action.summary);
  }
  std::fputs("\nincipit kv ACTION --help tells more.\n", out);
}

int run(const KvAction& action, std::span<const std::string> arguments,
        const Surroundings& around) {
  const std::string name = action.name;
  std::string description = std::string(action.summary) + ".";
  description.front() = static_cast<char>(std::toupper(description.front()));
  CLI::App app(description, "incipit kv " + name);
  app.footer(
      std::string(
          "Exit codes: 0 done, 2 usage or input, 3 model, memory or disk, or the folder is ") +
      (name == "verify" ? "in use, 4 a prefix differs." : "in use."));
  KvFlags flags;
  app.add_option("--folder", flags.folder, "The folder of KV states.")
      ->type_name("FOLDER")
      ->required();
  if (name != "ls") add_engine_flags(app, flags.engine);
  if (name == "save" || name == "restore")
    app.add_option("file", flags.file,
                   name == "save" ? "The file to write." : "The file that save wrote.")
        ->type_name("FILE")
        ->required();
  if (name == "explain" || name == "drop" || name == "save") {
    app.add_option("prompt", flags.prompt, "What the user says: the text of the user turn.")
        ->type_name("TEXT")
        ->required(name != "drop");
    app.add_option("--system", flags.system, "The text of a system turn before it.")
        ->type_name("TEXT");
    app.add_option("--tenant", flags.tenant, "Whose prefixes; by default those without a tenant.")
        ->type_name("NAME");
  }
  if (name == "drop" || name == "verify")
    app.add_flag(
        "--all", flags.all,
        name == "drop" ? "Remove everything of the tenant." : "Compute every prefix anew.");
  if (name == "verify") {
    app.add_option("--sample", flags.sample, "How many prefixes to compute anew.")
        ->type_name("N")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
  }
  if (const auto over = parse_flags(app, arguments, around)) return *over;
  const auto code = action.run(flags, around);
  return code ? *code : fail(code.error(), around);
}

}  // namespace

int run_kv(std::span<const std::string> arguments, const Surroundings& around) {
  const std::string name = arguments.empty() ? "" : arguments.front();
  for (const KvAction& action : kActions) {
    if (name == action.name) return run(action, arguments.subspan(1), around);
  }
  const bool help = name == "--help" || name == "-h";
  if (!help && !name.empty()) {
    std::fprintf(around.err, "incipit kv: there is no action '%s'\n\n",
                 printable(name, LineEnds::kEscaped).c_str());
  }
  print_usage(help ? around.out : around.err);
  return help ? kExitDone : kExitUsage;
}

}  // namespace incipit::app
