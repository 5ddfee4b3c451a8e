/// Turns the bytes of an event stream into events, however the bytes are split.
///
/// Follows https://html.spec.whatwg.org/multipage/server-sent-events.html, except that an event in
/// front of the end of the stream counts even without its blank line: servers leave it out.
package struct ServerSentEventParser: Sendable {
  /// One event; comments, ids and retry times are not events.
  package struct Event: Equatable, Sendable {
    /// The type, empty if none was named.
    package var name: String
    /// The data lines, joined by line feeds.
    package var data: [UInt8]

    /// Makes an event.
    package init(name: String = "", data: [UInt8]) {
      self.name = name
      self.data = data
    }
  }

  /// An event grew beyond the limit.
  package struct TooLong: Error {}

  private let limit: Int
  private var line: [UInt8] = []
  private var data: [UInt8] = []
  private var name = ""
  private var hasData = false
  private var isFirstLine = true
  private var lastWasCarriageReturn = false

  /// Makes a parser that refuses an event of more than `limit` bytes.
  package init(limit: Int = 16 * 1024 * 1024) { self.limit = limit }

  /// Returns the events that `bytes` completes.
  package mutating func feed(_ bytes: [UInt8]) throws(TooLong) -> [Event] {
    var events: [Event] = []
    var start = 0
    var index = 0
    while index < bytes.count {
      let byte = bytes[index]
      if byte == 0x0A || byte == 0x0D {
        // The second half of CRLF ends no further line.
        let endsLine = byte == 0x0D || !lastWasCarriageReturn
        if endsLine { endLine(bytes[start..<index], into: &events) }
        start = index + 1
        lastWasCarriageReturn = byte == 0x0D
      } else {
        lastWasCarriageReturn = false
      }
      index += 1
    }
    line.append(contentsOf: bytes[start...])
    guard line.count + data.count <= limit else { throw TooLong() }
    return events
  }

  /// Returns the event that the end of the stream completes.
  package mutating func finish() -> [Event] {
    var events: [Event] = []
    if !line.isEmpty { endLine([], into: &events) }
    dispatch(into: &events)
    return events
  }

  private mutating func endLine(_ rest: ArraySlice<UInt8>, into events: inout [Event]) {
    var whole: ArraySlice<UInt8>
    if line.isEmpty {
      whole = rest
    } else {
      line.append(contentsOf: rest)
      whole = line[...]
      line = []
    }
    if isFirstLine {
      isFirstLine = false
      if whole.starts(with: [0xEF, 0xBB, 0xBF]) { whole = whole.dropFirst(3) }
    }
    if whole.isEmpty { dispatch(into: &events) } else { readField(whole) }
  }

  private mutating func readField(_ line: ArraySlice<UInt8>) {
    let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.endIndex
    var value = line[colon...].dropFirst()
    if value.first == UInt8(ascii: " ") { value = value.dropFirst() }
    // A line that starts with a colon is a comment: it names no field.
    let field = line[..<colon]
    if field.elementsEqual("data".utf8) {
      if hasData { data.append(0x0A) }
      data.append(contentsOf: value)
      hasData = true
    } else if field.elementsEqual("event".utf8) {
      name = String(decoding: value, as: UTF8.self)
    }
  }

  private mutating func dispatch(into events: inout [Event]) {
    if hasData { events.append(Event(name: name, data: data)) }
    data = []
    name = ""
    hasData = false
  }
}
