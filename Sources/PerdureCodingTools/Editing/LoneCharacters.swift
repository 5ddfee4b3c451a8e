/// Knows the characters of one code point that stand alone, whatever is beside them, and what each
/// looks like.
struct LoneCharacters: Sendable {
  private enum State: UInt8 { case unknown, same, mapped, other }

  /// Of the first 65,536 code points.
  private var states: [State] = []
  /// What those that do not look like themselves look like.
  private var mapped: [UInt32: [UInt8]] = [:]

  /// Where the character at a place ends, and what it looks like if not like itself; `nil` if it or
  /// what is behind it is none that stands alone, and within a character.
  mutating func next(
    of text: ArraySlice<UInt8>,
    at place: Int
  ) -> (end: Int, mapped: [UInt8]?)? {
    guard let (value, end) = Self.scalar(of: text, at: place), state(of: value) != .other else {
      return nil
    }
    if end < text.endIndex {
      guard let (next, _) = Self.scalar(of: text, at: end), state(of: next) != .other else {
        return nil
      }
    }
    return (end, state(of: value) == .mapped ? mapped[value] : nil)
  }

  private static func scalar(
    of text: ArraySlice<UInt8>,
    at place: Int
  ) -> (value: UInt32, end: Int)? {
    let lead = text[place]
    if lead < 0x80 { return (UInt32(lead), place + 1) }
    let length: Int
    var value: UInt32
    switch lead {
    case 0xC2...0xDF: (length, value) = (2, UInt32(lead & 0x1F))
    case 0xE0...0xEF: (length, value) = (3, UInt32(lead & 0x0F))
    default: return nil
    }
    guard place + length <= text.endIndex else { return nil }
    for index in (place + 1)..<(place + length) {
      guard text[index] & 0xC0 == 0x80 else { return nil }
      value = value << 6 | UInt32(text[index] & 0x3F)
    }
    return (value, place + length)
  }

  private mutating func state(of value: UInt32) -> State {
    if value < 0x80 { return .same }
    if states.isEmpty { states = [State](repeating: .unknown, count: 0x1_0000) }
    let index = Int(value)
    if states[index] == .unknown { states[index] = find(value) }
    return states[index]
  }

  private mutating func find(_ value: UInt32) -> State {
    guard let scalar = Unicode.Scalar(value), !scalar.properties.isGraphemeExtend else {
      return .other
    }
    switch value {
    // Parts of Korean syllables, and a letter that goes with the one behind it.
    case 0x1100...0x11FF, 0xA960...0xA97F, 0xD7B0...0xD7FF, 0x0D4E: return .other
    default: break
    }
    switch scalar.properties.generalCategory {
    case .nonspacingMark, .spacingMark, .enclosingMark, .format, .control, .unassigned,
      .privateUse, .surrogate:
      return .other
    default:
      let plain = Array(Compatibility.plain(String(scalar)).utf8)
      if plain.elementsEqual(String(scalar).utf8) { return .same }
      mapped[value] = plain
      return .mapped
    }
  }
}
