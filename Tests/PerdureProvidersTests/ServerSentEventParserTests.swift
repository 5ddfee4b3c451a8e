import PerdureProviders
import Testing

@Suite struct ServerSentEventParserTests {
  struct Row: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var stream: String
    var data: [String]
    var names: [String] = []
  }

  static let rows = [
    Row(testDescription: "line feeds", stream: "data: a\n\ndata: b\n\n", data: ["a", "b"]),
    Row(testDescription: "CRLF", stream: "data: a\r\n\r\ndata: b\r\n\r\n", data: ["a", "b"]),
    Row(testDescription: "CR", stream: "data: a\r\rdata: b\r\r", data: ["a", "b"]),
    Row(
      testDescription: "all mixed",
      stream: "data: a\r\n\ndata: b\r\rdata: c\n\r",
      data: ["a", "b", "c"]
    ),
    Row(testDescription: "byte order mark", stream: "\u{FEFF}data: a\n\n", data: ["a"]),
    Row(testDescription: "second byte order mark", stream: "\u{FEFF}\u{FEFF}data: a\n\n", data: []),
    Row(testDescription: "comments", stream: ": hi\n\n:\ndata: a\n: x\n\n", data: ["a"]),
    Row(testDescription: "many lines", stream: "data: a\ndata:\ndata: b\n\n", data: ["a\n\nb"]),
    Row(testDescription: "no space", stream: "data:a\n\n", data: ["a"]),
    Row(testDescription: "one of two spaces", stream: "data:  a\n\n", data: [" a"]),
    Row(testDescription: "no colon", stream: "data\n\ndata\ndata\n\n", data: ["", "\n"]),
    Row(testDescription: "no final blank line", stream: "data: a\n\ndata: b\n", data: ["a", "b"]),
    Row(testDescription: "no final line end", stream: "data: a\n\ndata: b", data: ["a", "b"]),
    Row(
      testDescription: "other fields",
      stream: "id: 1\nretry: 5\nfoo: x\ndata: a\n\n",
      data: ["a"]
    ),
    Row(testDescription: "an event without data", stream: "event: x\n\ndata: a\n\n", data: ["a"]),
    Row(
      testDescription: "names",
      stream: "event: x\ndata: a\n\ndata: b\n\n",
      data: ["a", "b"],
      names: ["x", ""]
    ),
    Row(testDescription: "colons in data", stream: "data: a: b\n\n", data: ["a: b"]),
    Row(
      testDescription: "field names match whole",
      stream: "datax: a\nDATA: b\n data: c\n\n",
      data: []
    ),
    Row(testDescription: "nothing", stream: "", data: []),
    Row(testDescription: "text beyond ASCII", stream: "data: é🙂\n\n", data: ["é🙂"]),
  ]

  private func events(
    _ pieces: [[UInt8]]
  ) throws -> [ServerSentEventParser.Event] {
    var parser = ServerSentEventParser()
    var events: [ServerSentEventParser.Event] = []
    for piece in pieces { events += try parser.feed(piece) }
    return events + parser.finish()
  }

  @Test(arguments: rows)
  func `a stream is read as the standard says`(row: Row) throws {
    let events = try events([Array(row.stream.utf8)])
    #expect(events.map { String(decoding: $0.data, as: UTF8.self) } == row.data)
    if !row.names.isEmpty { #expect(events.map(\.name) == row.names) }
  }

  @Test(arguments: rows)
  func `single bytes give the same events as the whole`(row: Row) throws {
    let whole = try events([Array(row.stream.utf8)])
    #expect(try events(row.stream.utf8.map { [$0] }) == whole)
  }

  @Test func `any split of any stream gives the same events as the whole`() throws {
    let seed = UInt64.random(in: 0 ... .max)
    print("seed of the random splits: \(seed)")
    var random = SeededGenerator(seed: seed)
    let alphabet = [
      "data: a", "data:", "\n", "\r", "\r\n", ": c", "event: x", "é", "\u{FEFF}", "d",
    ]
    for _ in 0..<2000 {
      let length = Int.random(in: 0...30, using: &random)
      let text = (0..<length).map { _ in alphabet.randomElement(using: &random) ?? "" }.joined()
      let bytes = Array(text.utf8)
      var pieces: [[UInt8]] = []
      var rest = bytes[...]
      while !rest.isEmpty {
        let count = Int.random(in: 1...rest.count, using: &random)
        pieces.append(Array(rest.prefix(count)))
        rest = rest.dropFirst(count)
      }
      #expect(
        try events(pieces) == events([bytes]),
        "seed \(seed), stream \(text.debugDescription)"
      )
    }
  }

  @Test func `an endless event is refused`() {
    var parser = ServerSentEventParser(limit: 100)
    #expect(throws: ServerSentEventParser.TooLong.self) {
      for _ in 0..<40 { _ = try parser.feed(Array("data: 1234\n".utf8)) }
    }
  }
}

/// SplitMix64, so that a printed seed repeats a run.
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}
