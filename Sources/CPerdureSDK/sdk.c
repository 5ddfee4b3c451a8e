#include "CPerdureSDK.h"

#include <stddef.h>
#include <string.h>

#pragma clang diagnostic ignored "-Wc23-extensions"

struct file {
  const char *name;
  /* Up to a 0, which no text has. */
  const unsigned char *text;
};

#define BEGIN(name) {name, (const unsigned char[]){
#define END , 0}},

/* The tests compare the kit for Swift, which is many files, with the folders that it comes from. */
/* clang-format off */
static const struct file files[] = {
BEGIN("perdure.h")
#embed "../CPerdureABI/include/perdure.h"
END
BEGIN("perdure_easy.h")
#embed "../CPerdureABI/include/perdure_easy.h"
END
BEGIN("perdure.hpp")
#embed "../CPerdureABI/include/perdure.hpp"
END
BEGIN("perdure.map")
#embed "../CPerdureABI/include/perdure.map"
END
BEGIN("perdure.rs")
#embed "../../sdk/rust/perdure.rs"
END
BEGIN("README.md")
#embed "../../sdk/templates/README.md"
END
BEGIN("gitignore")
#embed "../../sdk/templates/gitignore"
END
BEGIN("manifest.json")
#embed "../../sdk/templates/manifest.json"
END
BEGIN("plugin.faux.json")
#embed "../../sdk/templates/plugin.faux.json"
END
BEGIN("expected.txt")
#embed "../../sdk/templates/expected.txt"
END
BEGIN("c/plugin.c")
#embed "../../sdk/templates/c/plugin.c"
END
BEGIN("c/build")
#embed "../../sdk/templates/c/build"
END
BEGIN("cpp/plugin.cpp")
#embed "../../sdk/templates/cpp/plugin.cpp"
END
BEGIN("cpp/build")
#embed "../../sdk/templates/cpp/build"
END
BEGIN("rust/plugin.rs")
#embed "../../sdk/templates/rust/plugin.rs"
END
BEGIN("rust/build")
#embed "../../sdk/templates/rust/build"
END
BEGIN("swift/plugin.swift")
#embed "../../sdk/templates/swift/plugin.swift"
END
BEGIN("swift/build")
#embed "../../sdk/templates/swift/build"
END
BEGIN("zig/plugin.zig")
#embed "../../sdk/templates/zig/plugin.zig"
END
BEGIN("zig/perdure.zig")
#embed "../../sdk/templates/zig/perdure.zig"
END
BEGIN("zig/build")
#embed "../../sdk/templates/zig/build"
END
BEGIN("swift-kit/build")
#embed "../../sdk/swift/build"
END
BEGIN("swift-kit/entry.c")
#embed "../../sdk/swift/entry.c"
END
BEGIN("swift-kit/PerdurePluginKit/ABI/Border.swift")
#embed "../PerdurePluginKit/ABI/Border.swift"
END
BEGIN("swift-kit/PerdurePluginKit/ABI/Entry.swift")
#embed "../PerdurePluginKit/ABI/Entry.swift"
END
BEGIN("swift-kit/PerdurePluginKit/ABI/HostTables.swift")
#embed "../PerdurePluginKit/ABI/HostTables.swift"
END
BEGIN("swift-kit/PerdurePluginKit/Contribution.swift")
#embed "../PerdurePluginKit/Contribution.swift"
END
BEGIN("swift-kit/PerdurePluginKit/Exports.swift")
#embed "../PerdurePluginKit/Exports.swift"
END
BEGIN("swift-kit/PerdurePluginKit/HandlerTable.swift")
#embed "../PerdurePluginKit/HandlerTable.swift"
END
BEGIN("swift-kit/PerdurePluginKit/Hook.swift")
#embed "../PerdurePluginKit/Hook.swift"
END
BEGIN("swift-kit/PerdurePluginKit/HostStream.swift")
#embed "../PerdurePluginKit/HostStream.swift"
END
BEGIN("swift-kit/PerdurePluginKit/Payload.swift")
#embed "../PerdurePluginKit/Payload.swift"
END
BEGIN("swift-kit/PerdurePluginKit/Plugin.swift")
#embed "../PerdurePluginKit/Plugin.swift"
END
BEGIN("swift-kit/PerdurePluginKit/PluginCall.swift")
#embed "../PerdurePluginKit/PluginCall.swift"
END
BEGIN("swift-kit/PerdurePluginKit/PluginCore.swift")
#embed "../PerdurePluginKit/PluginCore.swift"
END
BEGIN("swift-kit/PerdurePluginKit/PluginError.swift")
#embed "../PerdurePluginKit/PluginError.swift"
END
BEGIN("swift-kit/PerdurePluginKit/TaskType.swift")
#embed "../PerdurePluginKit/TaskType.swift"
END
BEGIN("swift-kit/PerdurePluginKit/ToolCall.swift")
#embed "../PerdurePluginKit/ToolCall.swift"
END
BEGIN("swift-kit/PerdurePluginKit/ToolResult.swift")
#embed "../PerdurePluginKit/ToolResult.swift"
END
BEGIN("swift-kit/PerdurePluginKit/Transaction.swift")
#embed "../PerdurePluginKit/Transaction.swift"
END
BEGIN("swift-kit/PerdureValue/Base64.swift")
#embed "../PerdureValue/Base64.swift"
END
BEGIN("swift-kit/PerdureValue/Coding/Codable.swift")
#embed "../PerdureValue/Coding/Codable.swift"
END
BEGIN("swift-kit/PerdureValue/Coding/JSONDecoding.swift")
#embed "../PerdureValue/Coding/JSONDecoding.swift"
END
BEGIN("swift-kit/PerdureValue/Coding/JSONEncoding.swift")
#embed "../PerdureValue/Coding/JSONEncoding.swift"
END
BEGIN("swift-kit/PerdureValue/Identifier.swift")
#embed "../PerdureValue/Identifier.swift"
END
BEGIN("swift-kit/PerdureValue/JSON/JSON+Numbers.swift")
#embed "../PerdureValue/JSON/JSON+Numbers.swift"
END
BEGIN("swift-kit/PerdureValue/JSON/JSON+Readable.swift")
#embed "../PerdureValue/JSON/JSON+Readable.swift"
END
BEGIN("swift-kit/PerdureValue/JSON/JSON.swift")
#embed "../PerdureValue/JSON/JSON.swift"
END
BEGIN("swift-kit/PerdureValue/JSON/JSONObject.swift")
#embed "../PerdureValue/JSON/JSONObject.swift"
END
BEGIN("swift-kit/PerdureValue/JSON/JSONParser.swift")
#embed "../PerdureValue/JSON/JSONParser.swift"
END
BEGIN("swift-kit/PerdureValue/JSON/JSONPrinter.swift")
#embed "../PerdureValue/JSON/JSONPrinter.swift"
END
BEGIN("swift-kit/PerdureValue/JSON/JSONString.swift")
#embed "../PerdureValue/JSON/JSONString.swift"
END
BEGIN("swift-kit/PerdureValue/JSON/JSONWriter.swift")
#embed "../PerdureValue/JSON/JSONWriter.swift"
END
BEGIN("swift-kit/PerdureValue/Operations/Operation+Apply.swift")
#embed "../PerdureValue/Operations/Operation+Apply.swift"
END
BEGIN("swift-kit/PerdureValue/Operations/Operation+Prefix.swift")
#embed "../PerdureValue/Operations/Operation+Prefix.swift"
END
BEGIN("swift-kit/PerdureValue/Operations/Operation.swift")
#embed "../PerdureValue/Operations/Operation.swift"
END
BEGIN("swift-kit/PerdureValue/Pattern/GlobPattern.swift")
#embed "../PerdureValue/Pattern/GlobPattern.swift"
END
BEGIN("swift-kit/PerdureValue/Pattern/Pattern.swift")
#embed "../PerdureValue/Pattern/Pattern.swift"
END
BEGIN("swift-kit/PerdureValue/Pattern/PatternParser.swift")
#embed "../PerdureValue/Pattern/PatternParser.swift"
END
BEGIN("swift-kit/PerdureValue/Pattern/PatternProgram.swift")
#embed "../PerdureValue/Pattern/PatternProgram.swift"
END
BEGIN("swift-kit/PerdureValue/Pattern/PatternSet.swift")
#embed "../PerdureValue/Pattern/PatternSet.swift"
END
BEGIN("swift-kit/PerdureValue/Pattern/TextPattern.swift")
#embed "../PerdureValue/Pattern/TextPattern.swift"
END
BEGIN("swift-kit/PerdureValue/Pattern/WiderPattern.swift")
#embed "../PerdureValue/Pattern/WiderPattern.swift"
END
BEGIN("swift-kit/PerdureValue/Schema/Decimal.swift")
#embed "../PerdureValue/Schema/Decimal.swift"
END
BEGIN("swift-kit/PerdureValue/Schema/JSONSchema.swift")
#embed "../PerdureValue/Schema/JSONSchema.swift"
END
BEGIN("swift-kit/PerdureValue/Schema/SchemaCheck+Applicators.swift")
#embed "../PerdureValue/Schema/SchemaCheck+Applicators.swift"
END
BEGIN("swift-kit/PerdureValue/Schema/SchemaCheck+Contents.swift")
#embed "../PerdureValue/Schema/SchemaCheck+Contents.swift"
END
BEGIN("swift-kit/PerdureValue/Schema/SchemaCheck.swift")
#embed "../PerdureValue/Schema/SchemaCheck.swift"
END
BEGIN("swift-kit/PerdureValue/Schema/SchemaCoercion.swift")
#embed "../PerdureValue/Schema/SchemaCoercion.swift"
END
BEGIN("swift-kit/PerdureValue/Schema/SchemaCompiler+Keywords.swift")
#embed "../PerdureValue/Schema/SchemaCompiler+Keywords.swift"
END
BEGIN("swift-kit/PerdureValue/Schema/SchemaCompiler+Names.swift")
#embed "../PerdureValue/Schema/SchemaCompiler+Names.swift"
END
BEGIN("swift-kit/PerdureValue/Schema/SchemaCompiler.swift")
#embed "../PerdureValue/Schema/SchemaCompiler.swift"
END
BEGIN("swift-kit/PerdureValue/Schema/SchemaError.swift")
#embed "../PerdureValue/Schema/SchemaError.swift"
END
BEGIN("swift-kit/PerdureValue/Schema/SchemaNode.swift")
#embed "../PerdureValue/Schema/SchemaNode.swift"
END
BEGIN("swift-kit/PerdureValue/Schema/SchemaURI.swift")
#embed "../PerdureValue/Schema/SchemaURI.swift"
END
BEGIN("swift-kit/PerdureValue/UTF8Stream.swift")
#embed "../PerdureValue/UTF8Stream.swift"
END
};
/* clang-format on */

int perdure_sdk_count(void) { return (int)(sizeof files / sizeof files[0]); }

static const unsigned char *text_of(int file, int part) {
  if (file < 0 || file >= perdure_sdk_count()) return (const unsigned char *)"";
  return part == PERDURE_SDK_NAME ? (const unsigned char *)files[file].name : files[file].text;
}

long long perdure_sdk_size(int file, int part) {
  return (long long)strlen((const char *)text_of(file, part));
}

unsigned long long perdure_sdk_word(int file, int part, long long index) {
  const unsigned char *text = text_of(file, part);
  unsigned long long word = 0;
  for (int i = 0; i < 8 && text[index + i]; i++)
    word |= (unsigned long long)text[index + i] << (8 * i);
  return word;
}
