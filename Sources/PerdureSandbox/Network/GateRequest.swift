/// Why a gate does not do what it was asked.
package struct GateRefusal: Error, Sendable, Equatable {
  package var status: Int
  package var reason: String

  package init(_ status: Int, _ reason: String) {
    self.status = status
    self.reason = reason
  }
}

/// A request to a gate: to be connected, or to have one request of HTTP passed on.
///
/// There is one reading of a request. What another program could read in another way is refused.
package struct GateRequest: Sendable, Equatable {
  /// What follows the head.
  package enum Body: Sendable, Equatable {
    /// Whatever both sides say, until they have ended.
    case tunnel
    case length(UInt64)
    case chunked
  }

  package let target: NetworkTarget
  package let body: Body
  /// What the server is told instead of the head; empty for a tunnel.
  package let head: [UInt8]

  /// Reads a head with the empty line that ends it.
  package init(_ bytes: [UInt8]) throws(GateRefusal) {
    let head = try HTTPHead(bytes)
    let words = head.start.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
    guard words.count == 3, (1...32).contains(words[0].count),
      words[0].allSatisfy({ (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) || $0 == 0x2d })
    else { throw GateRefusal(400, "this is no request of HTTP") }
    let version = String(decoding: words[2], as: UTF8.self)
    guard version == "HTTP/1.1" || version == "HTTP/1.0" else {
      throw GateRefusal(505, "only HTTP/1.1 is spoken here")
    }
    if words[0].elementsEqual("CONNECT".utf8) {
      self = try Self(tunnel: words[1], head)
    } else {
      self = try Self(words[0], words[1], version, head)
    }
  }

  private init(tunnel word: ArraySlice<UInt8>, _ head: HTTPHead) throws(GateRefusal) {
    guard let target = NetworkTarget(word, standardPort: nil) else { throw Self.noTarget }
    let host = try head.single("host")
    if let host {
      guard let named = NetworkTarget(host, standardPort: target.port), named == target else {
        throw Self.otherHost
      }
    }
    guard try head.body() == .length(0) else {
      throw GateRefusal(400, "a request to be connected has no content")
    }
    self.init(target: target, body: .tunnel, head: [])
  }

  private init(
    _ method: ArraySlice<UInt8>,
    _ word: ArraySlice<UInt8>,
    _ version: String,
    _ head: HTTPHead
  ) throws(GateRefusal) {
    let (authority, path) = try Self.parts(word)
    guard let target = NetworkTarget(authority, standardPort: 80) else { throw Self.noTarget }
    if let host = try head.single("host") {
      guard NetworkTarget(host, standardPort: 80) == target else { throw Self.otherHost }
    } else if version == "HTTP/1.1" {
      throw GateRefusal(400, "the request has no Host")
    }
    let body = try head.body()
    if body == .chunked, version == "HTTP/1.0" {
      throw GateRefusal(400, "HTTP/1.0 has no chunks")
    }
    let host = target.port == 80 ? "\(target.host)" : "\(target)"
    var passed = Array(method) + Array(" ".utf8) + path + Array(" \(version)\r\n".utf8)
    passed += Array("Host: \(host)\r\n".utf8)
    passed += head.passed(without: ["host", "content-length"])
    switch body {
    case .length(let length):
      if try head.single("content-length") != nil {
        passed += Array("Content-Length: \(length)\r\n".utf8)
      }
    case .chunked: passed += Array("Transfer-Encoding: chunked\r\n".utf8)
    case .tunnel: break
    }
    passed += Array("Connection: close\r\n\r\n".utf8)
    self.init(target: target, body: body, head: passed)
  }

  private init(target: NetworkTarget, body: Body, head: [UInt8]) {
    self.target = target
    self.body = body
    self.head = head
  }

  private static let noTarget = GateRefusal(400, "the request names no host that could be one")
  private static let otherHost = GateRefusal(400, "the request names two hosts")

  /// The authority and the path of `http://…`.
  private static func parts(
    _ word: ArraySlice<UInt8>
  ) throws(GateRefusal) -> (authority: ArraySlice<UInt8>, path: [UInt8]) {
    let scheme = Array("http://".utf8)
    guard word.prefix(scheme.count).map({ $0 | 0x20 }).elementsEqual(scheme.map { $0 | 0x20 }),
      word.allSatisfy({ $0 > 0x20 && $0 != 0x7f && $0 != UInt8(ascii: "#") })
    else {
      throw GateRefusal(400, "this is a proxy: ask for http://HOST/PATH, or to be connected")
    }
    let rest = word.dropFirst(scheme.count)
    let ends = [UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "\\")]
    let end = rest.firstIndex { ends.contains($0) } ?? rest.endIndex
    let path = Array(rest[end...])
    let slash = UInt8(ascii: "/")
    return (rest[..<end], path.first == slash ? path : [slash] + path)
  }
}
