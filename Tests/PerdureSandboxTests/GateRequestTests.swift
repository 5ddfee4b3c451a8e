import PerdureModel
import PerdureSandbox
import Testing

/// What a gate makes of requests, names and addresses, without a sandbox.
@Suite struct GateRequestTests {
  private func read(_ text: String) throws(GateRefusal) -> GateRequest {
    try GateRequest(Array(text.utf8))
  }

  @Test(arguments: [
    ("CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:443\r\n\r\n", "good.test:443"),
    ("CONNECT GOOD.test:443 HTTP/1.1\r\nHost: good.test\r\n\r\n", "good.test:443"),
    ("CONNECT good.test:8443 HTTP/1.0\r\n\r\n", "good.test:8443"),
    ("CONNECT 192.0.2.1:443 HTTP/1.1\r\n\r\n", "192.0.2.1:443"),
    ("CONNECT [2001:DB8::1]:443 HTTP/1.1\r\n\r\n", "[2001:db8::1]:443"),
  ])
  func `a request to be connected names one target`(text: String, target: String) throws {
    let request = try read(text)
    #expect("\(request.target)" == target)
    #expect(request.body == .tunnel)
    #expect(request.head.isEmpty)
  }

  @Test func `what is passed on is about the server alone`() throws {
    let request = try read(
      "POST http://Good.test:8080/a?b=c HTTP/1.1\r\nHost: good.test:8080\r\nX-Kept: 1\r\n"
        + "Connection: keep-alive, X-Dropped, Content-Length, Host\r\nX-Dropped: 2\r\n"
        + "Proxy-Authorization: Basic eDp5\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\n"
    )
    #expect("\(request.target)" == "good.test:8080")
    #expect(request.body == .length(3))
    #expect(
      String(decoding: request.head, as: UTF8.self)
        == "POST /a?b=c HTTP/1.1\r\nHost: good.test:8080\r\nX-Kept: 1\r\nContent-Length: 3\r\n"
        + "Connection: close\r\n\r\n"
    )
  }

  @Test(arguments: [
    ("http://good.test", "GET / HTTP/1.1"), ("http://good.test?q", "GET /?q HTTP/1.1"),
    ("HTTP://good.test:80/x", "GET /x HTTP/1.1"),
    ("http://good.test\\@evil.test/", "GET /\\@evil.test/ HTTP/1.1"),
  ])
  func `the path begins with a slash`(word: String, line: String) throws {
    let request = try read("GET \(word) HTTP/1.1\r\nHost: good.test\r\n\r\n")
    #expect("\(request.target)" == "good.test:80")
    #expect(
      String(decoding: request.head, as: UTF8.self).hasPrefix("\(line)\r\nHost: good.test\r\n")
    )
  }

  private static let refused: [String] = [
    "", "\r\n\r\n", "\n\n", "garbage\r\n\r\n", "GET\r\n\r\n", "\u{16}\u{3}\u{1}\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "GET https://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "GET ftp://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "get http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "GET  http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "GET http://good.test/ a HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "GET http://good.test/#a HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "GET http://good.test/ HTTP/2.0\r\nHost: good.test\r\n\r\n",
    "GET http://good.test/ HTTP/1.1\r\n\r\n",
    "GET http://good.test/ HTTP/1.1\nHost: good.test\n\n",
    "GET http://good.test/ HTTP/1.1\r\nHost: good.test\n\r\n",
    "GET http://good.test/ HTTP/1.1\r\nHost: good.test\rX: y\r\n\r\n",
    "GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nHost: evil.test\r\n\r\n",
    "GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nHost: good.test\r\n\r\n",
    "GET http://good.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    "GET http://good.test/ HTTP/1.1\r\nHost: good.test:81\r\n\r\n",
    "GET http://good.test/ HTTP/1.1\r\nHost : good.test\r\n\r\n",
    "GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n folded\r\n\r\n",
    "GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n: x\r\n\r\n",
    "GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nX: a\0b\r\n\r\n",
    "GET http://u@good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "GET http://good.test@evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    "GET http:///x HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 1, 1\r\n\r\n",
    "POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: +1\r\n\r\n",
    "POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 1\r\n"
      + "Transfer-Encoding: chunked\r\n\r\n",
    "POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "POST http://good.test/ HTTP/1.0\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n",
    "CONNECT good.test HTTP/1.1\r\n\r\n", "CONNECT :443 HTTP/1.1\r\n\r\n",
    "CONNECT good.test: HTTP/1.1\r\n\r\n", "CONNECT good.test:0 HTTP/1.1\r\n\r\n",
    "CONNECT good.test:65536 HTTP/1.1\r\n\r\n", "CONNECT good.test:0443 HTTP/1.1\r\n\r\n",
    "CONNECT good.test:443:443 HTTP/1.1\r\n\r\n", "CONNECT good.test:4 43 HTTP/1.1\r\n\r\n",
    "CONNECT good.test\0.evil:443 HTTP/1.1\r\n\r\n", "CONNECT good.test.:443 HTTP/1.1\r\n\r\n",
    "CONNECT good..test:443 HTTP/1.1\r\n\r\n", "CONNECT -good.test:443 HTTP/1.1\r\n\r\n",
    "CONNECT good%2etest:443 HTTP/1.1\r\n\r\n", "CONNECT good.test@evil:443 HTTP/1.1\r\n\r\n",
    "CONNECT bücher.test:443 HTTP/1.1\r\n\r\n", "CONNECT good_.test:443 HTTP/1.1\r\n\r\n",
    "CONNECT 2130706433:443 HTTP/1.1\r\n\r\n", "CONNECT 0x7f000001:443 HTTP/1.1\r\n\r\n",
    "CONNECT 0177.0.0.1:443 HTTP/1.1\r\n\r\n", "CONNECT 127.1:443 HTTP/1.1\r\n\r\n",
    "CONNECT 127.0.0.1.:443 HTTP/1.1\r\n\r\n", "CONNECT good.0x7f:443 HTTP/1.1\r\n\r\n",
    "CONNECT [fe80::1%25lo]:443 HTTP/1.1\r\n\r\n", "CONNECT [::1:443 HTTP/1.1\r\n\r\n",
    "CONNECT [127.0.0.1]:443 HTTP/1.1\r\n\r\n", "CONNECT ::1:443 HTTP/1.1\r\n\r\n",
    "CONNECT good.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n",
    "CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:80\r\n\r\n",
    "CONNECT good.test:443 HTTP/1.1\r\nHost: good.test\r\nHost: good.test\r\n\r\n",
    "CONNECT good.test:443 HTTP/1.1\r\nContent-Length: 4\r\n\r\n",
    "CONNECT good.test:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "CONNECT http://good.test:443 HTTP/1.1\r\n\r\n",
  ]

  @Test(arguments: refused)
  func `what could be read in two ways is refused`(text: String) throws {
    let refusal = #expect(throws: GateRefusal.self) { try read(text) }
    #expect(refusal?.status == 400 || refusal?.status == 505)
  }

  @Test func `bytes of any kind are read or refused`() {
    var random = SystemRandomNumberGenerator()
    let seed = random.next()
    print("seed \(seed)")
    var state = seed
    func next() -> UInt64 {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return state >> 33
    }
    let base = Array(
      "POST http://good.test:80/a HTTP/1.1\r\nHost: good.test\r\nContent-Length: 3\r\n\r\n".utf8
    )
    let words = ["\r\n", "\n", "\0", ":", " ", "[", "]", "%", "@", "//", "Host: x\r\n", "é"]
    for _ in 0..<20_000 {
      var bytes = base
      for _ in 0...(next() % 3) {
        let place = Int(next() % UInt64(bytes.count))
        switch next() % 3 {
        case 0: bytes[place] = UInt8(truncatingIfNeeded: next())
        case 1: bytes.removeSubrange(place..<min(bytes.count, place + Int(next() % 9)))
        default: bytes.insert(contentsOf: words[Int(next() % UInt64(words.count))].utf8, at: place)
        }
        if bytes.isEmpty { bytes = [0] }
      }
      guard let request = try? GateRequest(bytes) else { continue }
      // Whatever is passed on names the target that is decided about, and nothing else.
      let head = String(decoding: request.head, as: UTF8.self)
      let hosts = head.components(of: "\r\n").filter { $0.lowercased().hasPrefix("host:") }
      let host = request.target.port == 80 ? "\(request.target.host)" : "\(request.target)"
      #expect(hosts == ["Host: \(host)"], "seed \(seed)")
    }
  }

  // MARK: Rules

  @Test(arguments: [
    ("example.com", "example.com:443", true), ("example.com", "example.com:80", true),
    ("example.com", "example.com:8080", false), ("example.com", "a.example.com:443", false),
    ("example.com", "notexample.com:443", false), ("Example.COM", "example.com:443", true),
    ("*.example.com", "a.example.com:443", true), ("*.example.com", "a.b.example.com:80", true),
    ("*.example.com", "example.com:443", false), ("*.example.com", "aexample.com:443", false),
    ("*.example.com:22", "a.example.com:22", true),
    ("*.example.com:22", "a.example.com:443", false),
    ("192.0.2.1", "192.0.2.1:443", true), ("192.0.2.1:53", "192.0.2.1:443", false),
    ("192.0.2.1", "192.0.2.2:443", false), ("[2001:db8:0::1]:9", "[2001:db8::1]:9", true),
    ("127.0.0.1", "[::ffff:127.0.0.1]:80", false), ("*.1.example", "10.0.0.1:80", false),
  ])
  func `a rule allows what it names`(rule: String, target: String, isAllowed: Bool) throws {
    let wanted = try #require(NetworkTarget(target.utf8, standardPort: nil))
    #expect(try NetworkRule(rule).allows(wanted) == isAllowed)
  }

  @Test(arguments: [
    "", "*", "*.", "*.*.example", "a.*.b", "*example.com", "example.com.", ".example.com", "a b",
    "example.com:0", "example.com:", "example.com:x", "http://example.com", "example.com/x",
    "u@example.com", "10.0.0.0/8", "*.10.0.0.1", "2130706433", "0x7f.1", "[::1", "::1",
    "[fe80::1%lo]",
    "bücher.example", "a\0b", "a\nb",
  ])
  func `what is no rule is one sentence`(text: String) {
    let error = #expect(throws: PerdureError.self) { try NetworkRule(text) }
    #expect(error?.code == .sandboxPolicy)
    #expect(error?.message.contains("is no rule for a network") == true)
  }

  // MARK: Addresses

  @Test(arguments: [
    "0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.127.255.255", "100.100.100.200",
    "127.0.0.1", "127.255.0.1", "169.254.1.1", "169.254.169.254", "168.63.129.16", "172.16.0.1",
    "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.19.255.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "::",
    "::1", "::ffff:8.8.8.8", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::1",
    "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "5f00::1",
  ])
  func `an address that is not of the internet is refused`(text: String) throws {
    #expect(try #require(NetworkAddress(literal: text)).restriction != nil)
  }

  @Test(arguments: [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
    "126.255.255.255", "128.0.0.1", "169.253.255.255", "172.15.255.255", "172.32.0.0",
    "192.167.255.255", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1111",
    "2a00:1450::1", "2001:4860:4860::8888", "64:ff9b::808:808",
  ])
  func `an address of the internet is none of those`(text: String) throws {
    #expect(try #require(NetworkAddress(literal: text)).restriction == nil)
  }

  @Test func `an address of this machine is refused unless it is listed`() throws {
    let own = try #require(NetworkAddress(literal: "127.0.0.1"))
    let rules = try NetworkRules(["good.test", "127.0.0.1:8080"])
    #expect(rules.refusal(of: own, port: 80) == "loopback")
    #expect(rules.refusal(of: own, port: 8_080) == nil)
  }
}

extension String {
  fileprivate func components(of separator: String) -> [String] {
    var parts: [String] = []
    var rest = Array(utf8)[...]
    let mark = Array(separator.utf8)
    var part: [UInt8] = []
    while !rest.isEmpty {
      if rest.starts(with: mark) {
        parts.append(String(decoding: part, as: UTF8.self))
        part = []
        rest = rest.dropFirst(mark.count)
      } else {
        part.append(contentsOf: rest.prefix(1))
        rest = rest.dropFirst()
      }
    }
    return parts + [String(decoding: part, as: UTF8.self)]
  }
}
