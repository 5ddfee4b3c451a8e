/*
 * perdure.hpp - plugins in C++17 on top of perdure.h, in this header alone. MIT licence.
 *
 *   #include "perdure.hpp"
 *
 *   static void setup(perdure::Plugin &plugin) {
 *     plugin.tool("greet", [](perdure::Call &call) {
 *       return "Hello, " + call.argument("name").text() + "!";
 *     });
 *   }
 *
 *   PERDURE_PLUGIN(R"({"manifest": 1, "id": "acme.greet", "version": "1.0.0", "runtime": "c++",
 *     "tools": [{"name": "greet", "description": "Greets.", "replay": "safe",
 *                "parameters": {"type": "object", "required": ["name"],
 *                               "properties": {"name": {"type": "string"}}}}]})", setup)
 *
 *   g++ -std=c++17 -shared -fPIC -fvisibility=hidden -Wl,--version-script=perdure.map \
 *       -I include -o greet.so greet.cpp
 *
 * What is in the messages (targets, operations, members) is said in docs/plugins.md;
 * everything below that is called like an operation is that operation.
 *
 * Rules
 *  - Nothing is thrown into the host. What a handler throws fails its call: an Error as it is, another
 *    std::exception as an internal error with what(), anything else with a fixed sentence.
 *  - A handler that returns a value answers with it. A handler that returns void keeps a copy of its
 *    Call and answers later, from any thread. A call whose last copy goes without an answer fails.
 *  - Operations have two forms. The one without a continuation waits: it is for handlers whose
 *    manifest element says "blocking": true, and for threads of the plugin; elsewhere it throws at
 *    once and waits for nothing. The one with a continuation never waits; the continuation runs on a
 *    thread of the host and must not block; what it throws fails the call.
 *  - Handlers run beside each other on several threads, up to the manifest's maxConcurrency. Objects
 *    of this header may be used by one thread at a time, except Call and Plugin, which any may use.
 *  - Every value belongs to whoever holds it; nothing points into memory of the host.
 */
#ifndef PERDURE_HPP
#define PERDURE_HPP

#include "perdure.h"

/* C sees nothing of this header. */
#ifdef __cplusplus

#if __cplusplus < 201703L
#error "perdure.hpp needs C++17: compile with -std=c++17 or later, or use perdure.h or perdure_easy.h"
#endif
#if !defined(__cpp_exceptions)
#error "perdure.hpp needs exceptions: compile without -fno-exceptions, or use perdure.h or perdure_easy.h"
#endif

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

/* Hidden, so that two generations of a plugin never share a variable of this header. */
namespace perdure __attribute__((visibility("hidden"))) {

class Error;

namespace detail {
[[noreturn]] inline void raise(int32_t code, const std::string &message, const char *reason);
}

/* ---------------------------------------------------------------- JSON */

/// One JSON value. Members keep their order, integers are exact, and text is UTF-8 in which a lone
/// surrogate of an escape has the three bytes that its number would have (WTF-8). Copies are deep.
class Json {
 public:
  enum class Kind { null, boolean, integer, number, text, array, object };

