import Perdure
import PerdureModel
import PerdureValue

/// A conversation as a text that is the same each time the same happens.
///
/// It has no ids, no times and no models; where such stand in what plugins say, a word takes their
/// place.
struct GoldenTranscript {
  /// The folder of the plugin, which others have elsewhere.
  let folder: String
  /// Milliseconds since 1970 that a number is taken for a time in.
  let times: ClosedRange<Int64>

  init(folder: String, now: Int64) {
    let day: Int64 = 86_400_000
    self.folder = folder
    times = (now - day)...(now + 400 * day)
  }

  /// Returns the transcript; `failure` is why the last prompt got no answer.
  func text(of entries: [EntryRecord], failure: PerdureError?) -> String {
    var parts = Self.arranged(entries).map { section(of: $0) }
    if let failure { parts.append("[no answer]\n\(steady(failure.message))") }
    return parts.joined(separator: "\n\n") + "\n"
  }

  /// The entries, with the results of each round in the order of its calls: the calls run beside each
  /// other, and end in the order of chance.
  private static func arranged(_ entries: [EntryRecord]) -> [EntryRecord] {
    var arranged = entries
    var calls: [JSON] = []
    var places: [Int] = []
    func arrangeRound() {
      let results = places.map { place in
        let id = entries[place].model?.first?["toolCallId"]
        return (place: calls.firstIndex { $0["id"] == id } ?? calls.count, entry: entries[place])
      }
      let sorted = results.enumerated().sorted {
        ($0.element.place, $0.offset) < ($1.element.place, $1.offset)
      }
      for (place, result) in zip(places, sorted) { arranged[place] = result.element.entry }
      places = []
    }
    for (place, entry) in entries.enumerated() {
      if entry.kind == "pi.tool-result" { places.append(place) }
      guard entry.kind == "pi.assistant" else { continue }
      arrangeRound()
      calls = (entry.model?.first?["content"]?.array ?? []).filter { $0["type"] == "toolCall" }
    }
    arrangeRound()
    return arranged
  }

  private func section(of entry: EntryRecord) -> String {
    let (heading, body) = Transcript.section(of: entry)
    let message = entry.model?.first
    switch entry.kind {
    case "pi.assistant": return lines("[assistant]", [body])
    case "pi.tool-result":
      let texts = (message?["content"]?.array ?? []).compactMap { item -> String? in
        item["text"]?.text ?? item["mimeType"]?.text.map { "(\($0))" }
      }
      let details = message?["details"].map { "details: \(steady($0).compactText)" }
      return lines("[\(heading)]", texts + [details].compactMap(\.self))
    case "pi.system":
      let sections = (message?["sections"]?.object ?? [:]).flatMap { key, value in
        value == .null
          ? ["- section \(key.string)"]
          : ["+ section \(key.string)"]
            + EntryRecord.text(ofContent: value).split(separator: "\n").map { "  \($0)" }
      }
      let others = body.split(separator: "\n").filter { !$0.hasPrefix("+ section ") }
      return lines("[system]", sections + others.map(String.init))
    default: return lines("[\(heading)]", [body])
    }
  }

  private func lines(_ heading: String, _ lines: [String]) -> String {
    ([heading] + lines.filter { !$0.isEmpty }.map { steady($0) }).joined(separator: "\n")
  }

  // MARK: What changes from run to run

  private static let numbered: Set<String> = [
    "task", "conversation", "entry", "submission", "document",
  ]

  private func steady(_ value: JSON) -> JSON {
    if let items = value.array { return .array(items.map { steady($0) }) }
    if let members = value.object {
      var object: JSONObject = [:]
      for (key, value) in members {
        let isID = Self.numbered.contains(key.string) || key.string.hasSuffix("Id")
        object[key] = isID && value.int != nil ? "<id>" : steady(value)
      }
      return .object(object)
    }
    if let number = value.int { return times.contains(number) ? "<time>" : value }
    return value.text.map { .string(steady($0)) } ?? value
  }

  private func steady(_ text: String) -> String {
    let text = folder.isEmpty ? text : text.replacing(folder, with: "<folder>")
    var bytes: [UInt8] = []
    let all = Array(text.utf8)
    var index = 0
    while index < all.count {
      let isStart = index == 0 || !Self.isWord(all[index - 1])
      if isStart, let (word, count) = changing(all[index...]) {
        bytes += Array(word.utf8)
        index += count
      } else {
        bytes.append(all[index])
        index += 1
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  private static func isWord(_ byte: UInt8) -> Bool {
    isDigit(byte) || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20) || byte >= 0x80
      || byte == UInt8(ascii: "_")
  }

  private static func isDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }

  private static func isHex(_ byte: UInt8) -> Bool {
    isDigit(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte | 0x20)
  }

  /// What stands for the beginning of a text, and how many bytes of it.
  private func changing(_ text: ArraySlice<UInt8>) -> (String, Int)? {
    guard let first = text.first, Self.isHex(first) else { return nil }
    if Self.fits(text, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh") { return ("<uuid>", 36) }
    if Self.fits(text, "dddd-dd-ddTdd:dd:dd", isWhole: false) {
      let rest = text.dropFirst(19).prefix { byte in
        Self.isDigit(byte) || ".+:-Z".utf8.contains(byte)
      }
      // A sentence may end behind it.
      let count = rest.count - rest.reversed().prefix { ".:-+".utf8.contains($0) }.count
      return ("<time>", 19 + count)
    }
    let digits = text.prefix(14).prefix(while: Self.isDigit)
    guard digits.count == 13, !(text.dropFirst(13).first.map(Self.isWord) ?? false),
      let number = Int64(String(decoding: digits, as: UTF8.self)), times.contains(number)
    else { return nil }
    return ("<time>", 13)
  }

  /// Whether a text begins like a pattern of `d` for a digit, `h` for a hexadecimal one, and others for
  /// themselves, and, if it must be whole, no word goes on behind it.
  private static func fits(
    _ text: ArraySlice<UInt8>,
    _ pattern: String,
    isWhole: Bool = true
  ) -> Bool {
    guard text.count >= pattern.utf8.count else { return false }
    let fits = zip(text, pattern.utf8).allSatisfy { byte, wanted in
      switch wanted {
      case UInt8(ascii: "d"): isDigit(byte)
      case UInt8(ascii: "h"): isHex(byte)
      default: byte == wanted
      }
    }
    guard isWhole else { return fits }
    return fits && !(text.dropFirst(pattern.utf8.count).first.map(isWord) ?? false)
  }
}
