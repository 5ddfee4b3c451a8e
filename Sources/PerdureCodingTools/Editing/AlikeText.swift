/// A text without what people and models overlook: kinds of quotes, dashes and spaces, forms of
/// characters, and spaces at the ends of lines.
struct AlikeText: Sendable {
  private(set) var text: [UInt8] = []
  /// Of each byte, where the character that it comes from begins and ends in the original.
  private(set) var starts: [Int32] = []
  private(set) var ends: [Int32] = []
  private let tracksPlaces: Bool
  private var alone = LoneCharacters()

  /// Takes a text of LF lines; `keepsEnd` leaves the spaces behind its last line, which may go on.
  init(_ original: [UInt8], tracksPlaces: Bool, keepsEnd: Bool = false) {
    self.tracksPlaces = tracksPlaces
    text.reserveCapacity(original.count)
    if tracksPlaces {
      starts.reserveCapacity(original.count)
      ends.reserveCapacity(original.count)
    }
    var start = 0
    while true {
      let newline = original[start...].firstIndex(of: 0x0A)
      let end = newline ?? original.endIndex
      add(original[start..<end], trims: newline != nil || !keepsEnd)
      guard let newline else { return }
      add(0x0A, newline, newline + 1)
      start = newline + 1
    }
  }

  private mutating func add(_ byte: UInt8, _ start: Int, _ end: Int) {
    text.append(byte)
    guard tracksPlaces else { return }
    starts.append(Int32(clamping: start))
    ends.append(Int32(clamping: end))
  }

  private mutating func add(_ line: ArraySlice<UInt8>, trims: Bool) {
    let begin = text.count
    var place = line.startIndex
    while place < line.endIndex {
      let plain = line[place...].firstIndex { $0 >= 0x80 } ?? line.endIndex
      // What follows may belong to the last of them.
      let end = plain == line.endIndex ? plain : max(place, plain - 1)
      text += line[place..<end]
      if tracksPlaces {
        for index in place..<end {
          starts.append(Int32(clamping: index))
          ends.append(Int32(clamping: index + 1))
        }
      }
      place = end
      if place < line.endIndex { addCharacters(of: line, &place) }
    }
    guard trims else { return }
    while text.count > begin, let last = text.last, Self.isSpace(last) {
      text.removeLast()
      guard tracksPlaces else { continue }
      starts.removeLast()
      ends.removeLast()
    }
  }

  /// Adds what is up to the next place from which on everything is ASCII, or a part of it.
  private mutating func addCharacters(of line: ArraySlice<UInt8>, _ place: inout Int) {
    if let (end, mapped) = alone.next(of: line, at: place) {
      if let mapped {
        for byte in mapped { add(byte, place, end) }
      } else {
        for index in place..<end { add(line[index], place, end) }
      }
      place = end
      return
    }
    var end = line.index(after: place)
    while end < line.endIndex, alone.next(of: line, at: end) == nil { end += 1 }
    for character in String(decoding: line[place..<end], as: UTF8.self) {
      let next = place + character.utf8.count
      for byte in Compatibility.plain(String(character)).utf8 { add(byte, place, next) }
      place = next
    }
    place = end
  }

  private static func isSpace(_ byte: UInt8) -> Bool {
    byte == 0x20 || (0x09...0x0D).contains(byte)
  }

  /// The part of the original from which a part of this text comes; `nil` if it begins or ends within
  /// a character of the original.
  func original(of range: Range<Int>) -> Range<Int>? {
    guard tracksPlaces, range.upperBound <= text.count, !range.isEmpty else { return nil }
    let (first, last) = (range.lowerBound, range.upperBound - 1)
    if first > 0, starts[first - 1] == starts[first] { return nil }
    if last + 1 < text.count, starts[last + 1] == starts[last] { return nil }
    return Int(starts[first])..<Int(ends[last])
  }
}
