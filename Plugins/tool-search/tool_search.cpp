// Lets a model find tools that are not offered yet: ranks the deferred tools of the conversation by
// a query, as search engines do (Okapi BM25), and adds the best to those that are offered.
#include <cmath>
#include <cstdio>

#include "perdure.hpp"

using namespace perdure;

namespace {

constexpr double saturation = 1.2;
constexpr double length_weight = 0.75;
constexpr int deepest_schema = 32;
constexpr double most_tools = 1000;

using Counts = std::map<std::string, int>;

bool is_lower(unsigned char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(unsigned char c) { return c >= 'A' && c <= 'Z'; }
bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }

bool ends_with(const std::string &text, const char *ending) {
  size_t size = std::strlen(ending);
  return text.size() >= size && text.compare(text.size() - size, size, ending) == 0;
}

/// The singular of a word in English, as far as its ending tells.
std::string singular(std::string word) {
  if (word.size() > 4 && ends_with(word, "ies")) return word.substr(0, word.size() - 3) + "y";
  for (const char *ending : {"ches", "shes", "sses", "xes", "zes"})
    if (word.size() > 4 && ends_with(word, ending)) return word.substr(0, word.size() - 2);
  if (word.size() > 3 && ends_with(word, "s") && !ends_with(word, "ss")) word.pop_back();
  return word;
}

bool is_stop_word(const std::string &word) {
  static const std::set<std::string> words = {
      "a",  "an", "and", "are", "as", "at", "be", "by",   "for", "from", "in",  "is",
      "it", "of", "on",  "or",  "that", "the", "this", "to", "with"};
  return words.count(word) > 0;
}

/// The words of a text in lower case and singular, names in camel case taken apart.
std::vector<std::string> terms_of(const std::string &text) {
  std::vector<std::string> terms;
  std::string word;
  auto finish = [&] {
    if (!word.empty() && !is_stop_word(word)) terms.push_back(singular(word));
    word.clear();
  };
  for (size_t i = 0; i < text.size(); i++) {
    auto c = static_cast<unsigned char>(text[i]);
    if (!is_lower(c) && !is_upper(c) && !is_digit(c)) {
      finish();
      continue;
    }
    if (i > 0 && is_upper(c)) {
      auto before = static_cast<unsigned char>(text[i - 1]);
      bool starts = i + 1 < text.size() && is_lower(static_cast<unsigned char>(text[i + 1]));
      if (is_lower(before) || is_digit(before) || (is_upper(before) && starts)) finish();
    }
    word.push_back(static_cast<char>(is_upper(c) ? c | 0x20 : c));
  }
  finish();
  return terms;
}

void collect(const Json &schema, int depth, std::string &text) {
  if (!schema.is_object() || depth >= deepest_schema) return;
  text += " " + schema["description"].text_or("");
  const Json &properties = schema["properties"];
  if (properties.is_object()) {
    for (size_t i = 0; i < properties.size(); i++) {
      text += " " + properties.names()[i];
      collect(properties.items()[i], depth + 1, text);
    }
  }
  collect(schema["items"], depth + 1, text);
  for (const char *key : {"anyOf", "oneOf", "allOf"})
    if (schema[key].is_array())
      for (const Json &variant : schema[key].items()) collect(variant, depth + 1, text);
}

/// All the text by which a tool is found.
std::string text_of(const Json &tool) {
  std::string spaced = tool["name"].text();
  std::string text = spaced;
  std::replace(spaced.begin(), spaced.end(), '_', ' ');
  text += " " + spaced + " " + tool["description"].text_or("");
  collect(tool["parameters"], 0, text);
  return text;
}

/// The positions of the tools that fit, the best first; equal ones in their order.
std::vector<size_t> ranked(const std::vector<Json> &tools, const std::vector<std::string> &query) {
  std::vector<Counts> documents;
  std::vector<double> lengths;
  double total = 0;
  for (const Json &tool : tools) {
    Counts counts;
    auto terms = terms_of(text_of(tool));
    for (const std::string &term : terms) counts[term]++;
    documents.push_back(std::move(counts));
    lengths.push_back(static_cast<double>(terms.size()));
    total += lengths.back();
  }
  double count = static_cast<double>(documents.size());
  double average = total > 0 ? total / count : 1;

  std::vector<double> scores(documents.size());
  std::set<std::string> seen;
  for (const std::string &term : query) {
    if (!seen.insert(term).second) continue;
    double frequency = 0;
    for (const Counts &document : documents) frequency += document.count(term) ? 1 : 0;
    double weight = std::log(1 + (count - frequency + 0.5) / (frequency + 0.5));
    for (size_t i = 0; i < documents.size(); i++) {
      auto found = documents[i].find(term);
      if (found == documents[i].end()) continue;
      double norm = saturation * (1 - length_weight + length_weight * lengths[i] / average);
      scores[i] += weight * found->second * (saturation + 1) / (found->second + norm);
    }
  }
  std::vector<size_t> matches;
  for (size_t i = 0; i < scores.size(); i++)
    if (scores[i] > 0) matches.push_back(i);
  std::stable_sort(matches.begin(), matches.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return matches;
}

/// How many bytes at the front of the text end a line; 0 if none do.
size_t line_end(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty()) return 0;
  if (byte(0) >= '\n' && byte(0) <= '\r') return 1;
  if (text.substr(0, 2) == "\u0085") return 2;
  return text.substr(0, 3) == "\u2028" || text.substr(0, 3) == "\u2029" ? 3 : 0;
}

std::string first_line(const std::string &text) {
  size_t start = 0;
  std::string_view whole = text;
  while (size_t skipped = line_end(whole.substr(start))) start += skipped;
  size_t end = start;
  while (end < text.size() && line_end(whole.substr(end)) == 0) end++;
  return text.substr(start, end - start);
}

/// How many tools the model wants at most.
size_t limit_of(const Json &limit) {
  if (limit.is_null()) return 8;
  double number = limit.number();
  if (number >= 1 && std::floor(number) == number)
    return static_cast<size_t>(std::min(number, most_tools));
  throw failure("the limit " + limit.dump() + " is no positive integer");
}

Json search(Call &call) {
  auto query = terms_of(call.argument("query").text());
  if (query.empty()) throw failure("the query has no word to search for");
  size_t limit = limit_of(call.argument("limit"));
  Json answer = call.invoke("tools.list", Json::object({{"set", "deferred"}}));
  const auto &tools = answer["tools"].items();

  std::string text = "Available from the next request on:";
  Json loaded = Json::array(std::vector<Json>());
  for (size_t position : ranked(tools, query)) {
    if (loaded.size() == limit) break;
    const std::string &name = tools[position]["name"].text();
    text += "\n- " + name + ": " + first_line(tools[position]["description"].text_or(""));
    loaded.push(name);
  }
  bool is_empty = loaded.size() == 0;
  if (is_empty) text = "No deferred tool fits.";
  Json result = Json::object(
      {{"output", Json::array({Json::object({{"type", "text"}, {"text", text}})})},
       {"details", Json::object({{"loaded", loaded}})}});
  if (!is_empty) result.set("control", Json::object({{"addTools", loaded}}));
  return result;
}

void setup(Plugin &plugin) { plugin.tool("tool_search", search); }

}  // namespace

PERDURE_PLUGIN(R"({
  "manifest": 1, "id": "tool-search", "version": "1.0.0", "runtime": "c++",
  "title": "Tool search", "description": "Lets a model find and load deferred tools.",
  "license": "MIT",
  "interfaces": {"required": ["perdure.calls/1", "perdure.invoke/1"]},
  "execution": {"blocking": true},
  "tools": [{
    "name": "tool_search", "replay": "safe", "callers": ["model"], "deadlineMs": 30000,
    "description": "Finds tools that are not offered yet and makes them available from the next request on. Search with words for what a tool should do whenever none of the offered tools fits.",
    "parameters": {
      "type": "object",
      "properties": {
        "query": {"type": "string", "description": "Words that say what the tool should do."},
        "limit": {"type": "number", "description": "How many tools to load at most; 8 if absent."}
      },
      "required": ["query"]
    }
  }]
})", setup);
