import Glibc

/// Ranks texts by how well they fit a query, as search engines do: Okapi BM25.
struct ToolRanking {
  private static let saturation = 1.2
  private static let lengthWeight = 0.75

  private static let stopWords: Set<String> = [
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "in", "is", "it", "of", "on",
    "or", "that", "the", "this", "to", "with",
  ]

  private let documents: [[String: Int]]

  /// Takes the texts that are searched.
  init(_ texts: [String]) {
    documents = texts.map { text in
      Self.terms(of: text).reduce(into: [:]) { counts, term in counts[term, default: 0] += 1 }
    }
  }

  /// Returns the positions of the texts that fit, the best first; equal ones in their order.
  func best(_ limit: Int, for query: String) -> [Int] {
    var seen: Set<String> = []
    let terms = Self.terms(of: query).filter { seen.insert($0).inserted }
    let lengths = documents.map { $0.values.reduce(0, +) }
    let total = lengths.reduce(0, +)
    let average = total == 0 ? 1 : Double(total) / Double(documents.count)
    let weights = terms.map { term -> Double in
      let frequency = Double(documents.filter { $0[term] != nil }.count)
      return log(1 + (Double(documents.count) - frequency + 0.5) / (frequency + 0.5))
    }
    var matches: [(position: Int, score: Double)] = []
    for (position, counts) in documents.enumerated() {
      let share = Double(lengths[position]) / average
      let norm = Self.saturation * (1 - Self.lengthWeight + Self.lengthWeight * share)
      var score = 0.0
      for (term, weight) in zip(terms, weights) {
        let count = Double(counts[term] ?? 0)
        score += weight * count * (Self.saturation + 1) / (count + norm)
      }
      if score > 0 { matches.append((position, score)) }
    }
    matches.sort { $0.score == $1.score ? $0.position < $1.position : $0.score > $1.score }
    return matches.prefix(max(0, limit)).map { $0.position }
  }

  /// The words of a text in lower case and singular, names in camel case taken apart.
  static func terms(of text: String) -> [String] {
    let bytes = Array(text.utf8)
    var terms: [String] = []
    var word: [UInt8] = []
    func finish() {
      let term = String(decoding: word, as: UTF8.self)
      if !word.isEmpty, !stopWords.contains(term) { terms.append(singular(term)) }
      word = []
    }
    for (index, byte) in bytes.enumerated() {
      guard isLower(byte) || isUpper(byte) || isDigit(byte) else {
        finish()
        continue
      }
      if index > 0, isUpper(byte) {
        let before = bytes[index - 1]
        let startsWord = index + 1 < bytes.count && isLower(bytes[index + 1])
        if isLower(before) || isDigit(before) || isUpper(before) && startsWord { finish() }
      }
      word.append(isUpper(byte) ? byte | 0x20 : byte)
    }
    finish()
    return terms
  }

  private static func singular(_ term: String) -> String {
    let count = term.utf8.count
    if count > 4, term.hasSuffix("ies") { return term.dropLast(3) + "y" }
    let endings = ["ches", "shes", "sses", "xes", "zes"]
    if count > 4, endings.contains(where: term.hasSuffix) { return String(term.dropLast(2)) }
    if count > 3, term.hasSuffix("s"), !term.hasSuffix("ss") { return String(term.dropLast()) }
    return term
  }

  private static func isLower(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
  }

  private static func isUpper(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
  }

  private static func isDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }
}