  /// How deep a text may be nested.
  static constexpr int max_depth = 128;

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : kind_(Kind::boolean), integer_(value) {}
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Json(T value) : kind_(Kind::integer) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) >= sizeof(int64_t)) {
      if (value > static_cast<T>(std::numeric_limits<int64_t>::max())) {
        kind_ = Kind::number;
        text_ = std::to_string(value);
        return;
      }
    }
    integer_ = static_cast<int64_t>(value);
  }
  /// A number; throws PDR_E_INVALID for one that JSON has not (infinite, not a number).
  Json(double value) : kind_(Kind::number) {
    if (!std::isfinite(value)) detail::raise(PDR_E_INVALID, "JSON has no such number", "shape");
    char buffer[64];
#if defined(__cpp_lib_to_chars)
    text_.assign(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
#else
    text_.assign(buffer, static_cast<size_t>(std::snprintf(buffer, sizeof buffer, "%.17g", value)));
    std::replace(text_.begin(), text_.end(), ',', '.');
#endif
  }
  Json(const char *text) : kind_(Kind::text), text_(text ? text : "") {}
  Json(std::string text) : kind_(Kind::text), text_(std::move(text)) {}
  Json(std::string_view text) : kind_(Kind::text), text_(text) {}

  /// Makes an object: Json::object({{"a", 1}, {"b", "x"}}). Of equal names the last one counts.
  static Json object(std::initializer_list<std::pair<std::string, Json>> members = {}) {
    Json value;
    value.kind_ = Kind::object;
    for (const auto &member : members) value.set(member.first, member.second);
    return value;
  }
  /// Makes an array: Json::array({1, "x"}).
  static Json array(std::initializer_list<Json> items = {}) {
    Json value;
    value.kind_ = Kind::array;
    value.items_.assign(items.begin(), items.end());
    return value;
  }
  /// Makes an array of items that are known when the plugin runs.
  static Json array(std::vector<Json> items) {
    Json value;
    value.kind_ = Kind::array;
    value.items_ = std::move(items);
    return value;
  }

  /// Reads one value; throws PDR_E_ENCODING with the byte at which the text is wrong: no strict JSON,
  /// a name twice in an object, no UTF-8, or too deep.
  static Json parse(std::string_view text);

  /// Gives the value as JSON without blanks; throws PDR_E_ENCODING for text that is no UTF-8.
  std::string dump() const {
    std::string out;
    write(out);
    return out;
  }

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::null; }
  bool is_text() const { return kind_ == Kind::text; }
  bool is_integer() const { return kind_ == Kind::integer; }
  bool is_object() const { return kind_ == Kind::object; }
  bool is_array() const { return kind_ == Kind::array; }

  /// The value as this type; throws PDR_E_INVALID if it has another.
  const std::string &text() const { return is(Kind::text, "a text"), text_; }
  int64_t integer() const { return is(Kind::integer, "an integer"), integer_; }
  bool boolean() const { return is(Kind::boolean, "true or false"), integer_ != 0; }
  double number() const {
    if (kind_ == Kind::integer) return static_cast<double>(integer_);
    is(Kind::number, "a number");
    double value = 0;
#if defined(__cpp_lib_to_chars)
    std::from_chars(text_.data(), text_.data() + text_.size(), value);
#else
    value = std::strtod(text_.c_str(), nullptr);
#endif
    return value;
  }
  /// The value as this type, or something else if it has another.
  std::string text_or(std::string other) const { return kind_ == Kind::text ? text_ : other; }
  int64_t integer_or(int64_t other) const { return kind_ == Kind::integer ? integer_ : other; }
  bool boolean_or(bool other) const { return kind_ == Kind::boolean ? integer_ != 0 : other; }

  /// How many items or members there are; 0 for other kinds.
  size_t size() const { return items_.size(); }
  /// The items of an array, or the values of an object in the order of names().
  const std::vector<Json> &items() const { return items_; }
  std::vector<Json> &items() { return items_; }
  /// The names of an object.
  const std::vector<std::string> &names() const { return names_; }

  /// The member, or null; borrowed until the object changes.
  const Json *find(std::string_view name) const {
    for (size_t i = 0; i < names_.size(); i++)
      if (names_[i] == name) return &items_[i];
    return nullptr;
  }
  /// The member, or a JSON null if there is none or this is no object.
  const Json &operator[](std::string_view name) const {
    const Json *found = find(name);
    return found ? *found : none();
  }
  const Json &operator[](const char *name) const { return (*this)[std::string_view(name)]; }
  /// The item, or a JSON null behind the end.
  const Json &at(size_t index) const {
    return kind_ == Kind::array && index < items_.size() ? items_[index] : none();
  }

  /// Sets a member; a null becomes an object first, anything else throws PDR_E_INVALID.
  Json &set(std::string_view name, Json value) {
    if (kind_ == Kind::null) kind_ = Kind::object;
    is(Kind::object, "an object");
    for (size_t i = 0; i < names_.size(); i++) {
      if (names_[i] != name) continue;
      items_[i] = std::move(value);
      return *this;
    }
    names_.emplace_back(name);
    items_.push_back(std::move(value));
    return *this;
  }
  /// The member to change; made as a null if there is none.
  Json &member(std::string_view name) {
    if (!find(name)) set(name, nullptr);
    return const_cast<Json &>(*find(name));
  }
  /// Removes a member if there is one.
  void remove(std::string_view name) {
    for (size_t i = 0; i < names_.size(); i++) {
      if (names_[i] != name) continue;
      names_.erase(names_.begin() + static_cast<std::ptrdiff_t>(i));
      items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
  /// Appends an item; a null becomes an array first, anything else throws PDR_E_INVALID.
  Json &push(Json item) {
    if (kind_ == Kind::null) kind_ = Kind::array;
    is(Kind::array, "an array");
    items_.push_back(std::move(item));
    return *this;
  }

  /// Equal kinds and contents; members in any order, numbers as they are written.
  friend bool operator==(const Json &a, const Json &b) {
    if (a.kind_ != b.kind_ || a.integer_ != b.integer_ || a.text_ != b.text_) return false;
    if (a.kind_ != Kind::object) return a.items_ == b.items_;
    if (a.items_.size() != b.items_.size()) return false;
    for (size_t i = 0; i < a.names_.size(); i++) {
      const Json *other = b.find(a.names_[i]);
      if (!other || !(*other == a.items_[i])) return false;
    }
    return true;
  }
  friend bool operator!=(const Json &a, const Json &b) { return !(a == b); }

 private:
  friend class JsonReader;

  static const Json &none() {
    static const Json value;
    return value;
  }
  void is(Kind kind, const char *wanted) const {
    if (kind_ != kind) detail::raise(PDR_E_INVALID, std::string("a value is not ") + wanted, "shape");
  }
  void write(std::string &out) const;
  static void write_text(std::string &out, const std::string &text);

  Kind kind_ = Kind::null;
  int64_t integer_ = 0;  // also of a boolean
  std::string text_;     // also a number as it is written
  std::vector<std::string> names_;
  std::vector<Json> items_;
};

/* ---------------------------------------------------------------- errors */

/// What went wrong, on its way from the host to the plugin or back. Copies share nothing.
class Error : public std::exception {
 public:
  int32_t code;       ///< PDR_E_…
  uint32_t flags;     ///< PDR_ERR_…
  std::string message;  ///< one sentence: what, where, what to do
  Json detail;        ///< an object, or null

  Error(int32_t number, std::string sentence, Json more = nullptr, uint32_t bits = 0)
      : code(number), flags(bits), message(std::move(sentence)), detail(std::move(more)) {}

  const char *what() const noexcept override { return message.c_str(); }
  /// What happened precisely, such as "conflict"; empty if nobody said.
  std::string reason() const { return detail["reason"].text_or(""); }
};

/// An error whose sentence the model may read: throw perdure::failure("the file is not there").
inline Error failure(std::string sentence) {
  return Error(PDR_E_INTERNAL, std::move(sentence), nullptr, PDR_ERR_USER_VISIBLE);
}

namespace detail {

[[noreturn]] inline void raise(int32_t code, const std::string &message, const char *reason) {
  throw Error(code, message, Json::object({{"reason", reason}}));
}

inline pdr_str borrow(std::string_view text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

inline std::string_view view(const pdr_str &text) {
  if (text.len == PDR_ABSENT || text.len == 0) return {};
  return {reinterpret_cast<const char *>(text.ptr), text.len};
}

/// How many bytes the character at the front of the text has; 0 if it is not UTF-8 (with
/// surrogates: not WTF-8).
constexpr size_t utf8_length(std::string_view text, bool surrogates) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  auto follows = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;
  if (first < 0xE0) return follows(1) ? 2 : 0;
  if (first < 0xF0) {
    if (!follows(1) || !follows(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    return first == 0xED && byte(1) > 0x9F && !surrogates ? 0 : 3;
  }
  if (first > 0xF4 || !follows(1) || !follows(2) || !follows(3)) return 0;
  if ((first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
  return 4;
}

/// Whether a text has the shape of JSON; what the compiler asks about a manifest.
class Shape {
 public:
  static constexpr bool of(std::string_view text) {
    // Compilers limit how much they compute; the host checks manifests of any size.
    if (text.size() > 16384) return true;
    Shape shape{text};
    shape.blanks();
    if (!shape.value(0)) return false;
    shape.blanks();
    return shape.at == text.size();
  }

 private:
  constexpr explicit Shape(std::string_view whole) : text(whole) {}
  constexpr void blanks() {
    while (at < text.size() &&
           (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r'))
      at++;
  }
  constexpr bool take(char c) {
    if (at >= text.size() || text[at] != c) return false;
    at++;
    return true;
  }
  constexpr bool word(std::string_view wanted) {
    if (text.substr(at, wanted.size()) != wanted) return false;
    at += wanted.size();
    return true;
  }
  constexpr bool quoted() {
    if (!take('"')) return false;
    for (; at < text.size(); at++) {
      if (text[at] == '"') return take('"');
      if (static_cast<unsigned char>(text[at]) < ' ') return false;
      if (text[at] == '\\') at++;
    }
    return false;
  }
  constexpr bool digits() {
    size_t start = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') at++;
    return at > start;
  }
  constexpr bool number() {
    take('-');
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      return digits();
    }
    return true;
  }
  constexpr bool value(int depth) {
    if (depth > 32 || at >= text.size()) return false;
    char open = text[at];
    if (open == '"') return quoted();
    if (open == 't') return word("true");
    if (open == 'f') return word("false");
    if (open == 'n') return word("null");
    if (open != '{' && open != '[') return number();
    char close = open == '{' ? '}' : ']';
    at++;
    blanks();
    if (take(close)) return true;
    do {
      blanks();
      if (open == '{') {
        if (!quoted()) return false;
        blanks();
        if (!take(':')) return false;
        blanks();
      }
      if (!value(depth + 1)) return false;
      blanks();
    } while (take(','));
    return take(close);
  }

  std::string_view text;
  size_t at = 0;
};

}  // namespace detail

/// Reads JSON; Json::parse is the way to it.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  Json whole() {
    Json value = read(0);
    blanks();
    if (at_ != text_.size()) fail("text behind the value");
    return value;
  }

 private:
  [[noreturn]] void fail(const char *what) {
    detail::raise(PDR_E_ENCODING,
                  std::string("not JSON: ") + what + " at byte " + std::to_string(at_), "json");
  }
  void blanks() {
    while (at_ < text_.size() && std::strchr(" \n\t\r", text_[at_]) && text_[at_] != 0) at_++;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    at_++;
    return true;
  }

  Json read(int depth) {
    if (depth > Json::max_depth) fail("nested too deeply");
    blanks();
    switch (peek()) {
      case '{': return object(depth);
      case '[': return array(depth);
      case '"': return Json(quoted());
      case 't': return word("true", Json(true));
      case 'f': return word("false", Json(false));
      case 'n': return word("null", Json());
      default: return number();
    }
  }
  Json word(const char *name, Json value) {
    size_t length = std::strlen(name);
    if (text_.substr(at_, length) != name) fail("an unknown word");
    at_ += length;
    return value;
  }
  Json object(int depth) {
    Json value = Json::object();
    at_++;
    blanks();
    if (take('}')) return value;
    do {
      blanks();
      std::string name = quoted();
      blanks();
      if (!take(':')) fail("no colon");
      value.items_.push_back(read(depth + 1));
      value.names_.push_back(std::move(name));
      blanks();
    } while (take(','));
    if (!take('}')) fail("an object that does not end");
    std::vector<std::string_view> sorted(value.names_.begin(), value.names_.end());
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) fail("a name twice");
    return value;
  }
  Json array(int depth) {
    Json value = Json::array();
    at_++;
    blanks();
    if (take(']')) return value;
    do {
      value.items_.push_back(read(depth + 1));
      blanks();
    } while (take(','));
    if (!take(']')) fail("an array that does not end");
    return value;
  }
  bool digits() {
    size_t start = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') at_++;
    return at_ > start;
  }
  Json number() {
    size_t start = at_;
    bool whole = true;
    take('-');
    if (!take('0') && !digits()) fail("no value");
    if (take('.')) {
      whole = false;
      if (!digits()) fail("no digits behind the point");
    }
    if (take('e') || take('E')) {
      whole = false;
      if (!take('+')) take('-');
      if (!digits()) fail("no digits in the exponent");
    }
    std::string_view token = text_.substr(start, at_ - start);
    Json value;
    if (whole && token != "-0") {
      int64_t integer = 0;
      auto end = token.data() + token.size();
      if (std::from_chars(token.data(), end, integer).ec == std::errc()) return Json(integer);
    }
    value.kind_ = Json::Kind::number;
    value.text_ = std::string(token);
    return value;
  }
  uint32_t unit() {
    uint32_t sum = 0;
    for (int i = 0; i < 4; i++, at_++) {
      char c = peek();
      if (c >= '0' && c <= '9') sum = sum << 4 | static_cast<uint32_t>(c - '0');
      else if (c >= 'a' && c <= 'f') sum = sum << 4 | static_cast<uint32_t>(c - 'a' + 10);
      else if (c >= 'A' && c <= 'F') sum = sum << 4 | static_cast<uint32_t>(c - 'A' + 10);
      else fail("no hexadecimal digit");
    }
    return sum;
  }
  static void append(std::string &out, uint32_t scalar) {
    auto add = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
    if (scalar < 0x80) {
      add(scalar);
    } else if (scalar < 0x800) {
      add(0xC0 | scalar >> 6);
      add(0x80 | (scalar & 0x3F));
    } else if (scalar < 0x10000) {
      add(0xE0 | scalar >> 12);
      add(0x80 | (scalar >> 6 & 0x3F));
      add(0x80 | (scalar & 0x3F));
    } else {
      add(0xF0 | scalar >> 18);
      add(0x80 | (scalar >> 12 & 0x3F));
      add(0x80 | (scalar >> 6 & 0x3F));
      add(0x80 | (scalar & 0x3F));
    }
  }
  void escape(std::string &out) {
    char c = peek();
    at_++;
    switch (c) {
      case '"': case '\\': case '/': out.push_back(c); return;
      case 'n': out.push_back('\n'); return;
      case 't': out.push_back('\t'); return;
      case 'r': out.push_back('\r'); return;
      case 'b': out.push_back('\b'); return;
      case 'f': out.push_back('\f'); return;
      case 'u': break;
      default: fail("an unknown escape");
    }
    uint32_t first = unit();
    if (first >= 0xD800 && first < 0xDC00 && text_.substr(at_, 2) == "\\u") {
      size_t back = at_;
      at_ += 2;
      uint32_t second = unit();
      if (second >= 0xDC00 && second < 0xE000)
        first = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
      else
        at_ = back;
    }
    append(out, first);
  }
  std::string quoted() {
    if (!take('"')) fail("no text");
    std::string out;
    while (at_ < text_.size()) {
      unsigned char c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') {
        at_++;
        return out;
      }
      if (c == '\\') {
        at_++;
        escape(out);
        continue;
      }
      if (c < ' ') fail("a control character in a text");
      size_t length = detail::utf8_length(text_.substr(at_), false);
      if (length == 0) fail("a byte that is no UTF-8");
      out.append(text_.substr(at_, length));
      at_ += length;
    }
    fail("a text that does not end");
  }

  std::string_view text_;
  size_t at_ = 0;
};

inline Json Json::parse(std::string_view text) { return JsonReader(text).whole(); }

inline void Json::write_text(std::string &out, const std::string &text) {
  out.push_back('"');
  std::string_view rest = text;
  char escape[8];
  while (!rest.empty()) {
    unsigned char c = static_cast<unsigned char>(rest[0]);
    size_t length = detail::utf8_length(rest, true);
    if (length == 0) detail::raise(PDR_E_ENCODING, "a text of the plugin is no UTF-8", "utf8");
    bool lone = length == 3 && c == 0xED && static_cast<unsigned char>(rest[1]) > 0x9F;
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(rest[0]);
    } else if (c < ' ' || lone) {
      unsigned value = c;
      if (lone)
        value = 0xD000u | (static_cast<unsigned char>(rest[1]) & 0x3Fu) << 6 |
                (static_cast<unsigned char>(rest[2]) & 0x3Fu);
      std::snprintf(escape, sizeof escape, "\\u%04x", value & 0xFFFFu);
      out += escape;
    } else {
      out.append(rest.substr(0, length));
    }
    rest.remove_prefix(length);
  }
  out.push_back('"');
}

inline void Json::write(std::string &out) const {
  switch (kind_) {
    case Kind::null: out += "null"; return;
    case Kind::boolean: out += integer_ ? "true" : "false"; return;
    case Kind::integer: out += std::to_string(integer_); return;
    case Kind::number: out += text_; return;
    case Kind::text: write_text(out, text_); return;
    case Kind::array:
    case Kind::object: break;
  }
  bool named = kind_ == Kind::object;
  out.push_back(named ? '{' : '[');
  for (size_t i = 0; i < items_.size(); i++) {
    if (i) out.push_back(',');
    if (named) {
      write_text(out, names_[i]);
      out.push_back(':');
    }
    items_[i].write(out);
  }
  out.push_back(named ? '}' : ']');
}

/* ---------------------------------------------------------------- messages */

/// Bytes with a media type, copied out of the host's memory.
struct Value {
  std::string media_type;
  std::string bytes;

  /// The value as JSON; throws PDR_E_ENCODING if it is something else.
  Json json() const {
    if (!media_type.empty() && media_type != PDR_MEDIA_JSON)
      detail::raise(PDR_E_ENCODING, "a value is " + media_type + " and not JSON", "media_type");
    return bytes.empty() ? Json::object() : Json::parse(bytes);
  }
};

/// What a plugin sends: JSON, JSON with raw parts, or bytes with a media type of their own.
class Message {
 public:
  Message() : value_{PDR_MEDIA_JSON, "{}"} {}
  Message(const Json &json) : value_{PDR_MEDIA_JSON, json.dump()} {}
  /// JSON that another library wrote.
  static Message json_text(std::string text) { return raw(PDR_MEDIA_JSON, std::move(text)); }
  static Message raw(std::string media_type, std::string bytes) {
    Message message;
    message.value_ = {std::move(media_type), std::move(bytes)};
    return message;
  }
  /// JSON with bytes beside it: {"part": 1} in the JSON is the first of them.
  static Message with_parts(const Json &json, const std::vector<std::string> &parts) {
    std::vector<std::string> all = {json.dump()};
    all.insert(all.end(), parts.begin(), parts.end());
    std::string out = "PDRP";
    auto number = [&](uint64_t value, int bytes) {
      for (int i = 0; i < bytes; i++) out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
    };
    number(1, 4);
    number(all.size(), 4);
    number(0, 4);
    for (const auto &part : all) number(part.size(), 8);
    for (const auto &part : all) {
      out += part;
      out.resize((out.size() + 7) / 8 * 8);
    }
    return raw(PDR_MEDIA_PARTS, std::move(out));
  }

  /// What is sent; borrowed from this message.
  const Value &value() const { return value_; }

 private:
  Value value_;
};

/// What a handler answers with.
class Reply {
 public:
  /// An object of the completion that the target asks for, such as {"output": […]} or {"deny": …}.
  Reply(const Json &json) : value_(Message(json).value()) {}
  /// Text: the output of a tool, the text of a section.
  Reply(std::string text) : value_{PDR_MEDIA_TEXT, std::move(text)} {}
  Reply(const char *text) : value_{PDR_MEDIA_TEXT, text} {}
  Reply(const Message &message) : value_(message.value()) {}
  /// Nothing to add: {}.
  static Reply nothing() { return Reply(Json::object()); }
  /// The output that a tool emitted is its result.
  static Reply emitted() {
    Reply reply{Json::object()};
    reply.absent_ = true;
    return reply;
  }

  const Value &value() const { return value_; }
  bool is_absent() const { return absent_; }

 private:
  Value value_;
  bool absent_ = false;
};

/// A value, or the error in its place.
template <class T>
class Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : error_(std::move(error)) {}
  bool ok() const { return value_.has_value(); }
  /// The value; throws the error if there is one.
  T &get() {
    if (!value_) throw Error(*error_);
    return *value_;
  }
  /// The error; null if there is none.
  const Error *error() const { return error_ ? &*error_ : nullptr; }

 private:
  std::optional<T> value_;
  std::optional<Error> error_;
};

