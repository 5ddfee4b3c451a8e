// Compares what perdure.hpp takes for JSON with the files of the JSON test suite.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "perdure.hpp"

using perdure::Json;

static void expect(bool claim, const std::string &what) {
  if (claim) return;
  std::cerr << "not so: " << what << std::endl;
  std::exit(1);
}

static std::optional<Json> parsed(const std::string &text) {
  try {
    return Json::parse(text);
  } catch (const perdure::Error &error) {
    expect(error.code == PDR_E_ENCODING, "errors of JSON say so");
    return std::nullopt;
  }
}

int main(int count, char **words) {
  int files = 0;
  for (const auto &file : std::filesystem::directory_iterator(count > 1 ? words[1] : ".")) {
    std::string name = file.path().filename();
    std::ifstream stream(file.path(), std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(stream), {}};
    auto value = parsed(text);
    // A name that occurs twice is JSON, but not at the border.
    bool twice = name.rfind("y_object_duplicated_key", 0) == 0;
    if (name[0] == 'y' && !twice) {
      expect(value.has_value(), name + " is JSON");
      expect(Json::parse(value->dump()) == *value, name + " stays the same");
    } else if (name[0] == 'n' || twice) {
      expect(!value, name + " is none");
    }
    files++;
  }
  expect(files > 300, "there are " + std::to_string(files) + " files");

  std::string text = R"({"z":9007199254740993,"a":-0.10,"lone":"\ud83d","min":-9223372036854775808})";
  expect(Json::parse(text).dump() == text, "values stay as they are written");
  expect(Json(0.1).dump() == "0.1", "numbers are short");
  expect(Json(18446744073709551615u).dump() == "18446744073709551615", "large numbers are exact");
  expect(Json::parse("1e2").number() == 100, "numbers are read");
  expect(!parsed(std::string(200, '[')), "the depth is bounded");
  Json value;
  value.set("a", 1).set("b", 2).set("a", Json::array({1, "x"}));
  expect(value.dump() == R"({"a":[1,"x"],"b":2})", "members keep their place");
  expect(value == Json::object({{"b", 2}, {"a", Json::array({1, "x"})}}), "their order is not compared");
  value.remove("a");
  expect(value.dump() == R"({"b":2})" && value["a"].is_null(), "members go");
  try {
    (void)value["b"].text();
    expect(false, "a number is no text");
  } catch (const perdure::Error &error) {
    expect(error.code == PDR_E_INVALID && error.reason() == "shape", "a wrong type says so");
  }
  try {
    (void)Json("\xff").dump();
    expect(false, "a byte is no UTF-8");
  } catch (const perdure::Error &error) {
    expect(error.code == PDR_E_ENCODING, "bytes that are no UTF-8 say so");
  }
  std::cout << "ok\n";
}
