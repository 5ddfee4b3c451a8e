package import PerdureModel
package import PerdureValue

/// What the kernel must know of a kind of document: its protocol with stores and with itself.
package struct DocumentDefinition: Sendable {
  package var kind: JSONString
  package var version: Int64
  package var history: DocumentHistory
  package var fork: DocumentFork
  /// The value of a new document, made at a time in milliseconds since 1970.
  package var initial: @Sendable (_ now: Int64) -> JSON
  /// Whether this change is stored as a complete value rather than as operations.
  package var storesBase: @Sendable (_ value: JSON) -> Bool

  /// Where the document of a conversation is found.
  package func address(in conversation: ConversationID) -> DocumentAddress {
    DocumentAddress(kind: kind, scope: .conversation(conversation))
  }
}

extension DocumentDefinition {
  /// A conversation's choice of model, extensions and tools.
  package static let agent = DocumentDefinition(
    kind: "pi.agent",
    version: 1,
    history: .rewindable,
    fork: .asOf,
    initial: { _ in [:] },
    storesBase: { _ in true }
  )

  /// A conversation's run and what is going on in it.
  package static let live = DocumentDefinition(
    kind: "pi.live",
    version: 1,
    history: .latest,
    fork: .initial,
    initial: { _ in [:] },
    storesBase: { value in
      if value["generation"] != nil { return false }
      func isRunning(_ slots: JSON?) -> Bool {
        (slots?.array ?? []).contains { $0["status"] == "running" }
      }
      return !isRunning(value["tools"]) && !isRunning(value["nestedTools"])
    }
  )

  /// A conversation's queued submissions.
  package static let inbox = DocumentDefinition(
    kind: "pi.inbox",
    version: 1,
    history: .latest,
    fork: .initial,
    initial: { _ in ["items": []] },
    storesBase: { ($0["items"]?.array ?? []).isEmpty }
  )

  /// A conversation's identity towards model providers.
  package static let provider = DocumentDefinition(
    kind: "pi.provider",
    version: 1,
    history: .latest,
    fork: .initial,
    initial: { now in ["sessionId": .string(UUIDv7.make(at: now))] },
    storesBase: { _ in true }
  )

  /// What a conversation has spent.
  package static let usage = DocumentDefinition(
    kind: "pi.usage",
    version: 1,
    history: .latest,
    fork: .initial,
    initial: { _ in ["models": [:], "tools": [:]] },
    storesBase: { _ in true }
  )
}

/// Identities that sort by the time at which they were made (RFC 9562, section 5.7).
enum UUIDv7 {
  static func make(at milliseconds: Int64) -> String {
    var random = SystemRandomNumberGenerator()
    let time = UInt64(bitPattern: milliseconds) & 0xFFFF_FFFF_FFFF
    let high = time << 16 | 0x7000 | (random.next() & 0x0FFF)
    let low = 0x8000_0000_0000_0000 | (random.next() & 0x3FFF_FFFF_FFFF_FFFF)
    let digits = hex(high) + hex(low)
    var text = ""
    for (position, digit) in digits.enumerated() {
      if [8, 12, 16, 20].contains(position) { text.append("-") }
      text.append(digit)
    }
    return text
  }

  private static func hex(_ value: UInt64) -> String {
    let digits = String(value, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }
}