template <class T>
using Then = std::function<void(Result<T>)>;

/* ---------------------------------------------------------------- answers of hooks and tasks */

/// The completion of a guard that refuses; the reason is told to the model.
inline Json deny(std::string reason, std::string code = "") {
  Json deny = Json::object({{"reason", std::move(reason)}});
  if (!code.empty()) deny.set("code", std::move(code));
  return Json::object({{"deny", std::move(deny)}});
}

/// The completion of a guard of beforeTool that wants somebody to be asked. The call is over then;
/// the guard runs again when there is an answer.
inline Json ask(std::string key, std::string title, std::string body = "") {
  Json ask = Json::object({{"key", std::move(key)}, {"title", std::move(title)}});
  if (!body.empty()) ask.set("body", std::move(body));
  return Json::object({{"ask", std::move(ask)}});
}

/// The completion of a hook that has nothing to say.
inline Json pass() { return Json::object(); }

/// States of a task, for Commit::state: what is to happen when the phase is over.
/// The next phase is that of the checkpoint; the invocation goes on.
inline Json running(Json checkpoint) {
  return Json::object({{"status", "running"}, {"checkpoint", std::move(checkpoint)}});
}
/// The next phase begins at a time in milliseconds since 1970.
inline Json sleeping(Json checkpoint, int64_t until_ms) {
  return Json::object(
      {{"status", "sleeping"}, {"checkpoint", std::move(checkpoint)}, {"until", until_ms}});
}
/// Tasks are ids, or names of steps of the same commit.
inline Json waiting(Json checkpoint, std::vector<Json> on, std::string policy = "allSettled") {
  return Json::object({{"status", "waiting"},
                       {"checkpoint", std::move(checkpoint)},
                       {"on", Json::array(std::move(on))},
                       {"policy", std::move(policy)}});
}
/// The task is over, with any outcome.
inline Json ended(Json outcome) {
  return Json::object({{"status", "terminal"}, {"outcome", std::move(outcome)}});
}
/// The task is over, with a result.
inline Json completed(Json result) {
  return ended(Json::object({{"status", "completed"}, {"result", std::move(result)}}));
}
/// The task is over, because of this.
inline Json failed(std::string message) {
  Json error = Json::object({{"message", std::move(message)}});
  return ended(Json::object({{"status", "failed"}, {"error", std::move(error)}}));
}
/// The task is over, because somebody wanted that.
inline Json aborted() { return ended(Json::object({{"status", "aborted"}})); }

/// Whose document is meant; by default the one of the call's own conversation or task.
struct Place {
  Json of;
  std::optional<std::string> key;

