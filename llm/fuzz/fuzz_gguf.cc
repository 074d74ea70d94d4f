// Fuzz target: any bytes as a GGUF file. Parses, reads every value with every getter, touches every byte that
// a tensor claims to have, then builds the tokenizer and the chat format and uses them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "llm/chat.h"
#include "llm/gguf.h"
#include "llm/tokenizer.h"
#include "musaic/error.h"

namespace {

using musaic::llm::GgufFile;

/// Calls something that may refuse its input in the one documented way.
template <typename Call>
void may_fail(Call call) {
  try {
    call();
  } catch (const musaic::Error&) {
  }
}

unsigned walk(const GgufFile& file) {
  unsigned sum = 0;
  for (const auto& entry : file.entries()) {
    const std::string_view key = entry.key;
    if (file.find(key) != &entry) std::abort();
    may_fail([&] { sum += static_cast<unsigned>(file.get_u64(key)); });
    may_fail([&] { sum += file.get_f32(key) > 0 ? 1u : 0u; });
    may_fail([&] { sum += file.get_bool(key) ? 1u : 0u; });
    may_fail([&] { sum += static_cast<unsigned>(std::string(file.get_string(key)).size()); });
    may_fail([&] {
      for (const std::string_view text : file.get_strings(key))
        sum += static_cast<unsigned>(std::string(text).size());
    });
    may_fail([&] { sum += static_cast<unsigned>(file.get_f32s(key).size()); });
    may_fail([&] { sum += static_cast<unsigned>(file.get_i32s(key).size()); });
  }
  for (const auto& tensor : file.tensors()) {
    if (file.find_tensor(tensor.name) != &tensor) std::abort();
    const auto& type = musaic::llm::ggml_type_info(tensor.type);
    const auto blocks = static_cast<uint64_t>(tensor.elements() / type.block_elements);
    if (tensor.bytes != blocks * static_cast<uint64_t>(type.block_bytes)) std::abort();
    for (uint64_t i = 0; i < tensor.bytes; ++i) sum += static_cast<unsigned>(tensor.data[i]);
    sum += static_cast<unsigned>(tensor.dims_text().size());
  }
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  may_fail([&] {
    const GgufFile file = GgufFile::parse(std::as_bytes(std::span(data, size)), "fuzz");
    volatile unsigned sum = walk(file);
    (void)sum;
    const auto tokenizer = musaic::llm::Tokenizer::from_gguf(file);
    for (const bool special : {false, true}) {
      const auto ids = tokenizer.encode("Hello <|im_start|> 123\n\xE6\xAD \xF0\x9F\x98\x80<0x41>", special);
      tokenizer.decode(ids);
    }
    const musaic::llm::ChatFormat chat(file, tokenizer);
    const std::vector<musaic::llm::ChatMessage> messages{{"user", "Hi"}};
    tokenizer.decode(chat.render(tokenizer, messages));
  });
  return 0;
}
