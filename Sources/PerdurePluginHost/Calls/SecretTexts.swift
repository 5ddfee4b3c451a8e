import Synchronization

/// Texts that are shown to nobody.
struct SecretTexts: ~Copyable, Sendable {
  private let texts = Mutex<Set<String>>([])

  /// Remembers a text; an empty one is no secret.
  func keep(_ text: String) {
    if !text.isEmpty { texts.withLock { _ = $0.insert(text) } }
  }

  /// Gives a text without those that are remembered.
  func masked(_ text: String) -> String {
    texts.withLock { secrets in
      secrets.reduce(text) { text, secret in
        text.contains(secret) ? Self.replaced(text, secret) : text
      }
    }
  }

  private static func replaced(_ text: String, _ secret: String) -> String {
    var result: [UInt8] = []
    let (bytes, mark) = (Array(text.utf8), Array(secret.utf8))
    var index = 0
    while index < bytes.count {
      if bytes[index...].starts(with: mark) {
        result += Array("***".utf8)
        index += mark.count
      } else {
        result.append(bytes[index])
        index += 1
      }
    }
    return String(decoding: result, as: UTF8.self)
  }
}