  static Place session() { return {Json("session"), std::nullopt}; }
  static Place conversation(int64_t id) {
    return {Json::object({{"conversation", id}}), std::nullopt};
  }
  static Place task(int64_t id) { return {Json::object({{"task", id}}), std::nullopt}; }
  Place with_key(std::string name) const { return {of, std::move(name)}; }

  Json json(const std::string &kind) const {
    Json json = Json::object({{"kind", kind}});
    if (!of.is_null()) json.set("of", of);
    if (key) json.set("key", *key);
    return json;
  }
};

/// The steps of one commit, which all happen or none does.
class Commit {
 public:
  /// Adds any step, such as {"do": "entry.append", …}.
  Commit &step(Json step) {
    steps_.push(std::move(step));
    return *this;
  }
  /// Adds a step that creates something, and gives its name: the id to use inside this commit, and
  /// the key of the id among the "ids" of the result.
  std::string create(Json step) {
    std::string name = "s" + std::to_string(++created_);
    steps_.push(std::move(step.set("as", name)));
    return name;
  }
  /// Creates a task. The owner is "self", "conversation" or an id; more members go into options.
  std::string create_task(std::string type, Json input, Json owner = "self",
                          Json options = Json::object()) {
    Json step = Json::object({{"do", "task.create"},
                              {"type", std::move(type)},
                              {"input", std::move(input)},
                              {"owner", std::move(owner)}});
    for (size_t i = 0; i < options.size(); i++) step.set(options.names()[i], options.items()[i]);
    return create(std::move(step));
  }
  /// Creates a conversation. The owner is "self", an id or null.
  std::string create_conversation(Json owner = "self", Json agent = Json::object()) {
    return create(Json::object(
        {{"do", "conversation.create"}, {"owner", std::move(owner)}, {"agent", std::move(agent)}}));
  }
  /// Makes a document have this value.
  Commit &write(const std::string &kind, Json value, const Place &place = {}) {
    return step(document("doc", kind, place).set("value", std::move(value)));
  }
  /// Changes a document by operations; needs no read before it.
  Commit &apply(const std::string &kind, Json operations, const Place &place = {}) {
    return step(document("doc", kind, place).set("ops", std::move(operations)));
  }
  /// Puts items into an array of a document, in front of the item at index.
  Commit &insert(const std::string &kind, Json path, size_t index, std::vector<Json> items,
                 const Place &place = {}) {
    Json splice = Json::array({"p", std::move(path), index, 0, Json::array(std::move(items))});
    return apply(kind, Json::array(std::vector<Json>{std::move(splice)}), place);
  }
  /// Ends a document; the next step that names it begins a new one.
  Commit &retire(const std::string &kind, const Place &place = {}) {
    return step(document("doc.retire", kind, place));
  }
  /// What becomes of the task; of the functions above. In phases and abort handlers only.
  Commit &state(Json state) {
    state_ = std::move(state);
    return *this;
  }

  /// Whether there is neither a step nor a state.
  bool is_empty() const { return steps_.size() == 0 && state_.is_null(); }
  /// The commit as the input of the operation, or as the completion of a phase.
  Json json() const {
    Json json = Json::object();
    if (steps_.size() > 0) json.set("steps", steps_);
    if (!state_.is_null()) json.set("state", state_);
    return json;
  }
  /// The completion of a phase.
  operator Reply() const { return Reply(json()); }

 private:
  static Json document(const char *verb, const std::string &kind, const Place &place) {
    Json step = Json::object({{"do", verb}});
    Json address = place.json(kind);
    for (size_t i = 0; i < address.size(); i++)
      step.set(address.names()[i], std::move(address.items()[i]));
    return step;
  }

  Json steps_ = Json::array();
  Json state_;
  size_t created_ = 0;
};

/* ---------------------------------------------------------------- the border */

class Call;
class Plugin;

namespace detail {

/// What the handlers of one plugin share; made once for each mapping and never freed.
struct Core {
  const pdr_calls_1 *calls = nullptr;
  const pdr_invoke_1 *invoke = nullptr;
  std::map<std::string, std::function<void(Call &)>> handlers;
  std::set<std::string> raw;       // targets that the manifest need not name
  std::set<std::string> blocking;  // targets whose elements say so
  bool blocking_by_default = false;
  std::map<std::string, Json> initial;  // of documents, by kind
  std::function<void()> on_activate, on_destroy;
  std::function<void(pdr_id, uint64_t)> on_deactivate;
  std::mutex mutex;
  std::map<pdr_id, std::function<void(uint32_t)>> cancellations;
  Json settings = Json::object();
};

/// More than 0 on threads that must not wait.
inline int &waiting_is_forbidden() {
  static thread_local int depth = 0;
  return depth;
}
struct MustNotWait {
  explicit MustNotWait(bool here) : applies(here) { waiting_is_forbidden() += here; }
  ~MustNotWait() { waiting_is_forbidden() -= applies; }
  MustNotWait(const MustNotWait &) = delete;
  MustNotWait &operator=(const MustNotWait &) = delete;
  bool applies;
};

inline Error error_of(int32_t status, const pdr_err *err) {
  if (!err) return Error(status, "the host answers with the code " + std::to_string(status));
  Json detail;
  if (std::string_view text = view(err->detail); !text.empty()) {
    try {
      detail = Json::parse(text);
    } catch (const Error &) {
      detail = Json(std::string(text));
    }
  }
  return Error(status, std::string(view(err->message)), std::move(detail), err->flags);
}

/// The exception that is being handled, as an Error.
inline Error current_error() {
  try {
    throw;
  } catch (const Error &error) {
    return error;
  } catch (const std::exception &error) {
    return Error(PDR_E_INTERNAL, std::string("the plugin failed: ") + error.what());
  } catch (...) {
    return Error(PDR_E_INTERNAL, "the plugin threw something that is no std::exception", nullptr,
                 PDR_ERR_PLUGIN_BUG);
  }
}

/// Lends bytes to the host; long ones are handed over, so that the host need not copy them.
class Blob {
 public:
  explicit Blob(Value value) : value_(std::make_unique<Value>(std::move(value))) {
    blob_.size = sizeof blob_;
    blob_.ptr = reinterpret_cast<const uint8_t *>(value_->bytes.data());
    blob_.len = value_->bytes.size();
    blob_.media_type = borrow(value_->media_type);
    if (blob_.len < 65536) return;
    blob_.owner = value_.get();
    blob_.release = [](void *owner) { delete static_cast<Value *>(owner); };
  }
  /// To be given to exactly one function of the host.
  const pdr_blob *lend() {
    if (blob_.release) (void)value_.release();
    return &blob_;
  }

 private:
  std::unique_ptr<Value> value_;
  pdr_blob blob_{};
};

/// One call until it is answered.
struct CallState {
  CallState(Core &shared, const pdr_call &call)
      : core(shared),
        id(call.id),
        parent(call.parent),
        deadline_ns(call.deadline_ns),
        target(view(call.target)) {
    if (call.input && call.input->len != PDR_ABSENT)
      text.assign(reinterpret_cast<const char *>(call.input->ptr), call.input->len);
  }
  CallState(const CallState &) = delete;
  CallState &operator=(const CallState &) = delete;
  ~CallState() { fail_plainly("the plugin dropped the call without an answer"); }

  int32_t complete(int32_t status, const pdr_blob *value, const pdr_err *err) noexcept {
    if (answered.exchange(true)) {
      if (value && value->release) value->release(value->owner);
      return PDR_E_STALE;
    }
    int32_t code = core.calls->complete(core.calls->ctx, id, status, value, err);
    forget_cancellation();
    return code;
  }
  void forget_cancellation() noexcept {
    try {
      std::function<void(uint32_t)> last;
      std::lock_guard<std::mutex> lock(core.mutex);
      auto found = core.cancellations.find(id);
      if (found == core.cancellations.end()) return;
      // Ends behind the lock, because it may hold the last copy of a call.
      last = std::move(found->second);
      core.cancellations.erase(found);
    } catch (...) {
      // A lock that cannot be taken leaves a callback that nobody calls.
    }
  }
  int32_t fail(const Error &error) noexcept {
    try {
      std::string detail = error.detail.is_null() ? "" : error.detail.dump();
      pdr_err err{};
      err.size = sizeof err;
      err.code = error.code < 0 ? error.code : PDR_E_INTERNAL;
      err.flags = error.flags;
      err.message = borrow(error.message);
      err.detail = borrow(detail);
      if (detail.empty()) err.detail.len = PDR_ABSENT;
      return complete(err.code, nullptr, &err);
    } catch (...) {
      return fail_plainly("the plugin failed, and its error could not be sent");
    }
  }
  int32_t fail_plainly(const char *sentence) noexcept {
    pdr_err err{};
    err.size = sizeof err;
    err.code = PDR_E_INTERNAL;
    err.flags = PDR_ERR_PLUGIN_BUG;
    err.message = borrow(sentence);
    err.detail.len = PDR_ABSENT;
    return complete(err.code, nullptr, &err);
  }

