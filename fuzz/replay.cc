// SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzz target without libFuzzer: its seeds, then mutations of them.
//
//     fuzz_gguf 3000              the seeds and 3,000 mutations
//     fuzz_gguf --write FOLDER    the seeds as files, a corpus for libFuzzer to begin with
//     fuzz_gguf FILE              one input, such as one that crashed
//
// The mutations are the same in every run; INCIPIT_SEED gives others. The input of a crash is
// written to the working directory.
#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "fuzz_target.h"
#include "support/seed.h"

// So that a finding of a sanitizer reaches the handler below.
extern "C" const char* __asan_default_options() { return "abort_on_error=1:detect_leaks=1"; }

namespace {

using incipit::fuzz::seeds;
using incipit::fuzz::words;

const std::string* current = nullptr;  // The one thing that a signal handler may touch.

void keep_input(int signal) {
  const int descriptor = ::open("fuzz-crash", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (descriptor >= 0 && current != nullptr) {
    static_cast<void>(!::write(descriptor, current->data(), current->size()));
    constexpr char kNote[] = "fuzz: the input is in fuzz-crash\n";
    static_cast<void>(!::write(STDERR_FILENO, kNote, sizeof(kNote) - 1));
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const std::string& input) {
  current = &input;
  // A copy of its own size: reading beyond it is seen.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  current = nullptr;
}

class Mutator {
 public:
  Mutator() : seeds_(seeds()), words_(words()), random_(incipit::test::seed_of(1)) {
    for (const char* word : {"\xff\xff\xff\xff\xff\xff\xff\xff", "\x80", "\xef\xbb\xbf", "\n"})
      words_.emplace_back(word);
    words_.emplace_back(8, '\0');
  }

  std::string next() {
    std::string text = seeds_[below(seeds_.size())];
    for (std::size_t i = 1 + below(4); i > 0; --i) change(text);
    return text;
  }

 private:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }

  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t count = std::min(below(16) + 1, text.size() - at);
    switch (below(7)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 2:
        text.erase(at, count);
        break;
      case 3:
        text.insert(at, text.substr(at, count));
        break;
      case 4:
        text.insert(at, words_[below(words_.size())]);
        break;
      case 5: {
        const std::string& word = words_[below(words_.size())];
        text.replace(at, std::min(word.size(), text.size() - at), word);
        break;
      }
      default: {
        const std::string& other = seeds_[below(seeds_.size())];
        text.resize(at);
        text += other.substr(below(other.size() + 1));
      }
    }
  }

  std::vector<std::string> seeds_;
  std::vector<std::string> words_;
  std::mt19937_64 random_;
};

int write_seeds(const std::string& folder) {
  std::size_t number = 0;
  for (const std::string& seed : seeds())
    std::ofstream(folder + "/seed-" + std::to_string(number++), std::ios::binary) << seed;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string argument = argc > 1 ? argv[1] : "2000";
  if (argument == "--write" && argc > 2) return write_seeds(argv[2]);
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, keep_input);
  std::size_t count = 0;
  const char* end = argument.data() + argument.size();
  if (std::from_chars(argument.data(), end, count).ptr != end) {
    std::ifstream file(argument, std::ios::binary);
    run({std::istreambuf_iterator<char>(file), {}});
    return 0;
  }
  std::size_t number = 0;
  for (const std::string& seed : seeds()) {
    const std::size_t before = incipit::fuzz::accepted;
    run(seed);
    if (incipit::fuzz::accepted == before) {
      std::fprintf(stderr, "fuzz: seed %zu is refused\n", number);
      return 1;
    }
    ++number;
  }
  Mutator mutator;
  for (std::size_t i = 0; i < count; ++i) run(mutator.next());
  std::printf("%zu of %zu inputs were read without an error\n", incipit::fuzz::accepted,
              number + count);
  return 0;
}
