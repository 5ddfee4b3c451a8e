package import PerdureModel

/// The bytes of a policy or an order, as `perdure-sandbox` reads them.
package struct SandboxMessage: Sendable {
  package let bytes: [UInt8]

  private static let magic = Array("PDRSBOX1".utf8)
  /// What the launcher takes at most.
  private static let largest = 8 << 20

  /// Writes `fields` in their order; a text with a zero in it is refused, because it would end there.
  package init(_ fields: [SandboxField]) throws(PerdureError) {
    var bytes = Self.magic
    Self.append(UInt64(fields.count), 4, to: &bytes)
    for field in fields {
      let values = field.values
      Self.append(UInt64(field.tag), 2, to: &bytes)
      Self.append(UInt64(values.count), 2, to: &bytes)
      for value in values { try Self.append(value, of: field, to: &bytes) }
    }
    guard bytes.count <= Self.largest else {
      throw PerdureError(
        "sandbox_policy",
        "the policy of the sandbox has \(bytes.count) bytes",
        hint: "give the command fewer arguments; \(Self.largest) bytes are the most"
      )
    }
    self.bytes = bytes
  }

  private static func append(
    _ value: SandboxField.Value,
    of field: SandboxField,
    to bytes: inout [UInt8]
  ) throws(PerdureError) {
    switch value {
    case .number(let number):
      append(8, 4, to: &bytes)
      append(number, 8, to: &bytes)
    case .text(let text):
      let content = Array(text.utf8)
      guard !content.contains(0) else {
        throw PerdureError(
          "sandbox_policy",
          "field \(field.tag) of the sandbox's policy has a zero inside",
          hint: "remove the zero from the command, its variables and its paths"
        )
      }
      append(UInt64(content.count), 4, to: &bytes)
      bytes += content
    }
    bytes.append(0)
  }

  /// Appends the lowest `count` bytes of a number, the lowest first.
  private static func append(_ number: UInt64, _ count: Int, to bytes: inout [UInt8]) {
    for index in 0..<count { bytes.append(UInt8(truncatingIfNeeded: number >> (8 * index))) }
  }
}
