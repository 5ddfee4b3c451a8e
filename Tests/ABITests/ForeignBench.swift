import Foundation
import PerdurePluginHost
import PerdureValue

/// Descriptions of the functions in `functions.c`.
enum ForeignBench {
  /// The library, which knows nothing of Perdure.
  static func library() throws -> String {
    try Fixtures.plugin("functions", flags: ["-Wno-infinite-recursion", "-Wno-overlength-strings"])
  }

  /// A tool that calls a function with the given arguments of C.
  static func tool(
    _ symbol: String,
    _ properties: JSONObject,
    _ args: [JSON],
    _ returns: JSON,
    name: String? = nil,
    more: JSONObject = [:]
  ) -> JSON {
    var tool: JSONObject = [
      "name": .string(name ?? symbol), "description": "Tries.",
      "parameters": [
        "type": "object", "properties": .object(properties),
        "required": .array(properties.keys.map { .string($0) }),
      ],
      "ffi": [
        "library": "f", "symbol": .string(symbol), "args": .array(args), "returns": returns,
      ],
    ]
    for (key, value) in more { tool[key] = value }
    return .object(tool)
  }

  /// A tool of one number.
  static func unary(_ symbol: String, _ type: JSON, more: JSONObject = [:]) -> JSON {
    let isFloating = type == "f32" || type == "f64"
    return tool(
      symbol,
      ["n": ["type": isFloating ? "number" : "integer"]],
      [["type": type, "from": "n"]],
      type,
      more: more
    )
  }

  /// Writes a description and returns its path.
  static func description(
    _ tools: [JSON],
    library: String? = nil,
    version: String = "1.0.0",
    change: (inout JSONObject) -> Void = { _ in }
  ) throws -> String {
    var manifest: JSONObject = [
      "manifest": 1, "id": "test.functions", "version": .string(version), "runtime": "ffi",
      "description": "Tries.",
      "ffi": ["libraries": ["f": .string(try library ?? Self.library())]],
      "tools": .array(tools),
    ]
    change(&manifest)
    let path = try Fixtures.folder() + "/functions.ffi.json"
    try Data(JSON.object(manifest).encoded).write(to: URL(filePath: path))
    return path
  }

  /// Loads the tools in a process of their own and runs `body`.
  static func with<Value: Sendable>(
    _ tools: [JSON],
    _ body: @escaping @Sendable (PluginBench) async throws -> Value
  ) async throws -> Value {
    let path = try description(tools)
    return try await Place.$current.withValue(.runner) { try await PluginBench.with(path, body) }
  }
}
