import PerdureModel

/// The names of the tables and indexes of a store that shares its database.
final class TableNames {
  let prefix: String
  /// The texts of statements repeat.
  private var texts: [String: String] = [:]

  /// Throws `invalidConfiguration` for a prefix that names cannot begin with.
  init(prefix: String) throws {
    let isPlain = prefix.utf8.allSatisfy { Self.isWord($0) }
    guard isPlain, !prefix.lowercased().hasPrefix("sqlite_") else {
      throw PerdureError(
        .invalidConfiguration,
        "'\(prefix)' cannot be the prefix of tables",
        hint: "use ASCII letters, digits and underscores, and do not begin with 'sqlite_'"
      )
    }
    self.prefix = prefix
  }

  /// The name that a table or an index has in the database.
  func name(of object: String) -> String { prefix + object }

  /// The names that belong to the store, without the prefix.
  func own(among names: Set<String>) -> Set<String> {
    let own = names.filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }
    return Schema.names.intersection(own)
  }

  /// A statement with the names that the database has.
  func sql(_ text: String) -> String {
    if prefix.isEmpty { return text }
    if let known = texts[text] { return known }
    let renamed = renamed(text)
    texts[text] = renamed
    return renamed
  }

  /// Puts the prefix before every name of a table or index that is not in quotes.
  private func renamed(_ text: String) -> String {
    var result: [UInt8] = []
    var word: [UInt8] = []
    var quote: UInt8?
    func endWord() {
      let name = String(decoding: word, as: UTF8.self)
      result += Schema.names.contains(name) ? Array("\"\(prefix)\(name)\"".utf8) : word
      word = []
    }
    for byte in text.utf8 {
      if let open = quote {
        if byte == open { quote = nil }
        result.append(byte)
      } else if Self.isWord(byte) {
        word.append(byte)
      } else {
        endWord()
        if byte == UInt8(ascii: "'") || byte == UInt8(ascii: "\"") { quote = byte }
        result.append(byte)
      }
    }
    endWord()
    return String(decoding: result, as: UTF8.self)
  }

  private static func isWord(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
      true
    default: false
    }
  }
}
