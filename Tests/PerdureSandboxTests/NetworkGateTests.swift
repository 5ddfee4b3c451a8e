import Foundation
import PerdureModel
import PerdureSandbox
import PerdureValue
import Testing

/// A server on the loopback of the machine, in a process of its own that ends with the test.
final class WebServer: Sendable {
  private static let script = #"""
    import http.server, socketserver, sys, threading, hashlib, os
    class Web(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        def log_message(self, *a): pass
        def say(self, text, status=200, fields=()):
            data = text.encode()
            self.send_response(status)
            for k, v in fields: self.send_header(k, v)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        def do_GET(self):
            host = self.headers["Host"]
            if self.path.startswith("/big/"):
                left = int(self.path[5:])
                self.send_response(200); self.send_header("Content-Length", str(left)); self.end_headers()
                block = bytes(range(256)) * 256
                while left > 0:
                    self.wfile.write(block[:left]); left -= min(left, len(block))
            elif self.path.startswith("/to/"):
                self.say("", 302, [("Location", "http://" + self.path[4:])])
            elif self.path == "/secret": self.say("PIPELINED")
            elif self.path == "/odd":
                self.wfile.write(b"no answer of HTTP\r\n\r\n"); self.close_connection = True
            else: self.say("served %s %s\n" % (self.path, host))
        def do_POST(self):
            digest, count = hashlib.sha256(), 0
            if self.headers.get("Transfer-Encoding") == "chunked":
                while True:
                    size = int(self.rfile.readline(), 16)
                    data = self.rfile.read(size); self.rfile.readline()
                    if size == 0: break
                    digest.update(data); count += size
            else:
                left = int(self.headers.get("Content-Length", "0"))
                while left > 0:
                    data = self.rfile.read(min(left, 1 << 16)); left -= len(data)
                    digest.update(data); count += len(data)
            self.say("%d %s\n" % (count, digest.hexdigest()))
    class Echo(socketserver.BaseRequestHandler):
        def handle(self):
            os.write(1, b"begun\n")
            try:
                while True:
                    data = self.request.recv(1 << 16)
                    if not data: break
                    self.request.sendall(data)
            finally: os.write(1, b"ended\n")
    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 128
        allow_reuse_address = True
        def handle_error(self, *a): pass
    web, echo = Server(("127.0.0.1", 0), Web), Server(("127.0.0.1", 0), Echo)
    for server in (web, echo): threading.Thread(target=server.serve_forever, daemon=True).start()
    os.write(1, b"%d %d\n" % (web.server_address[1], echo.server_address[1]))
    sys.stdin.read()
    """#

  private let input = Pipe()
  private let output = Pipe()
  let web: Int
  let echo: Int

  init() throws {
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/python3")
    process.arguments = ["-c", Self.script]
    process.standardInput = input
    process.standardOutput = output
    try process.run()
    let ports = Self.line(output).split(separator: " ").compactMap { Int($0) }
    try #require(ports.count == 2)
    web = ports[0]
    echo = ports[1]
  }

  /// Waits for the next line: `begun` and `ended` for each connection that echoes.
  func line() -> String { Self.line(output) }

  private static func line(_ output: Pipe) -> String {
    var bytes = Data()
    while let byte = try? output.fileHandleForReading.read(upToCount: 1), !byte.isEmpty,
      byte.first != UInt8(ascii: "\n")
    {
      bytes += byte
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  deinit { try? input.fileHandleForWriting.close() }
}

/// Commands in a sandbox whose network is a list of rules.
@Suite(
  .enabled(
    if: Tiers.here.contains(.namespaces),
    "Tests/sandbox/impossible lets a machine without namespaces leave them out"
  )
)
struct NetworkGateTests {
  private let server: WebServer
  private let box: Box

  init() throws {
    let server = try WebServer()
    self.server = server
    box = try Box(.namespaces, resolve: Self.resolve) { policy, _ in
      policy.network = .allow([
        "good.test:\(server.web)", "*.good.test:\(server.web)", "echo.test:\(server.echo)",
        "127.0.0.1:\(server.web)", "127.0.0.1:\(server.echo)", "private.test", "metadata.test",
        "mapped.test", "own.test", "unknown.test", "closed.test:1", "127.0.0.1:1",
      ])
    }
  }

  /// Names as these tests have them: no test asks the machine's resolver.
  private static let resolve: NetworkResolver = { name in
    let text: String? =
      switch name {
      case "good.test", "a.good.test", "echo.test", "own.test", "other.test", "closed.test":
        "127.0.0.1"
      case "private.test": "10.0.0.1"
      case "metadata.test": "169.254.169.254"
      case "mapped.test": "::ffff:127.0.0.1"
      default: nil
      }
    return text.flatMap { NetworkAddress(literal: $0) }.map { [$0] } ?? []
  }

  private func curl(_ words: String) async throws -> Box.Outcome {
    try await box.run("curl -sS --max-time 60 \(words)")
  }

  /// Sends bytes to the gate as they are, and returns what comes back up to its end.
  private func send(_ python: String) async throws -> String {
    let line = """
      import socket, sys
      s = socket.create_connection(("127.0.0.1", 3128), 60)
      try: s.sendall(\(python)); s.shutdown(socket.SHUT_WR)
      except OSError: pass
      got = b""
      try:
          while True:
              data = s.recv(65536)
              if not data: break
              got += data
      except OSError: got += b" BROKEN"
      sys.stdout.write(got.decode("utf-8", "replace"))
      """
    try await box.env.writeFile("send.py", line)
    return try await box.run("python3 send.py").output
  }

  private func requests(_ outcome: Box.Outcome) -> [JSON] {
    outcome.confinement?.facts["requests"]?.array ?? []
  }

  // MARK: What is allowed

  @Test(arguments: ["good.test", "a.good.test", "GOOD.test", "127.0.0.1"])
  func `a host that a rule names is reached, and the result says so`(host: String) async throws {
    defer { box.remove() }
    let outcome = try await curl("http://\(host):\(server.web)/x")
    #expect(outcome.output == "served /x \(host.lowercased()):\(server.web)\n")
    let request = requests(outcome).first
    #expect(request?["target"]?.text == "\(host.lowercased()):\(server.web)")
    #expect(request?["outcome"] == "allowed")
    #expect(request?["address"] == "127.0.0.1")
    await box.env.close()
  }

  @Test func `a tunnel leads to a host that a rule names`() async throws {
    defer { box.remove() }
    let outcome = try await curl("--proxytunnel http://good.test:\(server.web)/y")
    #expect(outcome.output == "served /y good.test:\(server.web)\n", "\(outcome.errors)")
    await box.env.close()
  }

  @Test func `programs find the proxy in their variables, and no exception from it`() async throws {
    defer { box.remove() }
    let line = """
      import os, urllib.request
      print(urllib.request.urlopen("http://good.test:\(server.web)/z", timeout=60).read().decode(), end="")
      print([os.environ[n] for n in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")])
      print([os.environ[n] for n in ("no_proxy", "NO_PROXY")])
      """
    try await box.env.writeFile("ask.py", line)
    let proxy = "'http://127.0.0.1:3128'"
    let outcome = try await box.run("python3 ask.py")
    #expect(
      outcome.output
        == "served /z good.test:\(server.web)\n[\(proxy), \(proxy), \(proxy), \(proxy)]\n['', '']\n",
      "\(outcome.errors)"
    )
    await box.env.close()
  }

  @Test func `64 connections at once get each its own answer`() async throws {
    defer { box.remove() }
    let outcome = try await box.run(
      """
      for i in $(seq 64); do \
      curl -sS --max-time 120 http://good.test:\(server.web)/n$i > out.$i 2>&1 & done; wait; \
      for i in $(seq 64); do grep -qx "served /n$i good.test:\(server.web)" out.$i && echo ok; done
      """
    )
    #expect(outcome.output == String(repeating: "ok\n", count: 64), "\(outcome.errors)")
    #expect(requests(outcome).first?["count"] == 64)
    await box.env.close()
  }

  @Test func `much is carried both ways, to the byte`() async throws {
    defer { box.remove() }
    let size = 64 << 20
    let outcome = try await box.run(
      """
      head -c \(size) /dev/urandom > f; sum=$(sha256sum < f | cut -d' ' -f1); \
      for how in "" "-H Transfer-Encoding:chunked" --proxytunnel; do \
      curl -sS --max-time 300 $how -H Expect: -T f -X POST http://good.test:\(server.web)/ > got; \
      test "$(cat got)" = "\(size) $sum" && echo up; done; \
      for how in "" --proxytunnel; do \
      curl -sS --max-time 300 $how http://good.test:\(server.web)/big/\(size) | wc -c; done
      """
    )
    #expect(outcome.output == "up\nup\nup\n\(size)\n\(size)\n", "\(outcome.errors)")
    await box.env.close()
  }

  @Test func `a tunnel carries while both sides speak, and each end by itself`() async throws {
    defer { box.remove() }
    let line = """
      import socket, threading, hashlib, os
      s = socket.create_connection(("127.0.0.1", 3128), 60)
      s.sendall(b"CONNECT echo.test:\(server.echo) HTTP/1.1\\r\\n\\r\\n")
      head = b""
      while not head.endswith(b"\\r\\n\\r\\n"): head += s.recv(1)
      print(head.split(b"\\r\\n")[0].decode())
      data = os.urandom(8 << 20)
      def up(): s.sendall(data); s.shutdown(socket.SHUT_WR)
      threading.Thread(target=up).start()
      got = b""
      while True:
          part = s.recv(1 << 16)
          if not part: break
          got += part
      print(got == data)
      """
    try await box.env.writeFile("tunnel.py", line)
    let outcome = try await box.run("python3 tunnel.py")
    #expect(
      outcome.output == "HTTP/1.1 200 Connected\nTrue\n",
      "\(outcome.errors) \(requests(outcome))"
    )
    await box.env.close()
  }

  // MARK: What is not

  @Test func `a host that no rule names is refused, by name`() async throws {
    defer { box.remove() }
    for how in ["", "--proxytunnel"] {
      let outcome = try await curl("-i \(how) http://other.test:\(server.web)/")
      #expect((outcome.output + outcome.errors).contains("403"))
      #expect(outcome.output.contains("no rule allows other.test:\(server.web)"))
      let request = requests(outcome).first
      #expect(request?["outcome"] == "refused")
      #expect(request?["reason"]?.text == "no rule allows other.test:\(server.web)")
    }
    await box.env.close()
  }

  @Test(arguments: [
    ("good.test:81", "the rule good.test:"), ("private.test", "10.0.0.1 (private)"),
    ("metadata.test", "169.254.169.254 (metadata)"), ("mapped.test", "(loopback or mapped)"),
    ("own.test", "127.0.0.1 (loopback)"), ("10.0.0.1", "no rule allows 10.0.0.1:80"),
    ("[::1]", "no rule allows [::1]:80"), ("localhost", "no rule allows localhost:80"),
    ("169.254.169.254", "no rule allows 169.254.169.254:80"),
  ])
  func `what a rule does not allow is refused with the reason`(
    target: String,
    reason: String
  ) async throws {
    defer { box.remove() }
    let outcome = try await curl("-g -i http://\(target)/")
    #expect(outcome.output.hasPrefix("HTTP/1.1 403 "), "\(outcome.output) \(outcome.errors)")
    #expect(outcome.output.contains(reason), "\(outcome.output)")
    await box.env.close()
  }

  @Test(arguments: [
    ("unknown.test", "the name unknown.test has no address"),
    ("closed.test:1", "closed.test:1 cannot be reached"),
  ])
  func `a host that is not there is told apart from one that is not allowed`(
    target: String,
    reason: String
  ) async throws {
    defer { box.remove() }
    let outcome = try await curl("-i http://\(target)/")
    #expect(outcome.output.hasPrefix("HTTP/1.1 502 ") && outcome.output.contains(reason))
    #expect(requests(outcome).first?["outcome"] == "failed")
    await box.env.close()
  }

  @Test func `where an answer leads is decided anew`() async throws {
    defer { box.remove() }
    let good = try await curl("-L http://good.test:\(server.web)/to/a.good.test:\(server.web)/q")
    #expect(good.output == "served /q a.good.test:\(server.web)\n")
    let bad = try await curl("-L -i http://good.test:\(server.web)/to/other.test:\(server.web)/q")
    #expect(bad.output.contains("HTTP/1.1 403 no rule allows other.test:\(server.web)"))
    await box.env.close()
  }

  @Test func `nothing is reached beside the gate`() async throws {
    defer { box.remove() }
    let line = """
      import socket
      for kind, address in ((socket.SOCK_STREAM, ("127.0.0.1", \(server.web))),
                            (socket.SOCK_STREAM, ("1.1.1.1", 443)), (socket.SOCK_DGRAM, ("1.1.1.1", 53))):
          s = socket.socket(socket.AF_INET, kind)
          s.settimeout(20)
          try: s.connect(address); print("connected")
          except OSError as e: print(e.strerror)
      try: socket.getaddrinfo("good.test", 80); print("resolved")
      except OSError: print("no name")
      """
    try await box.env.writeFile("direct.py", line)
    let outcome = try await box.run("python3 direct.py")
    #expect(
      outcome.output
        == "Connection refused\nNetwork is unreachable\nNetwork is unreachable\nno name\n"
    )
    await box.env.close()
  }

  // MARK: What is no request

  @Test func `requests that are none are refused, and the gate goes on`() async throws {
    defer { box.remove() }
    let target = "good.test:\(server.web)"
    let cases: [(python: String, status: String)] = [
      ("b'\\x16\\x03\\x01' + bytes(500)", "400"), ("b'garbage\\r\\n\\r\\n'", "400"),
      ("b'GARBAGE\\r\\n\\r\\n'", "400"), ("bytes(range(256)) * 64", "400"),
      ("b'A' * (1 << 20)", "431"),
      ("b'GET http://\(target)/ HTTP/1.1\\r\\n' + b'X: ' + b'y' * (1 << 20)", "431"),
      (
        "b'GET http://\(target)/ HTTP/1.1\\r\\nHost: \(target)\\r\\n' + b'X: y\\r\\n' * 200000 + b'\\r\\n'",
        "431"
      ),
      ("b'CONNECT good.test\\x00.evil.test:\(server.web) HTTP/1.1\\r\\n\\r\\n'", "400"),
      (
        "b'GET http://\(target)/ HTTP/1.1\\r\\nHost: \(target)\\r\\nHost: other.test\\r\\n\\r\\n'",
        "400"
      ),
      ("b'GET http://\(target)/ HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n'", "400"),
      ("b'GET http://\(target)/ HTTP/1.1\\r\\nHost: \(target)\\r\\n\\tfolded\\r\\n\\r\\n'", "400"),
      ("b'GET / HTTP/1.1\\r\\nHost: \(target)\\r\\n\\r\\n'", "400"),
      ("b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'", "505"),
      (
        "b'POST http://\(target)/ HTTP/1.1\\r\\nHost: \(target)\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\nzz\\r\\n'",
        "400"
      ),
      (
        "b'POST http://\(target)/ HTTP/1.1\\r\\nHost: \(target)\\r\\nContent-Length: 9\\r\\n\\r\\nabc'",
        "400"
      ),
      ("b'GET http://\(target)/odd HTTP/1.1\\r\\nHost: \(target)\\r\\n\\r\\n'", "502"),
    ]
    for test in cases {
      let got = try await send(test.python)
      #expect(got.hasPrefix("HTTP/1.1 \(test.status) "), "\(test.python): \(got.prefix(200))")
      #expect(!got.contains("served"))
    }
    #expect(try await send("b''") == "")
    #expect(try await curl("http://\(target)/still").output.hasPrefix("served /still"))
    await box.env.close()
  }

  @Test func `a request behind another one on a connection is not served`() async throws {
    defer { box.remove() }
    let target = "good.test:\(server.web)"
    let got = try await send(
      "b'POST http://\(target)/ HTTP/1.1\\r\\nHost: \(target)\\r\\nContent-Length: 3\\r\\n\\r\\nabc"
        + "GET /secret HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n'"
    )
    #expect(got.hasPrefix("HTTP/1.1 200 "))
    #expect(got.contains("\r\nConnection: close\r\n"))
    #expect(got.contains("3 ba7816bf"))
    #expect(!got.contains("PIPELINED"))
    await box.env.close()
  }

  // MARK: Its life

  @Test func `a sandbox that is closed ends what its gate carries`() async throws {
    defer { box.remove() }
    let line = """
      import socket
      s = socket.create_connection(("127.0.0.1", 3128), 60)
      s.settimeout(None)
      s.sendall(b"CONNECT echo.test:\(server.echo) HTTP/1.1\\r\\n\\r\\n")
      print(s.recv(100), flush=True)
      s.recv(100)
      """
    try await box.env.writeFile("stay.py", line)
    let (output, continuation) = AsyncStream.makeStream(of: String.self)
    async let ended = box.env.execute(.shell("python3 stay.py"), ExecutionOptions()) { chunk in
      continuation.yield(chunk.text)
    }
    var lines = output.makeAsyncIterator()
    #expect(await lines.next()?.contains("200 Connected") == true)
    #expect(server.line() == "begun")
    await box.env.close()
    _ = try? await ended
    #expect(server.line() == "ended")
  }

  @Test func `each sandbox has a gate of its own`() async throws {
    defer { box.remove() }
    let second = try Box(.namespaces, resolve: Self.resolve) { policy, _ in
      policy.network = .allow(["other.test:\(server.web)", "127.0.0.1:\(server.web)"])
    }
    defer { second.remove() }
    for (sandbox, host, status) in [
      (box, "good.test", "200"), (box, "other.test", "403"), (second, "good.test", "403"),
      (second, "other.test", "200"),
    ] {
      let line =
        "curl -sS --max-time 60 -o /dev/null -w '%{http_code}' http://\(host):\(server.web)/"
      #expect(try await sandbox.run(line).output == status)
    }
    await box.env.close()
    await second.env.close()
  }

  @Test func `the environment says what its network is`() async throws {
    defer { box.remove() }
    let confinement = box.env.confinement
    #expect(confinement.facts["network"] == "allow")
    let allowed = confinement.facts["allowed"]?.array?.compactMap { $0.text } ?? []
    #expect(allowed.contains("*.good.test:\(server.web)"))
    #expect(confinement.commands?.contains("with no network but good.test:\(server.web)") == true)
    await box.env.close()
  }
}
