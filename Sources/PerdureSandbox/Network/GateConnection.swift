/// One connection from inside, from its first byte to its last; everything in it blocks.
struct GateConnection {
  let client: GateSocket
  let core: GateCore

  private var limits: NetworkGate.Limits { core.limits }

  func serve() {
    do {
      let (request, rest) = try readRequest()
      let server = try open(request.target)
      var relay = try GateRelay(request, rest, client, server)
      do throws(GateRefusal) {
        try relay.run(limits, core.closing)
      } catch {
        if !core.isClosed {
          let reason = error.reason
          core.note(GateDecision(target: request.target, outcome: .failed, reason: reason))
        }
        guard !relay.hasAnswered else { return }
        throw error
      }
    } catch let refusal as GateRefusal {
      answer(refusal)
    } catch {
      // Who asked has gone.
      return
    }
    linger()
  }

  private func readRequest() throws -> (GateRequest, ArraySlice<UInt8>) {
    let deadline = monotonicNanoseconds() + limits.headSeconds * 1_000_000_000
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 8 << 10)
    while true {
      let ready = GateSocket.wait(client, for: .firstReads, core.closing, until: deadline)
      guard !ready.contains(.bell) else { throw GateRefusal(503, "the gate is closed") }
      if ready.isEmpty {
        guard monotonicNanoseconds() < deadline else { throw malformed(408, "no request came") }
        continue
      }
      guard let count = try client.read(into: &buffer) else { continue }
      let searched = bytes.count
      bytes += buffer[..<count]
      // Whoever came to look only is told nothing.
      guard let first = bytes.first else { throw SystemFailure(Int32(0)) }
      guard (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(first), count > 0 else {
        throw malformed(400, "this is no request of HTTP")
      }
      if let length = HTTPHead.length(bytes, searched: searched), length <= limits.headBytes {
        do throws(GateRefusal) {
          return (try GateRequest(Array(bytes[..<length])), bytes[length...])
        } catch {
          throw malformed(error.status, error.reason)
        }
      }
      guard bytes.count <= limits.headBytes else {
        throw malformed(431, "the head has more than \(limits.headBytes) bytes")
      }
    }
  }

  private func malformed(_ status: Int, _ reason: String) -> GateRefusal {
    core.note(GateDecision(target: nil, outcome: .refused, reason: reason))
    return GateRefusal(status, reason)
  }

  // MARK: Where it goes

  /// Decides, and connects to an address that was looked at.
  private func open(_ target: NetworkTarget) throws(GateRefusal) -> GateSocket {
    do {
      let (address, socket) = try connect(target, try addresses(of: target))
      core.note(GateDecision(target: target, outcome: .allowed, address: address))
      return socket
    } catch {
      let outcome: GateDecision.Outcome = error.status == 403 ? .refused : .failed
      core.note(GateDecision(target: target, outcome: outcome, reason: error.reason))
      throw error
    }
  }

  private func addresses(of target: NetworkTarget) throws(GateRefusal) -> [NetworkAddress] {
    guard let rule = core.rules.rule(for: target) else {
      throw GateRefusal(403, core.rules.refusal(of: target))
    }
    guard case .name(let name) = target.host else {
      if case .address(let address) = target.host { return [address] }
      return []
    }
    let found = core.resolve(name)
    guard let first = found.first else {
      throw GateRefusal(502, "the name \(name) has no address")
    }
    let allowed = found.filter { core.rules.refusal(of: $0, port: target.port) == nil }
    guard !allowed.isEmpty else {
      let kind = core.rules.refusal(of: first, port: target.port) ?? ""
      throw GateRefusal(
        403,
        "the rule \(rule) allows \(target), but not its address \(first) (\(kind))"
      )
    }
    return allowed
  }

  private func connect(
    _ target: NetworkTarget,
    _ addresses: [NetworkAddress]
  ) throws(GateRefusal) -> (NetworkAddress, GateSocket) {
    var reason = "it has no address"
    let deadline = monotonicNanoseconds() + limits.connectSeconds * 1_000_000_000
    for (index, address) in addresses.prefix(8).enumerated() {
      // What is left is shared among those that are left.
      let left = deadline - monotonicNanoseconds()
      let share = left / Int64(min(addresses.count, 8) - index)
      do throws(SystemFailure) {
        let socket = try GateSocket.connecting(to: address, port: target.port)
        let end = monotonicNanoseconds() + max(share, 0)
        var ready: GateSocket.Events = []
        while ready.isEmpty, monotonicNanoseconds() < end {
          ready = GateSocket.wait(socket, for: .firstWrites, core.closing, until: end)
        }
        guard !ready.contains(.bell) else { break }
        if ready.isEmpty {
          reason = "it does not answer"
          continue
        }
        try socket.requireConnected()
        return (address, socket)
      } catch {
        reason = error.text
      }
    }
    throw GateRefusal(502, "\(target) cannot be reached: \(reason)")
  }

  // MARK: What it is told

  private func answer(_ refusal: GateRefusal) {
    let rules = core.rules.rules.prefix(32).map { "\($0)" }.joined(separator: ", ")
    let text = "perdure: \(refusal.reason)\nrules of this network: \(rules)\n"
    // Many programs show this line alone.
    let head = """
      HTTP/1.1 \(refusal.status) \(refusal.reason)\r
      Content-Type: text/plain\r
      Content-Length: \(text.utf8.count)\r
      Connection: close\r
      \r

      """
    var rest = Array((head + text).utf8)[...]
    let deadline = monotonicNanoseconds() + 10_000_000_000
    while !rest.isEmpty, monotonicNanoseconds() < deadline {
      let ready = GateSocket.wait(client, for: .firstWrites, core.closing, until: deadline)
      guard ready.contains(.firstWrites), let sent = try? client.send(rest) else { return }
      rest = rest.dropFirst(sent)
    }
  }

  /// Lets the other side read what it was told: a connection that is closed over bytes which nobody has read
  /// takes that with it.
  private func linger() {
    client.finish()
    let deadline = monotonicNanoseconds() + 2_000_000_000
    var buffer = [UInt8](repeating: 0, count: 64 << 10)
    var left = 16 << 20
    while left > 0, monotonicNanoseconds() < deadline {
      let ready = GateSocket.wait(client, for: .firstReads, core.closing, until: deadline)
      if ready.contains(.bell) { return }
      guard ready.contains(.firstReads) else { continue }
      guard let read = try? client.read(into: &buffer) else { return }
      if read == 0 { return }
      left -= read
    }
  }
}
