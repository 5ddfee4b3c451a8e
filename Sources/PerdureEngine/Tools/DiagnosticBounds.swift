import PerdureModel

/// How much the diagnostics of one call may say.
///
/// They come from tools, hooks and models as the output does, and a result that does not fit into a
/// request would end every later run; but the limits of a tool's output do not count for them.
enum DiagnosticBounds {
  /// The greatest number in one result.
  static let maxCount = 100
  /// The greatest number that a running call keeps, which leaves room for what is added at its end.
  static let maxReported = 90
  private static let maxBytes = 8_192

  /// A message as it is kept: its beginning, whole characters.
  static func text(_ text: String) -> String {
    let bytes = Array(text.utf8.prefix(maxBytes + 1))
    guard bytes.count > maxBytes else { return text }
    var end = maxBytes
    while end > 0, bytes[end] & 0xC0 == 0x80 { end -= 1 }
    return String(decoding: bytes[..<end], as: UTF8.self) + "…"
  }

  static func bounded(_ diagnostic: ToolDiagnostic) -> ToolDiagnostic {
    var bounded = diagnostic
    bounded.message = text(diagnostic.message)
    return bounded
  }

  /// As many as are kept; the last one, which says how the call ended, is among them.
  static func bounded(_ diagnostics: [ToolDiagnostic]) -> [ToolDiagnostic] {
    guard diagnostics.count > maxCount, let last = diagnostics.last else {
      return diagnostics.map(bounded)
    }
    let first = diagnostics.prefix(maxCount - 2)
    return first.map(bounded) + [leftOut(diagnostics.count - first.count - 1), bounded(last)]
  }

  /// Says how many are missing.
  static func leftOut(_ count: Int) -> ToolDiagnostic {
    ToolDiagnostic(.warn, "\(count) more diagnostics were left out", code: "truncated")
  }
}