  Core &core;
  const pdr_id id, parent;
  const uint64_t deadline_ns;
  const std::string target;
  std::string text;
  std::once_flag parsed;
  Json input;
  std::atomic<bool> answered{false};
};

/// One request until it is done.
struct Pending {
  std::shared_ptr<CallState> call;
  Then<Value> then;

  static void done(void *arg, pdr_id, int32_t status, const pdr_blob *value,
                   const pdr_err *err) noexcept {
    std::unique_ptr<Pending> pending(static_cast<Pending *>(arg));
    MustNotWait here(true);
    try {
      if (status < 0 || err) {
        pending->then(error_of(status, err));
        return;
      }
      Value copy;
      if (value) {
        copy.media_type = std::string(view(value->media_type));
        if (value->len != PDR_ABSENT)
          copy.bytes.assign(reinterpret_cast<const char *>(value->ptr), value->len);
      }
      pending->then(std::move(copy));
    } catch (...) {
      if (pending->call) pending->call->fail(current_error());
    }
  }
};

/// Starts an operation; throws if the host refuses it.
inline pdr_id begin(Core &core, std::shared_ptr<CallState> call, const std::string &op,
                    const Message &input, Then<Value> then) {
  if (!core.invoke)
    raise(PDR_E_UNSUPPORTED, "the host lacks the table perdure.invoke/1", "op");
  pdr_id within = call ? call->id : 0, request = 0;
  auto pending = std::make_unique<Pending>(Pending{std::move(call), std::move(then)});
  Blob blob(input.value());
  int32_t status = core.invoke->start(core.invoke->ctx, within, borrow(op), blob.lend(),
                                      &Pending::done, pending.get(), &request);
  if (status < 0) throw Error(status, "the host refuses the operation " + op);
  // Belongs to the host now, and may be gone already.
  (void)pending.release();
  return request;
}

inline void begin_one_way(Core &core, pdr_id within, const std::string &op,
                          const Message &input) {
  if (!core.invoke) return;
  Blob blob(input.value());
  (void)core.invoke->start(core.invoke->ctx, within, borrow(op), blob.lend(), nullptr, nullptr,
                           nullptr);
}

/// Starts an operation and waits for its end.
inline Value wait(Core &core, std::shared_ptr<CallState> call, const std::string &op,
                  const Message &input) {
  if (waiting_is_forbidden() > 0)
    raise(PDR_E_INVALID,
          op + " must not be waited for here: let the manifest say \"blocking\": true, or use the "
               "form with a continuation",
          "would_block");
  struct Meeting {
    std::mutex mutex;
    std::condition_variable news;
    std::optional<Result<Value>> result;
  };
  auto meeting = std::make_shared<Meeting>();
  begin(core, std::move(call), op, input, [meeting](Result<Value> result) {
    std::lock_guard<std::mutex> lock(meeting->mutex);
    meeting->result = std::move(result);
    meeting->news.notify_all();
  });
  std::unique_lock<std::mutex> lock(meeting->mutex);
  meeting->news.wait(lock, [&] { return meeting->result.has_value(); });
  return std::move(meeting->result->get());
}

template <class T, class F>
Then<Value> mapped(Then<T> then, F map) {
  return [then = std::move(then), map = std::move(map)](Result<Value> result) {
    if (!result.ok()) return then(*result.error());
    // What the continuation throws is not an error of the operation.
    std::optional<Result<T>> value;
    try {
      value.emplace(map(result.get().json()));
    } catch (const Error &error) {
      value.emplace(error);
    }
    then(std::move(*value));
  };
}

}  // namespace detail

/// A request that was started with a continuation. It belongs to its call and ends with it; letting
/// go of this object changes nothing. Any thread.
class Request {
 public:
  /// Asks the host to stop; the continuation still runs.
  void cancel() {
    if (core_->invoke) (void)core_->invoke->cancel(core_->invoke->ctx, id_);
  }

 private:
  friend class Call;
  friend class Plugin;
  Request(detail::Core &core, pdr_id id) : core_(&core), id_(id) {}
  detail::Core *core_;
  pdr_id id_;
};

/// Items that the host holds for a call; waits for them, and closes itself. One thread at a time.
class Stream {
 public:
  Stream(Stream &&other) noexcept
      : core_(other.core_),
        call_(std::move(other.call_)),
        handle_(std::move(other.handle_)),
        items_(std::move(other.items_)),
        next_(other.next_),
        end_(std::move(other.end_)) {
    other.handle_.clear();
  }
  Stream &operator=(Stream &&) = delete;
  ~Stream() {
    if (handle_.empty() || end_) return;
    try {
      detail::begin(*core_, call_, "stream.close", Json::object({{"stream", handle_}}),
                    [](Result<Value>) {});
    } catch (...) {
      // The stream ends with its call anyway.
    }
  }
  /// The next item, or nothing at the end; throws the error with which the stream ended.
  std::optional<Json> next() {
    while (next_ == items_.size()) {
      if (end_) {
        if (const Json *error = end_->find("error"))
          throw Error(static_cast<int32_t>((*error)["code"].integer_or(PDR_E_INTERNAL)),
                      (*error)["message"].text_or("the stream ended with an error"),
                      (*error)["detail"]);
        return std::nullopt;
      }
      Json batch = detail::wait(*core_, call_, "stream.next", Json::object({{"stream", handle_}}))
                       .json();
      items_ = batch["items"].items();
      next_ = 0;
      if (const Json *end = batch.find("end")) end_ = *end;
    }
    return std::move(items_[next_++]);
  }
  /// What the stream ended with, after the last item.
  const Json &end() const {
    if (!end_) detail::raise(PDR_E_INVALID, "the stream has not ended yet", "shape");
    return *end_;
  }

 private:
  friend class Call;
  Stream(detail::Core &core, std::shared_ptr<detail::CallState> call, std::string handle)
      : core_(&core), call_(std::move(call)), handle_(std::move(handle)) {}
  detail::Core *core_;
  std::shared_ptr<detail::CallState> call_;
  std::string handle_;
  std::vector<Json> items_;
  size_t next_ = 0;
  std::optional<Json> end_;
};

class Tx;

/// One call of the host. Copies are the same call; any thread may use them. The last copy that goes
/// answers with an error if nobody did.
class Call {
 public:
  /// The number of the call, which the host uses for no other one.
  pdr_id id() const { return state_->id; }
  /// Such as "tool:grep".
  const std::string &target() const { return state_->target; }
  /// The input as the host sent it, for other JSON libraries.
  const std::string &input_text() const { return state_->text; }
  /// The input; throws PDR_E_ENCODING if it is no JSON.
  const Json &input() const {
    std::call_once(state_->parsed, [this] { state_->input = Json::parse(state_->text); });
    return state_->input;
  }
  /// Where the call is: its conversation, task and time.
  const Json &context() const { return input()["ctx"]; }
  /// The arguments of a tool, which the host has checked against its schema.
  const Json &arguments() const { return input()["arguments"]; }
  /// An argument of a tool, or a JSON null.
  const Json &argument(std::string_view name) const { return arguments()[name]; }
  /// The record of the task, in phases and abort handlers.
  const Json &task() const { return input()["task"]; }
  /// What the task keeps between its phases.
  const Json &checkpoint() const { return task()["state"]["checkpoint"]; }

  /// When the call will be cancelled; the steady clock of Linux is the host's.
  std::optional<std::chrono::steady_clock::time_point> deadline() const {
    if (state_->deadline_ns == 0) return std::nullopt;
    return std::chrono::steady_clock::time_point(std::chrono::duration_cast<
        std::chrono::steady_clock::duration>(std::chrono::nanoseconds(state_->deadline_ns)));
  }
  /// Why the call is cancelled (PDR_CANCEL_), 0 if it is not. Cheap enough for loops.
  uint32_t cancelled() const {
    return core().calls->cancelled(core().calls->ctx, state_->id);
  }
  /// Has this called once when the call is cancelled, on a thread of the host; it must not block.
  /// The call still wants its answer. Replaces an earlier one; goes when the call is answered, and a
  /// copy of the Call inside it keeps the call from being dropped until then.
  void on_cancel(std::function<void(uint32_t reason)> then) {
    {
      std::lock_guard<std::mutex> lock(core().mutex);
      core().cancellations[state_->id] = std::move(then);
    }
    int32_t code = core().calls->on_cancel(
        core().calls->ctx, state_->id,
        [](void *arg, pdr_id call, uint32_t reason) noexcept {
          auto &core = *static_cast<detail::Core *>(arg);
          detail::MustNotWait here(true);
          try {
            std::function<void(uint32_t)> last;
            {
              std::lock_guard<std::mutex> lock(core.mutex);
              auto found = core.cancellations.find(call);
              if (found == core.cancellations.end()) return;
              last = std::move(found->second);
              core.cancellations.erase(found);
            }
            if (last) last(reason);
          } catch (...) {
            // A cancellation has no receiver for errors; the call's own answer tells.
          }
        },
        &core());
    if (code < 0 || state_->answered) state_->forget_cancellation();
  }

