// Conversations as token ids, in ChatML.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace musaic::llm {

class GgufFile;
class Tokenizer;

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant", ...: one line, not empty
  std::string content;
};

/// How a model wants to be spoken to, as far as its file says so.
///
/// A model speaks ChatML when its tokenizer.chat_template contains "<|im_start|>" and its vocabulary has
/// "<|im_start|>" and "<|im_end|>" as special tokens. The template is not interpreted. Its default system
/// text is the first stretch between "<|im_start|>system" + line feed (or its escape) and "<|im_end|>" that
/// holds no quote, brace or backslash other than "\n": text, not code.
class ChatFormat {
 public:
  ChatFormat(const GgufFile& file, const Tokenizer& tokenizer);

  /// Not ChatML: `render` continues the plain text of the messages.
  bool is_chatml() const noexcept { return chatml_; }

  /// One line for the user when the model does not speak ChatML, else empty.
  const std::string& notice() const noexcept { return notice_; }

  /// The system text that the template uses when a conversation begins with none; may be empty.
  const std::string& default_system() const noexcept { return default_system_; }

  /// Token ids of the conversation. In ChatML, for each message:
  ///   <|im_start|> role "\n" content <|im_end|> "\n"
  /// then <|im_start|> "assistant\n" if `begin_answer`; only the markers are special tokens, roles and
  /// contents are text whatever they contain. The default system text comes first when the first message is
  /// not a system message. Without ChatML: the contents, with a line feed between them, as a plain prompt.
  /// Throws musaic::Error for a role that is empty or has a control character.
  std::vector<int32_t> render(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                              bool begin_answer = true) const;

 private:
  bool chatml_ = false;
  int32_t im_start_ = -1, im_end_ = -1;
  std::string notice_, default_system_;
};

}  // namespace musaic::llm
