/// Finds a text in another one, byte by byte.
struct ByteSearch: Sendable {
  private let needle: [UInt8]
  private var steps: [Int]

  /// Takes what is looked for.
  init(_ needle: [UInt8]) {
    self.needle = needle
    steps = [Int](repeating: max(needle.count, 1), count: 256)
    for (index, byte) in needle.dropLast().enumerated() {
      steps[Int(byte)] = needle.count - 1 - index
    }
  }

  /// Where it stands, without overlaps unless they are wanted; nowhere if it is empty.
  func places(in text: [UInt8], limit: Int = .max, overlapping: Bool = false) -> [Int] {
    var places: [Int] = []
    guard let last = needle.last else { return places }
    let offset = needle.count - 1
    var end = offset
    while end < text.count, places.count < limit {
      let byte = text[end]
      if byte == last, text[(end - offset)...end].elementsEqual(needle) {
        places.append(end - offset)
        end += overlapping ? 1 : needle.count
      } else {
        end += steps[Int(byte)]
      }
    }
    return places
  }
}
