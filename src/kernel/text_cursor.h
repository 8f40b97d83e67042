// A position in a text: words, integers and single characters are read from it, mistakes reported with their place.
// White space and comments ('#' to the end of the line) separate, and mean nothing else.
#pragma once

#include <cctype>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace heddle::kernel {

inline bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

class TextCursor {
 protected:
  explicit TextCursor(std::string_view text, const char* kind = "kernel text") : text_(text), kind_(kind) {}

  [[noreturn]] void fail(const std::string& what) const { fail_at(pos_, what); }
  [[noreturn]] void fail_at(size_t at, const std::string& what) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < text_.size(); ++i) {
      ++column;
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      }
    }
    throw ParseError(heddle::text(kind_, ", line ", line, ", column ", column, ": ", what));
  }

  char peek() {
    skip_space();
    return pos_ < text_.size() ? text_[pos_] : '\0';
  }
  void skip_space() {
    while (pos_ < text_.size()) {
      if (text_[pos_] == '#') {
        while (pos_ < text_.size() && text_[pos_] != '\n') ++pos_;
      } else if (std::isspace(static_cast<unsigned char>(text_[pos_]))) {
        ++pos_;
      } else {
        return;
      }
    }
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++pos_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(heddle::text("expected '", c, "'"));
  }
  std::string_view peek_word() {
    skip_space();
    size_t end = pos_;
    while (end < text_.size() && is_name_char(text_[end])) ++end;
    return text_.substr(pos_, end - pos_);
  }
  bool accept_word(std::string_view word) {
    if (peek_word() != word) return false;
    pos_ += word.size();
    return true;
  }
  void expect_word(std::string_view word) {
    if (!accept_word(word)) fail(heddle::text("expected '", word, "'"));
  }
  std::string word(const char* what) {
    std::string_view found = peek_word();
    if (found.empty()) fail(heddle::text("expected ", what));
    pos_ += found.size();
    return std::string(found);
  }
  template <class T = int64_t>
  T integer(T lo, T hi) {
    skip_space();
    T value = 0;
    auto [end, error] = std::from_chars(text_.data() + pos_, text_.data() + text_.size(), value);
    if (error != std::errc() || value < lo || value > hi)
      fail(heddle::text("expected an integer between ", lo, " and ", hi));
    pos_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  int64_t any_integer() { return integer<int64_t>(INT64_MIN, INT64_MAX); }

  std::string_view text_;
  const char* kind_;
  size_t pos_ = 0;
};

}  // namespace heddle::kernel