  /* Answers: exactly one counts. PDR_OK, or the code with which the host refused it. */

  /// Answers the call, if nobody did. Any thread.
  int32_t answer(const Reply &reply) {
    if (reply.is_absent()) return state_->complete(PDR_OK, nullptr, nullptr);
    detail::Blob blob(reply.value());
    return state_->complete(PDR_OK, blob.lend(), nullptr);
  }
  /// Fails the call, if nobody answered it. Any thread.
  int32_t fail(const Error &error) { return state_->fail(error); }

  /* Output of tools and their wraps, in the order of the calls of these functions. They wait for
   * credit where waiting is allowed, and throw PDR_E_WOULD_BLOCK elsewhere. */

  /// Sends text of any length.
  void output(std::string_view text) {
    constexpr size_t most = 65536;
    while (text.size() > most) {
      size_t end = most;
      while (end > most - 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) end--;
      frame(PDR_MEDIA_TEXT, std::string(text.substr(0, end)));
      text.remove_prefix(end);
    }
    if (!text.empty()) frame(PDR_MEDIA_TEXT, std::string(text));
  }
  /// Sends bytes of any length, which the host decodes.
  void output_bytes(std::string_view bytes) {
    constexpr size_t most = 65536;
    for (size_t at = 0; at < bytes.size(); at += most)
      frame(PDR_MEDIA_BYTES, std::string(bytes.substr(at, most)));
  }
  /// Says what the call's details are by now; null removes them.
  void details(const Json &value) { frame(Json::object({{"details", value}})); }
  /// The severity is "info", "warn" or "error".
  void diagnostic(std::string severity, std::string message, std::string code = "") {
    Json diagnostic = Json::object({{"severity", severity}, {"message", message}});
    if (!code.empty()) diagnostic.set("code", code);
    frame(Json::object({{"diagnostic", std::move(diagnostic)}}));
  }
  /// How many bytes of output the host would take now.
  uint64_t credit() const {
    uint64_t bytes = 0;
    (void)core().calls->credit(core().calls->ctx, state_->id, &bytes);
    return bytes;
  }

  /* Operations. Each throws what the host answers as an Error, or hands it to the continuation. */

  /// Any operation, with any result.
  Value request(const std::string &op, const Message &input = {}) {
    return detail::wait(core(), state_, op, input);
  }
  /// The same without waiting. Throws, and never runs the continuation, if the host refuses it.
  Request request(const std::string &op, const Message &input, Then<Value> then) {
    return Request(core(), detail::begin(core(), state_, op, input, std::move(then)));
  }
  /// Any operation with a JSON result.
  Json invoke(const std::string &op, const Message &input = {}) {
    return request(op, input).json();
  }
  /// The same without waiting.
  Request invoke(const std::string &op, const Message &input, Then<Json> then) {
    return request(op, input, detail::mapped<Json>(std::move(then), [](Json json) { return json; }));
  }
  /// Any operation that gives a stream.
  Stream stream(const std::string &op, const Message &input = {}) {
    return Stream(core(), state_, invoke(op, input)["stream"].text());
  }

  /// A line in the host's log; the level is "debug", "info", "warn" or "error". Never waits or throws.
  void log(const std::string &level, const std::string &message) noexcept {
    try {
      detail::begin_one_way(core(), state_->id, "log",
                            Json::object({{"level", level}, {"message", message}}));
    } catch (...) {
      // Nothing depends on a line of a log.
    }
  }
  /// Milliseconds since 1970 on the host's clock.
  int64_t now() { return invoke("clock")["now"].integer(); }
  /// Waits on the host's clock; ends early with PDR_E_CANCELLED.
  void wait(int64_t ms) { (void)invoke("timer.wait", Json::object({{"ms", ms}})); }
  /// The same without waiting.
  Request wait(int64_t ms, Then<Json> then) {
    return invoke("timer.wait", Json::object({{"ms", ms}}), std::move(then));
  }
  /// The settings of the run.
  Json run_settings() { return invoke("settings.get", Json::object({{"scope", "run"}}))["settings"]; }
  /// A secret that the manifest asks for, by its name there.
  std::string secret(const std::string &name) {
    return request("secret.get", Json::object({{"name", name}})).bytes;
  }
  /// Comes back when everything staged before the call began is on disk.
  void barrier() { (void)invoke("barrier"); }
  /// Comes back when everything emitted so far is committed.
  void flush() { (void)invoke("output.flush"); }

  /// What the task remembers under this name; nothing if it remembers nothing.
  std::optional<Json> memo(const std::string &name) {
    return optional(invoke("memo", Json::object({{"name", name}})), "value");
  }
  /// What the task remembers under this name, which is the candidate unless there was one before.
  Json memo(const std::string &name, const Json &candidate) {
    return invoke("memo", Json::object({{"name", name}, {"candidate", candidate}}))["value"];
  }
  /// The same without waiting.
  Request memo(const std::string &name, const Json &candidate, Then<Json> then) {
    return request("memo", Json::object({{"name", name}, {"candidate", candidate}}),
                   detail::mapped<Json>(std::move(then), [](Json json) { return json["value"]; }));
  }
  /// The value of a document; nothing if it does not exist, which this does not change.
  std::optional<Json> document(const std::string &kind, const Place &place = {}) {
    return optional(invoke("document.get", place.json(kind)), "value");
  }
  /// The same without waiting.
  Request document(const std::string &kind, const Place &place, Then<std::optional<Json>> then) {
    return request("document.get", place.json(kind),
                   detail::mapped<std::optional<Json>>(
                       std::move(then), [](Json json) { return optional(json, "value"); }));
  }
  /// Runs all steps and the state, or nothing: {"ids": {name: id}, …}.
  Json commit(const Commit &commit) { return invoke("commit", with_steps(commit.json())); }
  /// The same without waiting.
  Request commit(const Commit &commit, Then<Json> then) {
    return invoke("commit", with_steps(commit.json()), std::move(then));
  }
  /// Runs the function with reads that are checked when its steps are committed. If something it read
  /// has changed by then, it runs again, up to five times in all; it must have no other effect.
  /// Blocking form only.
  template <class F>
  Json transaction(F &&body);

  /// In wraps: runs what is wrapped, with these arguments or the ones of the call.
  Json next() { return invoke("next"); }
  /// The same with other arguments, which the host checks against the tool's schema.
  Json next(const Json &arguments) { return invoke("next", Json::object({{"arguments", arguments}})); }
  /// The same without waiting; no arguments are those of the call.
  Request next(const std::optional<Json> &arguments, Then<Json> then) {
    Json input = Json::object();
    if (arguments) input.set("arguments", *arguments);
    return invoke("next", input, std::move(then));
  }
  /// Calls another tool and waits for its result.
  Json call_tool(const std::string &name, const Json &arguments, const std::string &key = "") {
    Json input = Json::object({{"name", name}, {"arguments", arguments}});
    if (!key.empty()) input.set("key", key);
    return invoke("tool.call", input);
  }
  /// Waits for a task and gives its last record.
  Json wait_for_task(int64_t task) { return invoke("task.wait", Json::object({{"task", task}})); }
  /// The same without waiting.
  Request wait_for_task(int64_t task, Then<Json> then) {
    return invoke("task.wait", Json::object({{"task", task}}), std::move(then));
  }
  /// Submits to a conversation and gives {"submission": id, "status": …}.
  Json submit(int64_t conversation, const std::string &content, const std::string &request_id = "") {
    Json input = Json::object({{"conversation", conversation}, {"content", content}});
    if (!request_id.empty()) input.set("requestId", request_id);
    return invoke("conversation.submit", input);
  }
  /// Waits for a submission and gives its record.
  Json wait_for_submission(int64_t submission) {
    return invoke("submission.wait", Json::object({{"submission", submission}}));
  }

 private:
  friend class Plugin;
  friend class Tx;
  explicit Call(std::shared_ptr<detail::CallState> state) : state_(std::move(state)) {}

  detail::Core &core() const { return state_->core; }

  static std::optional<Json> optional(const Json &json, const char *name) {
    const Json *value = json.find(name);
    return value ? std::optional<Json>(*value) : std::nullopt;
  }
  static Json with_steps(Json json) {
    if (!json.find("steps")) json.set("steps", Json::array());
    return json;
  }
  void frame(const Json &json) { frame(PDR_MEDIA_JSON, json.dump()); }
  void frame(const char *media_type, std::string bytes) {
    for (;;) {
      detail::Blob blob(Value{media_type, bytes});
      int32_t code = core().calls->emit(core().calls->ctx, state_->id, blob.lend());
      if (code == PDR_OK) return;
      if (code != PDR_E_WOULD_BLOCK || detail::waiting_is_forbidden() > 0)
        throw Error(code, code == PDR_E_WOULD_BLOCK ? "the host has no room for output now"
                                                    : "the host refuses a frame of output");
      flush();
    }
  }

  std::shared_ptr<detail::CallState> state_;
};

