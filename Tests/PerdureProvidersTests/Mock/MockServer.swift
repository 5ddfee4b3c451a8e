import Glibc
import PerdureValue
import Synchronization

/// What a mock server received.
struct MockRequest: Sendable {
  var method = ""
  var target = ""
  var fields: [(name: String, value: String)] = []
  var body: [UInt8] = []

  subscript(name: String) -> String? { fields.first { $0.name.lowercased() == name }?.value }

  var json: JSON { (try? JSON(parsing: body)) ?? .null }
}

/// What a mock server does with a valid request.
struct MockAnswer: Sendable {
  enum Ending: Sendable {
    /// As HTTP wants it; the connection stays open.
    case complete
    /// The connection is closed inside the body.
    case cut
    /// Nothing more comes until the client goes away.
    case stall
    /// The connection is reset.
    case reset
  }

  var status = 200
  var fields: [(name: String, value: String)] = [("Content-Type", "text/event-stream")]
  /// Each is written by one call, as one chunk.
  var pieces: [[UInt8]] = []
  /// Whether not even a status line is sent.
  var isSilent = false
  var ending = Ending.complete

  init(status: Int = 200, _ texts: [String] = [], ending: Ending = .complete) {
    self.status = status
    pieces = texts.map { Array($0.utf8) }
    self.ending = ending
  }
}

/// A strict Chat Completions server on loopback: it refuses what a real one would refuse, records
/// what it gets, and otherwise plays the answer of the test.
final class MockServer: Sendable {
  private static let end = Array("0\r\n\r\n".utf8)

  let port: UInt16
  private let listener: Int32
  private let answer: @Sendable (MockRequest) -> MockAnswer
  private let accepted = Atomic(0)
  private let received = Mutex<[MockRequest]>([])

  var requests: [MockRequest] { received.withLock { $0 } }
  /// The number of connections so far.
  var connections: Int { accepted.load(ordering: .sequentiallyConsistent) }
  var baseURL: String { "http://127.0.0.1:\(port)/v1" }

  init(_ answer: @escaping @Sendable (MockRequest) -> MockAnswer) throws {
    guard Environment.bypassesProxies else { throw MockSocket.NoSocket() }
    self.answer = answer
    listener = try MockSocket.listen()
    port = MockSocket.port(of: listener)
    let listener = listener
    MockSocket.thread { [weak self] in
      while true {
        let connection = accept(listener, nil, nil)
        guard connection >= 0 else { break }
        guard let self else {
          close(connection)
          break
        }
        self.accepted.add(1, ordering: .sequentiallyConsistent)
        MockSocket.sendAtOnce(connection)
        MockSocket.thread { self.serve(connection) }
      }
      close(listener)
    }
  }

  convenience init(_ answer: MockAnswer) throws { try self.init { _ in answer } }

  deinit { shutdown(listener, Int32(SHUT_RDWR)) }

  private func serve(_ connection: Int32) {
    var input: [UInt8] = []
    while let request = MockSocket.readRequest(connection, &input) {
      received.withLock { $0.append(request) }
      var reply: MockAnswer
      if let refusal = MockRules.refusal(of: request) {
        let error: JSON = ["error": ["message": .string(refusal), "type": "invalid_request_error"]]
        reply = MockAnswer(status: 400, [error.compactText])
        reply.fields = [("Content-Type", "application/json")]
      } else {
        reply = answer(request)
      }
      guard play(reply, on: connection) else { break }
    }
    close(connection)
  }

  /// Returns whether the connection can take another request.
  private func play(_ reply: MockAnswer, on connection: Int32) -> Bool {
    if !reply.isSilent {
      var head = "HTTP/1.1 \(reply.status) Mock\r\nTransfer-Encoding: chunked\r\n"
      for (name, value) in reply.fields { head += "\(name): \(value)\r\n" }
      MockSocket.write(Array("\(head)\r\n".utf8), to: connection)
      for (position, piece) in reply.pieces.enumerated() where !piece.isEmpty {
        let size = String(piece.count, radix: 16)
        var chunk = Array("\(size)\r\n".utf8) + piece + Array("\r\n".utf8)
        // The end comes with the last piece, so that the client has seen both when it goes on.
        let isLast = position == reply.pieces.count - 1
        if isLast, case .complete = reply.ending { chunk += Self.end }
        MockSocket.write(chunk, to: connection)
      }
    }
    switch reply.ending {
    case .complete:
      if reply.isSilent { return false }
      if reply.pieces.last?.isEmpty ?? true { MockSocket.write(Self.end, to: connection) }
      return true
    case .cut: return false
    case .stall:
      MockSocket.waitForClose(connection)
      return false
    case .reset:
      MockSocket.resetOnClose(connection)
      return false
    }
  }
}
