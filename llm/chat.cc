#include "llm/chat.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "llm/gguf.h"
#include "llm/tokenizer.h"
#include "musaic/error.h"

namespace musaic::llm {

namespace {

constexpr std::string_view kStart = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";

/// The default system text of a ChatML template, "" when there is none that is plainly text.
std::string find_default_system(std::string_view chat_template) {
  constexpr std::string_view kSystem = "<|im_start|>system";
  for (size_t at = chat_template.find(kSystem); at != std::string_view::npos;
       at = chat_template.find(kSystem, at + 1)) {
    std::string_view text = chat_template.substr(at + kSystem.size());
    if (text.substr(0, 1) == "\n") {
      text.remove_prefix(1);
    } else if (text.substr(0, 2) == "\\n") {
      text.remove_prefix(2);
    } else {
      continue;
    }
    const size_t end = text.find(kEnd);
    if (end == std::string_view::npos) break;
    text = text.substr(0, end);
    if (text.find_first_of("'\"{}") != std::string_view::npos) continue;

    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out += text[i];
      } else if (text.substr(i, 2) == "\\n") {
        out += '\n';
        ++i;
      } else {
        out.clear();
        break;
      }
    }
    if (!out.empty()) return out;
  }
  return "";
}

}  // namespace

ChatFormat::ChatFormat(const GgufFile& file, const Tokenizer& tokenizer) {
  const std::optional<std::string_view> chat_template = file.find_string("tokenizer.chat_template");
  const auto start = tokenizer.find_special(kStart), end = tokenizer.find_special(kEnd);
  if (!chat_template) {
    notice_ = "the model has no chat template: it continues the prompt as plain text";
  } else if (chat_template->find(kStart) == std::string_view::npos) {
    notice_ = "the model's chat template is not ChatML: it continues the prompt as plain text";
  } else if (!start || !end) {
    notice_ = "the model's vocabulary lacks the ChatML markers: it continues the prompt as plain text";
  } else {
    chatml_ = true;
    im_start_ = *start;
    im_end_ = *end;
    default_system_ = find_default_system(*chat_template);
  }
}

std::vector<int32_t> ChatFormat::render(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                        bool begin_answer) const {
  for (const ChatMessage& message : messages) {
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
    if (message.role.empty() || std::any_of(message.role.begin(), message.role.end(), is_control)) {
      throw Error("chat", "role", quoted(message.role), "one line of text");
    }
  }
  if (!chatml_) {
    std::string text;
    for (const ChatMessage& message : messages)
      text += (&message == &messages[0] ? "" : "\n") + message.content;
    return tokenizer.encode_prompt(text);
  }

  std::vector<int32_t> ids;
  const auto add_text = [&](const std::string& text) {
    const std::vector<int32_t> more = tokenizer.encode(text);
    ids.insert(ids.end(), more.begin(), more.end());
  };
  const auto add_message = [&](const std::string& role, const std::string& content) {
    ids.push_back(im_start_);
    add_text(role + '\n' + content);
    ids.push_back(im_end_);
    add_text("\n");
  };
  // Where the marker itself is the begin token, one of them is enough.
  if (tokenizer.add_bos() && tokenizer.bos() != im_start_) ids.push_back(*tokenizer.bos());
  if (!default_system_.empty() && (messages.empty() || messages[0].role != "system")) {
    add_message("system", default_system_);
  }
  for (const ChatMessage& message : messages) add_message(message.role, message.content);
  if (begin_answer) {
    ids.push_back(im_start_);
    add_text("assistant\n");
  }
  return ids;
}

}  // namespace musaic::llm