/// One run of the body of a transaction: first reads, then steps. Valid inside the body only.
class Tx : public Commit {
 public:
  /// Any read that takes a transaction, such as "tasks.scan". After the first step it throws
  /// PDR_E_INVALID, read_after_write.
  Json read(const std::string &op, Json input = Json::object()) {
    if (!is_empty())
      detail::raise(PDR_E_INVALID, op + " comes behind a step of its transaction; read first",
                    "read_after_write");
    return call_.invoke(op, input.set("tx", handle_));
  }
  /// The call's own task as it was when the transaction began.
  const Json &task() const { return task_; }
  /// The tasks of this type that the call's own task owns, at most 256. It may own others, too: one
  /// for each approval that somebody was asked for.
  std::vector<Json> own_tasks(const std::string &type) {
    Json filter = Json::object({{"owner", "self"}, {"kind", type}, {"limit", 256}});
    return read("tasks.scan", std::move(filter))["items"].items();
  }
  /// The value of a document; nothing if it does not exist.
  std::optional<Json> document(const std::string &kind, const Place &place = {}) {
    return Call::optional(read("document.get", place.json(kind)), "value");
  }
  /// The value of a document to change in place; it is written with the steps if it changed. One that
  /// does not exist begins as the manifest says. Borrowed until the body ends.
  Json &draft(const std::string &kind, const Place &place = {}) {
    std::string address = place.json(kind).dump();
    for (auto &draft : drafts_)
      if (draft.address == address) return draft.value;
    Json value;
    if (auto stored = document(kind, place)) {
      value = *stored;
    } else if (auto found = call_.core().initial.find(kind); found != call_.core().initial.end()) {
      value = found->second;
    } else {
      value = Json::object();
    }
    drafts_.push_back({kind, place, address, value, value});
    return drafts_.back().value;
  }

 private:
  friend class Call;
  struct Draft {
    std::string kind;
    Place place;
    std::string address;
    Json before, value;
  };
  Tx(Call &call, const Json &begun)
      : call_(call), handle_(begun["tx"].text()), task_(begun["task"]) {}

  Json finished() {
    for (auto &draft : drafts_)
      if (draft.value != draft.before) write(draft.kind, draft.value, draft.place);
    Json input = Call::with_steps(json());
    return input.set("tx", handle_);
  }

  Call &call_;
  std::string handle_;
  Json task_;
  std::list<Draft> drafts_;
};

template <class F>
Json Call::transaction(F &&body) {
  for (int attempt = 1;; attempt++) {
    Tx tx(*this, invoke("tx.begin"));
    try {
      body(tx);
    } catch (...) {
      // The body may have failed because the transaction is over.
      try {
        detail::begin(core(), state_, "tx.abort", Json::object({{"tx", tx.handle_}}),
                      [](Result<Value>) {});
      } catch (...) {
        // The transaction ends with its call anyway.
      }
      throw;
    }
    try {
      return invoke("commit", tx.finished());
    } catch (const Error &error) {
      if (error.code != PDR_E_STALE || error.reason() != "conflict" || attempt == 5) throw;
    }
  }
}

/* ---------------------------------------------------------------- the plugin */

/// Told to a plugin that is to stop; answer with stopped() when no thread of its own is left.
class Stop {
 public:
  /// When the host goes on without an answer; CLOCK_MONOTONIC.
  uint64_t deadline_ns() const { return deadline_ns_; }
  /// Any thread, once.
  /// Says that the plugin has stopped. Never waits or fails.
  void stopped() const {
    detail::begin_one_way(*core_, 0, "lifecycle.stopped",
                          Json::object({{"ticket", std::to_string(ticket_)}}));
  }

 private:
  friend class Plugin;
  Stop(detail::Core &core, pdr_id ticket, uint64_t deadline_ns)
      : core_(&core), ticket_(ticket), deadline_ns_(deadline_ns) {}
  detail::Core *core_;
  pdr_id ticket_;
  uint64_t deadline_ns_;
};

/// What a plugin does: handlers for the elements of its manifest. A handler takes a Call &; it
/// returns something that makes a Reply, or void and answers later. The manifest and the handlers
/// are compared when the plugin is loaded; one without the other refuses it.
class Plugin {
 public:
  /// A tool. It answers with a text or an object with "output", "details" and the rest, or with
  /// Reply::emitted().
  template <class F> Plugin &tool(const std::string &name, F f) { return on("tool:" + name, f); }
  /// Makes arguments out of what a model wrote: {"arguments": …}.
  template <class F> Plugin &prepare(const std::string &tool, F f) {
    return on("tool.prepare:" + tool, f);
  }
  /// A section of the prompt. It answers with a text, or with Reply::nothing() to be left out.
  template <class F> Plugin &section(const std::string &key, F f) { return on("section:" + key, f); }
  /// A hook. It answers with pass(), deny(), ask() or a change; a guard that fails denies.
  template <class F> Plugin &hook(const std::string &point, F f) { return on("hook:" + point, f); }
  /// A wrap of a tool, which answers as the tool would; Call::next runs what is wrapped.
  template <class F> Plugin &wrap_tool(const std::string &name, F f) {
    return on("wrap:tool:" + name, f);
  }
  /// A wrap of a section, which answers as the section would.
  template <class F> Plugin &wrap_section(const std::string &key, F f) {
    return on("wrap:section:" + key, f);
  }

  /// The handlers of one version of a task type.
  class Task {
   public:
    /// One phase; it answers with a Commit that has a state, or with {} after having committed one.
    template <class F> Task &phase(const std::string &name, F f) {
      return add("task:" + type_ + "@" + version_ + "/" + name, f);
    }
    /// What is to happen when the task is aborted; without one it simply ends as aborted.
    template <class F> Task &abort(F f) { return add("task.abort:" + type_ + "@" + version_, f); }
    /// The first checkpoint, if the manifest says "call": {"checkpoint": …}. No operations.
    template <class F> Task &initial(F f) { return add("task.initial:" + type_, f); }
    /// Makes the input and checkpoint of this version out of older ones. No operations.
    template <class F> Task &migrate(F f) { return add("task.migrate:" + type_, f); }

   private:
    friend class Plugin;
    Task(Plugin &plugin, std::string type, int version)
        : plugin_(plugin), type_(std::move(type)), version_(std::to_string(version)) {}
    template <class F> Task &add(const std::string &target, F &f) {
      plugin_.on(target, f);
      return *this;
    }
    Plugin &plugin_;
    std::string type_, version_;
  };
  /// Names the handlers of a task type; a version is the manifest's.
  Task task(const std::string &type, int version) { return Task(*this, type, version); }

  /// Makes the value of this version out of an older one: {"value": …}. No operations.
  template <class F> Plugin &migrate_document(const std::string &kind, F f) {
    return on("document.migrate:" + kind, f);
  }
  /// Throws to refuse settings. Without it all that fit the schema are taken.
  template <class F> Plugin &on_settings(F f) { return raw("settings.changed", f); }
  /// Gives the state that an upgrade hands to the next version: {"version": …, "state": …}.
  template <class F> Plugin &snapshot(F f) { return on("snapshot", f); }
  /// Takes the state of another version; throws to refuse the upgrade.
  template <class F> Plugin &restore(F f) { return on("restore", f); }
  /// Says whether the plugin works: {"checks": […]}. Without it there are no checks.
  template <class F> Plugin &self_test(F f) { return raw("selftest", f); }
  /// Says how well one of the manifest's "health" is: {"status": "ok"}.
  template <class F> Plugin &health(F f) { return on("health", f); }
  /// Any target, also one that is registered while the plugin runs.
  template <class F> Plugin &raw(const std::string &target, F f) {
    core_.raw.insert(target);
    return on(target, f);
  }

  /// Makes the plugin ready; may take 10 s, and throws to refuse. On a thread of the host.
  Plugin &on_activate(std::function<void()> f) { return core_.on_activate = std::move(f), *this; }
  /// Must not block; join threads elsewhere and call stopped() then.
  Plugin &on_deactivate(std::function<void(Stop)> f) {
    core_.on_deactivate = [this, f = std::move(f)](pdr_id ticket, uint64_t deadline_ns) {
      f(Stop(core_, ticket, deadline_ns));
    };
    return *this;
  }
  /// The last thing that runs; the host answers nothing any more.
  Plugin &on_destroy(std::function<void()> f) { return core_.on_destroy = std::move(f), *this; }

  /// The settings that the host told last.
  Json settings() const {
    std::lock_guard<std::mutex> lock(core_.mutex);
    return core_.settings;
  }
  /// An operation outside any call.
  Json invoke(const std::string &op, const Message &input = {}) {
    return detail::wait(core_, nullptr, op, input).json();
  }
  Request invoke(const std::string &op, const Message &input, Then<Json> then) {
    return Request(core_, detail::begin(core_, nullptr, op, input,
                                        detail::mapped<Json>(std::move(then),
                                                             [](Json json) { return json; })));
  }
  /// A line in the host's log, outside any call. Never waits or throws.
  void log(const std::string &level, const std::string &message) noexcept {
    try {
      detail::begin_one_way(core_, 0, "log",
                            Json::object({{"level", level}, {"message", message}}));
    } catch (...) {
      // Nothing depends on a line of a log.
    }
  }

