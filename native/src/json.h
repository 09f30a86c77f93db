// A reader for the JSON of graphs and of what our own compiler writes into libraries.
#pragma once
#include <cstdlib>
#include <map>

#include "core.h"

namespace tw {

struct Json {
  enum Kind { kNull, kBool, kNumber, kString, kArray, kObject } kind = kNull;
  double number = 0;
  int64_t integer = 0;
  std::string string;
  std::vector<Json> items;
  std::map<std::string, Json> members;

  const Json& operator[](const char* key) const {
    static const Json null;
    auto it = members.find(key);
    return it == members.end() ? null : it->second;
  }
  bool has(const char* key) const { return members.count(key) != 0; }
};

class JsonReader {
 public:
  explicit JsonReader(const std::string& text, const char* what = "the library's metadata")
      : what_(what), begin_(text.c_str()), at_(begin_), end_(begin_ + text.size()) {}
  Json read() {
    Json value = read_value(0);
    skip_space();
    if (at_ != end_) bad("text after the end");
    return value;
  }

 private:
  [[noreturn]] void bad(const char* what) { fail("ValueError", "%s is damaged: %s at byte %ld", what_, what, static_cast<long>(at_ - begin_)); }
  void skip_space() { while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_; }
  bool take(char c) {
    skip_space();
    if (at_ < end_ && *at_ == c) { ++at_; return true; }
    return false;
  }
  void expect(char c) { if (!take(c)) bad("unexpected character"); }
  bool word(const char* w) {
    size_t n = strlen(w);
    if (static_cast<size_t>(end_ - at_) < n || strncmp(at_, w, n) != 0) return false;
    at_ += n;
    return true;
  }
  std::string read_string() {
    expect('"');
    std::string out;
    for (;;) {
      if (at_ >= end_) bad("unfinished string");
      char c = *at_++;
      if (c == '"') return out;
      if (c != '\\') { out += c; continue; }
      if (at_ >= end_) bad("unfinished string");
      c = *at_++;
      switch (c) {
        case 'n': out += '\n'; break;
        case 't': out += '\t'; break;
        case 'r': out += '\r'; break;
        case 'b': out += '\b'; break;
        case 'f': out += '\f'; break;
        case 'u': {
          uint32_t code = read_hex();
          if (code >= 0xd800 && code < 0xdc00 && word("\\u")) code = 0x10000 + ((code - 0xd800) << 10) + (read_hex() - 0xdc00);
          append_utf8(&out, code);
          break;
        }
        default: out += c;
      }
    }
  }
  uint32_t read_hex() {
    if (end_ - at_ < 4) bad("unfinished escape");
    char digits[5] = {at_[0], at_[1], at_[2], at_[3], 0};
    at_ += 4;
    return static_cast<uint32_t>(strtoul(digits, nullptr, 16));
  }
  static void append_utf8(std::string* out, uint32_t c) {
    if (c < 0x80) { *out += static_cast<char>(c); return; }
    int extra = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    *out += static_cast<char>(lead[extra] | (c >> (6 * extra)));
    while (extra--) *out += static_cast<char>(0x80 | ((c >> (6 * extra)) & 0x3f));
  }
  Json read_value(int depth) {
    if (depth > 64) bad("nested too deeply");
    skip_space();
    if (at_ >= end_) bad("unexpected end");
    Json v;
    if (*at_ == '{') {
      v.kind = Json::kObject;
      ++at_;
      if (take('}')) return v;
      do {
        skip_space();
        std::string key = read_string();
        expect(':');
        v.members[key] = read_value(depth + 1);
      } while (take(','));
      expect('}');
    } else if (*at_ == '[') {
      v.kind = Json::kArray;
      ++at_;
      if (take(']')) return v;
      do v.items.push_back(read_value(depth + 1)); while (take(','));
      expect(']');
    } else if (*at_ == '"') {
      v.kind = Json::kString;
      v.string = read_string();
    } else if (word("true") || word("false")) {
      v.kind = Json::kBool;
      v.integer = at_[-2] == 'u';
    } else if (!word("null")) {
      char* stop;
      v.kind = Json::kNumber;
      v.number = strtod(at_, &stop);
      if (stop == at_) bad("unexpected character");
      v.integer = strtoll(at_, nullptr, 10);
      at_ = stop;
    }
    return v;
  }
  const char* what_;
  const char* begin_;
  const char* at_;
  const char* end_;
};

}  // namespace tw
