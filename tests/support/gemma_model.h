// SPDX-License-Identifier: Apache-2.0
//
// Gemma 3 270M as the engine can open it. The file that is pinned is the base model, which has no
// chat template, so a copy gets one: the turns of the family, and no system role.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/file.h"
#include "support/gguf_writer.h"
#include "support/installed_models.h"
#include "support/must.h"
#include "support/temp_dir.h"

namespace incipit::test {

inline constexpr std::string_view kGemmaTemplate =
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}"
    "{{ raise_exception('no system role') }}{% endif %}<start_of_turn>"
    "{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}<end_of_turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}";

// Writes the copy to the test's temporary directory (250 MB) and returns its path.
inline std::string gemma_with_template() {
  constexpr std::size_t kMegabytesMax = 512;
  constexpr std::size_t kCountAt = 16;  // Magic, version, tensor count; then the count of values.
  constexpr std::size_t kValuesAt = kCountAt + sizeof(std::uint64_t);
  std::string file = must(read_file(gemma_path(), kMegabytesMax << 20U));
  const auto entry = [](std::string_view jinja) {
    return ByteWriter().text("tokenizer.chat_template").put(std::uint32_t{8}).text(jinja).bytes();
  };
  // Tensors stay aligned if the new value is a multiple of the alignment: a comment fills it up.
  std::string jinja = std::string(kGemmaTemplate) + "{##}";
  const std::size_t over = entry(jinja).size() % GgufWriter::kAlignment;
  jinja.insert(jinja.size() - 2, (GgufWriter::kAlignment - over) % GgufWriter::kAlignment, ' ');
  std::uint64_t count = 0;
  std::memcpy(&count, file.data() + kCountAt, sizeof(count));
  ++count;
  std::memcpy(file.data() + kCountAt, &count, sizeof(count));
  file.insert(kValuesAt, entry(jinja));
  const std::string path = scratch("gemma-with-template.gguf");
  must(write_file(path, file));
  return path;
}

}  // namespace incipit::test
