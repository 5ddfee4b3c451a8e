import Foundation
import PerdureValue
import Testing

/// A place in the script of a plugin where it waits for the test, also in a process of its own.
struct Gate: Sendable {
  private let path: String

  init() throws {
    path = try Fixtures.folder() + "/gate"
    for ending in [".ready", ".go"] {
      guard unsafe mkfifo(path + ending, 0o600) == 0 else {
        throw POSIXError(.init(rawValue: errno) ?? .EIO)
      }
    }
  }

  /// The step that waits.
  var step: JSON { ["op": "gate", "input": ["path": .string(JSONString(path))]] }

  /// The same within another input.
  var input: JSONObject { ["path": .string(JSONString(path))] }

  /// Returns when the plugin has come here, with what came of its script so far.
  @discardableResult func reached() async throws -> [JSON] {
    let bytes = try await Self.onThread { [path] in
      try FileHandle(forReadingFrom: URL(filePath: path + ".ready")).readToEnd() ?? Data()
    }
    let text = String(decoding: bytes, as: UTF8.self)
    return try JSON(parsing: text.hasPrefix("[") ? text + "]" : "[]").array ?? []
  }

  /// Lets the plugin run one more step and go on.
  func open(_ step: JSON? = nil) async throws {
    let bytes = step.map { Data($0.encoded) } ?? Data()
    _ = try await Self.onThread { [path] in
      let handle = try FileHandle(forWritingTo: URL(filePath: path + ".go"))
      try handle.write(contentsOf: bytes)
      try handle.close()
      return Data()
    }
  }

  /// Opening a pipe waits for the other side.
  private static func onThread(_ body: @escaping @Sendable () throws -> Data) async throws -> Data {
    try await withCheckedThrowingContinuation { continuation in
      Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
    }
  }
}
