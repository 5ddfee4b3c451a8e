/// Carries bytes between the two sides of a gate.
struct GateRelay {
  /// One direction.
  private struct Flow {
    var pending: ArraySlice<UInt8>
    /// Whether nothing more is read for it.
    var hasEnded: Bool
    var passed: UInt64 = 0

    var isDone: Bool { hasEnded && pending.isEmpty }
  }

  private let client: GateSocket
  private let server: GateSocket
  private let isTunnel: Bool
  private var content: GateContent
  private var answer = GateAnswer()
  private var up: Flow
  private var down: Flow
  private var buffer = [UInt8](repeating: 0, count: 64 << 10)

  /// Begins with a request whose head was read, and with `rest`, what was read behind it.
  init(
    _ request: GateRequest,
    _ rest: ArraySlice<UInt8>,
    _ client: GateSocket,
    _ server: GateSocket
  ) throws(GateRefusal) {
    self.client = client
    self.server = server
    isTunnel = request.body == .tunnel
    content = GateContent(request.body)
    if isTunnel {
      up = Flow(pending: rest, hasEnded: false)
      down = Flow(pending: Array("HTTP/1.1 200 Connected\r\n\r\n".utf8)[...], hasEnded: false)
    } else {
      let first = try content.pass(rest)
      up = Flow(pending: (request.head + first)[...], hasEnded: content.isComplete)
      down = Flow(pending: [], hasEnded: false)
    }
  }

  /// Whether the client was told anything.
  var hasAnswered: Bool { down.passed > 0 }

  private var isDone: Bool { isTunnel ? up.isDone && down.isDone : down.isDone }

  /// Carries until both sides have ended or a bound is reached.
  mutating func run(_ limits: NetworkGate.Limits, _ closing: Bell) throws(GateRefusal) {
    let end = monotonicNanoseconds() + limits.seconds * 1_000_000_000
    while !isDone {
      let deadline = min(end, monotonicNanoseconds() + limits.idleSeconds * 1_000_000_000)
      let ready = GateSocket.wait(client, server, for: wanted, closing, until: deadline)
      guard !ready.contains(.bell) else { throw GateRefusal(503, "the gate is closed") }
      if ready.isEmpty, monotonicNanoseconds() >= deadline {
        throw GateRefusal(504, "nothing came for too long, or it took too long")
      }
      do {
        if !ready.isDisjoint(with: [.firstReads, .secondWrites]) { try carryUp() }
        if !ready.isDisjoint(with: [.secondReads, .firstWrites]) { try carryDown() }
      } catch let refusal as GateRefusal {
        throw refusal
      } catch {
        let text = (error as? SystemFailure)?.text ?? "\(error)"
        throw GateRefusal(502, "the connection broke: \(text)")
      }
      guard up.passed <= limits.bytes, down.passed <= limits.bytes else {
        throw GateRefusal(502, "more than \(limits.bytes) bytes came")
      }
    }
  }

  private var wanted: GateSocket.Events {
    var wanted: GateSocket.Events = []
    if !up.pending.isEmpty {
      wanted.insert(.secondWrites)
    } else if !up.hasEnded {
      wanted.insert(.firstReads)
    }
    if !down.pending.isEmpty {
      wanted.insert(.firstWrites)
    } else if !down.hasEnded {
      wanted.insert(.secondReads)
    }
    return wanted
  }

  private mutating func carryUp() throws {
    if up.pending.isEmpty, !up.hasEnded, let count = try client.read(into: &buffer) {
      if count == 0 {
        guard isTunnel else { throw GateRefusal(400, "the content ended before its end") }
        up.hasEnded = true
      } else if isTunnel {
        up.pending = buffer[..<count]
      } else {
        up.pending = try content.pass(buffer[..<count])
        up.hasEnded = content.isComplete
      }
    }
    try Self.push(&up, to: server, finishes: isTunnel)
  }

  private mutating func carryDown() throws {
    if down.pending.isEmpty, !down.hasEnded, let count = try server.read(into: &buffer) {
      if count == 0 {
        guard isTunnel || answer.isContent else {
          throw GateRefusal(502, "the server ended without an answer")
        }
        down.hasEnded = true
      } else {
        down.pending = isTunnel ? buffer[..<count] : try answer.pass(buffer[..<count])
      }
    }
    try Self.push(&down, to: client, finishes: true)
  }

  private static func push(
    _ flow: inout Flow,
    to socket: GateSocket,
    finishes: Bool
  ) throws(SystemFailure) {
    if !flow.pending.isEmpty {
      let sent = try socket.send(flow.pending)
      flow.pending = flow.pending.dropFirst(sent)
      flow.passed += UInt64(sent)
    }
    if finishes, flow.isDone { socket.finish() }
  }
}
