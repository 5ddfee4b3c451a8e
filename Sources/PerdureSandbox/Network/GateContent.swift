/// Finds the end of a request's content, so that nothing is passed on behind it.
struct GateContent {
  private enum Line {
    case size, afterChunk, last
  }

  private enum State {
    case bytes(UInt64, isChunk: Bool)
    case line(Line, [UInt8])
    case end
  }

  private var state: State

  init(_ body: GateRequest.Body) {
    state =
      switch body {
      case .chunked: .line(.size, [])
      case .length(0), .tunnel: .end
      case .length(let length): .bytes(length, isChunk: false)
      }
  }

  var isComplete: Bool { if case .end = state { true } else { false } }

  /// What of these bytes belongs to it.
  mutating func pass(_ bytes: ArraySlice<UInt8>) throws(GateRefusal) -> ArraySlice<UInt8> {
    var rest = bytes
    while let byte = rest.first, !isComplete {
      switch state {
      case .bytes(let left, let isChunk):
        let count = min(left, UInt64(rest.count))
        rest = rest.dropFirst(Int(count))
        if left > count {
          state = .bytes(left - count, isChunk: isChunk)
        } else {
          state = isChunk ? .line(.afterChunk, []) : .end
        }
      case .line(let line, let text):
        rest = rest.dropFirst()
        guard text.count < 18 else { throw Self.malformed }
        state = byte == 0x0a ? try Self.state(after: line, text) : .line(line, text + [byte])
      case .end: break
      }
    }
    return bytes[..<rest.startIndex]
  }

  private static let malformed = GateRefusal(400, "a chunk of the content is none")

  private static func state(after line: Line, _ text: [UInt8]) throws(GateRefusal) -> State {
    guard text.last == 0x0d else { throw malformed }
    let digits = text.dropLast()
    guard case .size = line else {
      // Fields behind the content are not passed on, and not dropped in silence either.
      guard digits.isEmpty else { throw malformed }
      if case .last = line { return .end }
      return .line(.size, [])
    }
    let isHexadecimal = digits.allSatisfy {
      $0.isDigit || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0 | 0x20)
    }
    guard (1...15).contains(digits.count), isHexadecimal,
      let size = UInt64(String(decoding: digits, as: UTF8.self), radix: 16)
    else { throw malformed }
    return size == 0 ? .line(.last, []) : .bytes(size, isChunk: true)
  }
}

/// Says in the head of an answer that the connection ends with it, so that no second request is sent on it.
struct GateAnswer {
  private static let most = 64 << 10

  private var head: [UInt8] = []
  private var searched = 0
  private(set) var isContent = false

  /// What is passed on for these bytes.
  mutating func pass(_ bytes: ArraySlice<UInt8>) throws(GateRefusal) -> ArraySlice<UInt8> {
    if isContent { return bytes }
    head += bytes
    var passed: [UInt8] = []
    while !isContent, let length = HTTPHead.length(head, searched: searched) {
      passed += try answer(Array(head.prefix(length)))
      head.removeFirst(length)
      searched = 0
    }
    if isContent {
      passed += head
      head = []
    } else {
      searched = head.count
      guard head.count <= Self.most else { throw GateRefusal(502, "the server's answer is none") }
    }
    return passed[...]
  }

  private mutating func answer(_ bytes: [UInt8]) throws(GateRefusal) -> [UInt8] {
    guard let head = try? HTTPHead(bytes) else {
      throw GateRefusal(502, "the server's answer is none")
    }
    let words = head.start.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
    guard words.count >= 2, words[0].starts(with: "HTTP/1.".utf8), words[1].count == 3,
      words[1].allSatisfy({ $0.isDigit }), !words[1].elementsEqual("101".utf8)
    else { throw GateRefusal(502, "the server's answer is none") }
    let line = Array(head.start) + [0x0d, 0x0a] + head.passed(without: [], keepsCoding: true)
    if words[1].first == UInt8(ascii: "1") { return line + [0x0d, 0x0a] }
    isContent = true
    return line + Array("Connection: close\r\n\r\n".utf8)
  }
}
