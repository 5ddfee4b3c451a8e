import PerdureModel
import PerdureValue

/// What a wrap changes in the declaration of its tool, always in the stricter direction.
package struct WrapOverride: Sendable {
  private var description: String?
  private var parameters: JSON?
  private var maxBytes: Int?
  private var maxLines: Int?
  private var isSequential = false
  private var isUnsafe = false

  /// Changes the declaration; a limit is only ever lowered.
  func apply(to tool: inout Tool) {
    if let description { tool.description = description }
    if let parameters { tool.parameters = parameters }
    if let maxBytes { tool.outputLimits.maxBytes = min(maxBytes, tool.outputLimits.maxBytes) }
    if let maxLines { tool.outputLimits.maxLines = min(maxLines, tool.outputLimits.maxLines) }
    if isSequential { tool.executionMode = .sequential }
    if isUnsafe { tool.replay = .unsafe }
  }

  init(_ reader: inout FieldReader) throws(BorderProblem) {
    description = try reader.string("description")
    parameters = try reader.object("parameters").map { .object($0.members) }
    let limits = try reader.section("outputLimits") { reader throws(BorderProblem) in
      (
        try reader.integer("maxBytes", in: 1...1 << 30),
        try reader.integer("maxLines", in: 1...1 << 30)
      )
    }
    (maxBytes, maxLines) = limits ?? (nil, nil)
    isSequential = try Self.word(&reader, "executionMode", only: "sequential")
    isUnsafe = try Self.word(&reader, "replay", only: "unsafe")
  }

  private static func word(
    _ reader: inout FieldReader,
    _ name: String,
    only: String
  ) throws(BorderProblem) -> Bool {
    guard let word = try reader.string(name) else { return false }
    guard word == only else {
      throw .shape("an override that is not stricter", at: reader.path(name))
    }
    return true
  }
}