  Plugin(const Plugin &) = delete;
  Plugin &operator=(const Plugin &) = delete;

  /// What PERDURE_PLUGIN makes of perdure_plugin_1.
  static int32_t enter(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err,
                       void (*setup)(Plugin &), std::string_view manifest) noexcept {
    try {
      if (!host || !host->query || !out || out->size < sizeof *out)
        return refuse(err, PDR_E_UNSUPPORTED, "the host is older than this plugin");
      std::unique_ptr<Plugin> plugin(new Plugin);
      int32_t status = plugin->connect(*host, err);
      if (status != PDR_OK) return status;
      setup(*plugin);
      plugin->compare(Json::parse(manifest));
      // Never freed: threads of the host may use it for as long as the process lives.
      plugin.release()->fill(*out);
      return PDR_OK;
    } catch (...) {
      return refuse(err);
    }
  }

 private:
  Plugin() = default;

  template <class F>
  Plugin &on(const std::string &target, F f) {
    using Answer = std::invoke_result_t<F &, Call &>;
    auto handler = std::make_shared<F>(std::move(f));
    if (!core_.handlers
             .emplace(target,
                      [handler](Call &call) {
                        if constexpr (std::is_void_v<Answer>)
                          (*handler)(call);
                        else
                          call.answer(Reply((*handler)(call)));
                      })
             .second)
      detail::raise(PDR_E_INVALID, "the plugin has two handlers for " + target, "shape");
    return *this;
  }

  int32_t connect(const pdr_host &host, pdr_errbuf *err) {
    core_.calls = static_cast<const pdr_calls_1 *>(
        host.query(host.ctx, detail::borrow(PDR_CALLS_1), sizeof(pdr_calls_1)));
    core_.invoke = static_cast<const pdr_invoke_1 *>(
        host.query(host.ctx, detail::borrow(PDR_INVOKE_1), sizeof(pdr_invoke_1)));
    if (core_.calls) return PDR_OK;
    return refuse(err, PDR_E_UNSUPPORTED, "the host lacks the table perdure.calls/1");
  }

  /// Throws if the manifest and the handlers do not fit each other.
  void compare(const Json &manifest) {
    core_.blocking_by_default = manifest["execution"]["blocking"].boolean_or(false);
    std::set<std::string> named;
    auto expect = [&](const std::string &target, const Json &element) {
      named.insert(target);
      if (!core_.handlers.count(target))
        detail::raise(PDR_E_INVALID, "the manifest names " + target + ", which has no handler",
                      "shape");
      if (element["blocking"].boolean_or(core_.blocking_by_default)) core_.blocking.insert(target);
    };
    for (const Json &tool : manifest["tools"].items()) {
      expect("tool:" + tool["name"].text(), tool);
      if (tool["prepare"].boolean_or(false)) expect("tool.prepare:" + tool["name"].text(), tool);
    }
    for (const Json &section : manifest["sections"].items())
      if (!section.find("text")) expect("section:" + section["key"].text(), section);
    for (const Json &hook : manifest["hooks"].items()) expect("hook:" + hook["point"].text(), hook);
    for (const Json &wrap : manifest["wraps"].items()) {
      const Json *tool = wrap.find("tool");
      expect(tool ? "wrap:tool:" + tool->text() : "wrap:section:" + wrap["section"].text(), wrap);
    }
    for (const Json &task : manifest["tasks"].items()) {
      std::string type = task["type"].text();
      std::string versioned = type + "@" + std::to_string(task["version"].integer());
      for (const Json &phase : task["phases"].items())
        expect("task:" + versioned + "/" + phase.text(), task);
      core_.handlers.emplace("task.abort:" + versioned, [](Call &call) {
        call.answer(Reply(Commit().state(aborted())));
      });
      expect("task.abort:" + versioned, task);
      if (task["initial"].is_text()) expect("task.initial:" + type, task);
      if (task["migrates"].size() > 0) expect("task.migrate:" + type, task);
    }
    for (const Json &document : manifest["documents"].items()) {
      std::string kind = document["kind"].text();
      const Json *initial = document.find("initial");
      core_.initial[kind] = initial ? *initial : Json::object();
      if (document["migrates"].size() > 0) expect("document.migrate:" + kind, document);
    }
    if (manifest["health"].size() > 0) expect("health", Json());
    if (manifest.find("state")) {
      expect("snapshot", Json());
      expect("restore", Json());
    }
    std::string unknown;
    for (const auto &handler : core_.handlers)
      if (!named.count(handler.first) && !core_.raw.count(handler.first))
        unknown += (unknown.empty() ? "" : ", ") + handler.first;
    if (!unknown.empty())
      detail::raise(PDR_E_INVALID, "the manifest does not name " + unknown, "shape");
    core_.handlers.emplace("settings.changed",
                           [](Call &call) { call.answer(Reply::nothing()); });
    core_.handlers.emplace("selftest", [](Call &call) {
      call.answer(Json::object({{"checks", Json::array()}}));
    });
  }

  void fill(pdr_plugin &out) {
    out.state = this;
    out.start = [](void *state, const pdr_call *call) noexcept {
      return static_cast<Plugin *>(state)->start(call);
    };
    out.activate = [](void *state, pdr_errbuf *err) noexcept -> int32_t {
      auto &core = static_cast<Plugin *>(state)->core_;
      try {
        if (core.on_activate) core.on_activate();
        return PDR_OK;
      } catch (...) {
        return refuse(err);
      }
    };
    if (core_.on_deactivate)
      out.deactivate = [](void *state, pdr_id ticket, uint64_t deadline_ns) noexcept -> int32_t {
        detail::MustNotWait here(true);
        try {
          static_cast<Plugin *>(state)->core_.on_deactivate(ticket, deadline_ns);
          return PDR_OK;
        } catch (...) {
          return PDR_E_INTERNAL;
        }
      };
    out.destroy = [](void *state) noexcept {
      auto &core = static_cast<Plugin *>(state)->core_;
      try {
        if (core.on_destroy) core.on_destroy();
      } catch (...) {
        // Nobody is left to be told.
      }
    };
  }

  int32_t start(const pdr_call *given) noexcept {
    if (!given || given->size < sizeof *given || (given->flags & PDR_MUST_UNDERSTAND))
      return PDR_E_UNSUPPORTED;
    std::optional<Call> call;
    try {
      auto handler = core_.handlers.find(std::string(detail::view(given->target)));
      if (handler == core_.handlers.end()) return PDR_E_UNSUPPORTED;
      call.emplace(Call(std::make_shared<detail::CallState>(core_, *given)));
      bool may_wait = core_.blocking.count(handler->first) > 0 ||
                      (core_.blocking_by_default && core_.raw.count(handler->first) > 0);
      detail::MustNotWait here(!may_wait);
      if (handler->first == "settings.changed") remember(call->input()["settings"]);
      handler->second(*call);
    } catch (...) {
      // Nothing was accepted yet: the host tries again.
      if (!call) return PDR_E_BUSY;
      fail(*call);
    }
    return PDR_OK;
  }

  static void fail(Call &call) noexcept {
    try {
      call.fail(detail::current_error());
    } catch (...) {
      call.state_->fail_plainly("the plugin has no memory left for its error");
    }
  }

  void remember(const Json &settings) {
    std::lock_guard<std::mutex> lock(core_.mutex);
    core_.settings = settings;
  }

  static int32_t refuse(pdr_errbuf *err, int32_t code, std::string_view sentence) noexcept {
    if (!err) return code;
    err->code = code;
    err->len = err->buf ? std::min(err->cap, sentence.size()) : 0;
    if (err->len) std::memcpy(err->buf, sentence.data(), err->len);
    return code;
  }
  /// Refuses with the exception that is being handled.
  static int32_t refuse(pdr_errbuf *err) noexcept {
    try {
      Error error = detail::current_error();
      return refuse(err, error.code < 0 ? error.code : PDR_E_INTERNAL, error.message);
    } catch (...) {
      return refuse(err, PDR_E_INTERNAL, "the plugin has no memory left");
    }
  }

  mutable detail::Core core_;
};

}  // namespace perdure

/// Makes the plugin: its note, its manifest and its entry, once, at file scope. The manifest is a
/// string literal; the compiler checks that it is JSON. setup is void (perdure::Plugin &): it names
/// the handlers, starts no thread and calls nothing of the host.
#define PERDURE_PLUGIN(manifest_json, setup)                                                  \
  static_assert(::perdure::detail::Shape::of(manifest_json), "the manifest is not JSON");     \
  PDR_PLUGIN_NOTE("c++");                                                                     \
  PDR_MANIFEST(manifest_json);                                                                \
  extern "C" PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out,       \
                                                 pdr_errbuf *err) {                           \
    return ::perdure::Plugin::enter(host, out, err, setup,                                    \
                                    {pdr_manifest_, sizeof pdr_manifest_ - 1});               \
  }                                                                                           \
  static_assert(true, "")

#endif
#endif
