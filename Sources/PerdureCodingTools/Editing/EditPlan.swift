import PerdureModel
import PerdureValue

/// One wish of a model: this text instead of that one.
struct TextEdit: Sendable, Equatable {
  var oldText: String
  var newText: String
}

/// Finds what edits replace; all of them refer to the text as it is, not to each other's results.
struct EditPlan: Sendable {
  let changes: [TextChange]

  private struct Search {
    var number: Int
    var old: [UInt8]
    var new: [UInt8]
  }

  /// Throws if one of them cannot be made, and then none is.
  init(_ edits: [TextEdit], in source: EditableText, _ path: String) throws {
    guard !edits.isEmpty else {
      throw PerdureError(.invalidInput, "no edits are given", hint: "give at least one")
    }
    let searches = try edits.enumerated().map { number, edit in
      guard !edit.oldText.isEmpty else {
        throw PerdureError(
          .invalidInput,
          "\(Self.name(number, edits.count)) has an empty oldText",
          hint: "give the text that is to be replaced, or use write for a new file"
        )
      }
      return Search(
        number: number,
        old: EditableText.withoutReturns(edit.oldText),
        new: EditableText.withoutReturns(edit.newText)
      )
    }
    var found: [TextChange] = []
    let alike = AlikeText(source.text, tracksPlaces: false)
    for search in searches {
      let places = ByteSearch(search.old).places(in: source.text, limit: 10_000, overlapping: true)
      guard let place = places.first else { break }
      try Self.requireOne(
        max(places.count, Self.count(search.old, in: alike)),
        search.number,
        edits.count,
        path
      )
      found.append(
        TextChange(
          range: place..<(place + search.old.count),
          text: search.new,
          edit: search.number
        )
      )
    }
    if found.count < searches.count {
      found = try Self.locateAlike(searches, source, path)
    }
    changes = try Self.checked(found, source, path)
  }

  private static func name(_ number: Int, _ count: Int) -> String {
    count == 1 ? "the edit" : "edits[\(number)]"
  }

  private static func count(_ old: [UInt8], in alike: AlikeText) -> Int {
    let needle = AlikeText(old, tracksPlaces: false, keepsEnd: true)
    return ByteSearch(needle.text).places(in: alike.text, limit: 10_000).count
  }

  private static func requireOne(
    _ count: Int,
    _ number: Int,
    _ total: Int,
    _ path: String
  ) throws {
    guard count > 1 else { return }
    throw PerdureError(
      .invalidInput,
      "the oldText of \(name(number, total)) occurs \(count) times in \(path.quotedForMessage)",
      hint: "give more of the text around it, so that it is there only once"
    )
  }

  /// Finds all of them among what looks alike, where one is not there exactly.
  private static func locateAlike(
    _ searches: [Search],
    _ source: EditableText,
    _ path: String
  ) throws -> [TextChange] {
    let alike = AlikeText(source.text, tracksPlaces: true)
    return try searches.map { search in
      let needle = AlikeText(search.old, tracksPlaces: false)
      let ranges = ByteSearch(needle.text).places(in: alike.text, limit: 10_000)
        .compactMap { alike.original(of: $0..<($0 + needle.text.count)) }
      guard let range = ranges.first else {
        throw PerdureError(
          .invalidInput,
          "the oldText of \(name(search.number, searches.count)) is not in"
            + " \(path.quotedForMessage)",
          hint: ClosestRegion(of: search.old, in: source.text).hint
        )
      }
      try requireOne(ranges.count, search.number, searches.count, path)
      return TextChange(range: range, text: search.new, edit: search.number)
    }
  }

  private static func checked(
    _ found: [TextChange],
    _ source: EditableText,
    _ path: String
  ) throws -> [TextChange] {
    let sorted = found.sorted { $0.range.lowerBound < $1.range.lowerBound }
    for (first, second) in zip(sorted, sorted.dropFirst())
    where first.range.upperBound > second.range.lowerBound {
      throw PerdureError(
        .invalidInput,
        "edits[\(min(first.edit, second.edit))] and edits[\(max(first.edit, second.edit))] overlap"
          + " in \(path.quotedForMessage)",
        hint: "make one edit of them"
      )
    }
    guard sorted.contains(where: { !source.text[$0.range].elementsEqual($0.text) }) else {
      throw PerdureError(
        .invalidInput,
        "the edits change nothing in \(path.quotedForMessage)",
        hint: "give a newText that differs from oldText"
      )
    }
    return sorted
  }
}

/// The lines of a text that are most like some other ones.
struct ClosestRegion {
  let hint: String

  private static let most = 20_000
  /// Of longer lines the beginning is compared.
  private static let longest = 2_000

  init(of old: [UInt8], in text: [UInt8]) {
    let wanted = Self.lines(of: old)
    let longest = wanted.indices.max { wanted[$0].count < wanted[$1].count }
    guard let offset = longest, wanted[offset].count > 3 else {
      hint = "read the file again and give its text exactly"
      return
    }
    let words = Self.words(of: Array(wanted[offset].prefix(Self.longest)))
    var best: (line: Int, score: Double, text: [UInt8])?
    let lines = text.split(separator: 0x0A, maxSplits: Self.most, omittingEmptySubsequences: false)
    for (number, part) in lines.prefix(Self.most).enumerated() {
      let line = Array(part.prefix(Self.longest))
      let score = Self.likeness(words, Self.words(of: line))
      if score > (best?.score ?? 0.4) { best = (number, score, line) }
    }
    guard let best else {
      hint = "read the file again and give its text exactly"
      return
    }
    let shown = String(decoding: best.text.prefix(200), as: UTF8.self)
    let first = max(1, best.line + 1 - offset)
    hint =
      "the closest part begins at line \(first); line \(best.line + 1) is"
      + " \(shown.quotedForMessage)"
  }

  private static func lines(of text: [UInt8]) -> [[UInt8]] {
    text.split(separator: 0x0A, omittingEmptySubsequences: false).map { Array($0) }
  }

  private static func words(of line: [UInt8]) -> Set<ArraySlice<UInt8>> {
    Set(
      line.split { byte in
        !(byte >= 0x80 || (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte)
          || (0x61...0x7A).contains(byte) || byte == 0x5F)
      }
    )
  }

  private static func likeness(
    _ left: Set<ArraySlice<UInt8>>,
    _ right: Set<ArraySlice<UInt8>>
  ) -> Double {
    let union = left.union(right).count
    return union == 0 ? 0 : Double(left.intersection(right).count) / Double(union)
  }
}
