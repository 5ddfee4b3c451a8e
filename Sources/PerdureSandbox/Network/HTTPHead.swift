/// The first line and the fields of a message of HTTP.
struct HTTPHead {
  let start: ArraySlice<UInt8>
  /// Names in lower case.
  private let fields: [(name: String, value: ArraySlice<UInt8>, line: ArraySlice<UInt8>)]

  /// How many bytes of `bytes` are a head, once all of it is there, whoever ends lines how.
  ///
  /// `searched` bytes were looked at before.
  static func length(_ bytes: [UInt8], searched: Int) -> Int? {
    var place = max(0, searched - 3)
    while let end = bytes[place...].firstIndex(of: 0x0a) {
      let rest = bytes[(end + 1)...]
      if rest.first == 0x0a { return end + 2 }
      if rest.starts(with: [0x0d, 0x0a]) { return end + 3 }
      place = end + 1
    }
    return nil
  }

  /// Reads a head with the empty line that ends it; a line ends with CR LF and in no other way.
  init(_ bytes: [UInt8]) throws(GateRefusal) {
    var lines: [ArraySlice<UInt8>] = []
    var rest = bytes[...]
    while let end = rest.firstIndex(of: 0x0a) {
      let line = rest[..<end]
      guard line.last == 0x0d, !line.dropLast().contains(where: { $0 < 0x20 && $0 != 0x09 }) else {
        throw GateRefusal(400, "a line of the head is none")
      }
      lines.append(line.dropLast())
      rest = rest[(end + 1)...]
    }
    guard rest.isEmpty, let first = lines.first, lines.last?.isEmpty == true, lines.count >= 2,
      !first.isEmpty, lines.count <= 256
    else { throw GateRefusal(400, "the head is none") }
    start = first
    fields = try lines.dropFirst().dropLast().map { (line) throws(GateRefusal) in
      guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
        line[..<colon].allSatisfy(Self.isNameByte)
      else { throw GateRefusal(400, "a field of the head is none") }
      var value = line[(colon + 1)...]
      while let byte = value.first, byte == 0x20 || byte == 0x09 { value = value.dropFirst() }
      while let byte = value.last, byte == 0x20 || byte == 0x09 { value = value.dropLast() }
      return (String(decoding: line[..<colon], as: UTF8.self).lowercased(), value, line)
    }
  }

  private static func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"):
      true
    default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }
  }

  /// The value of a field that may be there once.
  func single(_ name: String) throws(GateRefusal) -> ArraySlice<UInt8>? {
    let found = fields.filter { $0.name == name }
    guard found.count <= 1 else { throw GateRefusal(400, "the request has two of \(name)") }
    return found.first?.value
  }

  /// What the fields say about the content.
  func body() throws(GateRefusal) -> GateRequest.Body {
    let length = try single("content-length")
    if let coding = try single("transfer-encoding") {
      guard length == nil, String(decoding: coding, as: UTF8.self).lowercased() == "chunked" else {
        throw GateRefusal(400, "how long the content is can be read in two ways")
      }
      return .chunked
    }
    guard let length else { return .length(0) }
    guard (1...18).contains(length.count), length.allSatisfy({ $0.isDigit }),
      let number = UInt64(String(decoding: length, as: UTF8.self))
    else { throw GateRefusal(400, "the length of the content is none") }
    return .length(number)
  }

  /// What is only about one connection.
  private static let hops: Set<String> = [
    "connection", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate",
    "te", "trailer", "upgrade", "http2-settings",
  ]

  /// The fields that are passed on, without those of this connection and some others.
  func passed(without others: Set<String>, keepsCoding: Bool = false) -> [UInt8] {
    var out = Self.hops.union(others)
    if !keepsCoding { out.insert("transfer-encoding") }
    // What the sender wants to keep to this connection, too.
    for field in fields where field.name == "connection" {
      for word in field.value.split(separator: UInt8(ascii: ",")) {
        out.insert(
          String(decoding: word.filter { $0 != 0x20 && $0 != 0x09 }, as: UTF8.self).lowercased()
        )
      }
    }
    if keepsCoding { out.subtract(["transfer-encoding", "content-length"]) }
    return fields.filter { !out.contains($0.name) }.flatMap { $0.line + [0x0d, 0x0a] }
  }
}
