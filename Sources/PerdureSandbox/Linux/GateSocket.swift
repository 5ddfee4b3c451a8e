import CPerdureLinux
import Glibc

/// A connection of a gate, which never waits by itself.
struct GateSocket: Sendable {
  private let descriptor: Descriptor

  private init(_ descriptor: Descriptor) { self.descriptor = descriptor }

  /// Takes a connection that waits at a listener.
  static func accepted(from listener: Descriptor) throws(SystemFailure) -> GateSocket {
    GateSocket(try Descriptor(returned: perdure_gate_accept(listener.number)))
  }

  /// Begins to connect; what can be written has ended that.
  static func connecting(
    to address: NetworkAddress,
    port: UInt16
  ) throws(SystemFailure) -> GateSocket {
    let result = unsafe address.form.withUnsafeBytes {
      unsafe perdure_gate_connect($0.baseAddress, Int32(port))
    }
    return GateSocket(try Descriptor(returned: result))
  }

  /// Throws what connecting failed with.
  func requireConnected() throws(SystemFailure) {
    let result = perdure_gate_connected(descriptor.number)
    guard result == 0 else { throw SystemFailure(result) }
  }

  /// Reads into a buffer: how many bytes, 0 at the end; `nil` if there is nothing yet.
  func read(into buffer: inout [UInt8]) throws(SystemFailure) -> Int? {
    let length = unsafe buffer.withUnsafeMutableBytes {
      unsafe perdure_gate_read(descriptor.number, $0.baseAddress, Int64($0.count))
    }
    return try Self.length(length)
  }

  /// Sends what it takes now of these bytes: how many.
  func send(_ bytes: ArraySlice<UInt8>) throws(SystemFailure) -> Int {
    let length = unsafe bytes.withUnsafeBytes {
      unsafe perdure_gate_send(descriptor.number, $0.baseAddress, Int64($0.count))
    }
    return try Self.length(length) ?? 0
  }

  private static func length(_ result: Int64) throws(SystemFailure) -> Int? {
    if result == -Int64(EAGAIN) { return nil }
    guard result >= 0 else { throw SystemFailure(result) }
    return Int(result)
  }

  /// Says that nothing more will be sent.
  func finish() { perdure_gate_finish(descriptor.number) }

  /// What is waited for, and what there is.
  struct Events: OptionSet, Sendable {
    let rawValue: Int32

    static let firstReads = Events(rawValue: 1)
    static let firstWrites = Events(rawValue: 2)
    static let secondReads = Events(rawValue: 4)
    static let secondWrites = Events(rawValue: 8)
    static let bell = Events(rawValue: 16)
  }

  /// Waits for something of what is wanted, a bell that rings, or a time on the clock.
  static func wait(
    _ first: GateSocket,
    _ second: GateSocket? = nil,
    for wanted: Events,
    _ bell: Bell,
    until deadline: Int64
  ) -> Events {
    let left = max(0, deadline - monotonicNanoseconds())
    let ready = perdure_gate_wait(
      first.descriptor.number,
      second?.descriptor.number ?? -1,
      wanted.rawValue,
      bell.descriptor.number,
      Int32(clamping: (left + 999_999) / 1_000_000)
    )
    return Events(rawValue: ready)
  }
}

extension NetworkAddress {
  /// The bytes of an address as the calls of a gate take them.
  fileprivate var form: [UInt8] {
    [isFour ? 4 : 6] + bytes + [UInt8](repeating: 0, count: 16 - bytes.count)
  }

  private init?(form: ArraySlice<UInt8>) {
    guard form.count == 17, let family = form.first else { return nil }
    self.init(bytes: Array(form.dropFirst().prefix(family == 4 ? 4 : 16)))
  }

  /// Reads a literal in the one form that every program reads alike.
  package init?(literal text: String) {
    guard !text.utf8.contains(0) else { return nil }
    for family: Int32 in [4, 6] {
      var form = [UInt8](repeating: 0, count: 17)
      let isLiteral = unsafe form.withUnsafeMutableBytes {
        unsafe perdure_gate_literal(text, family, $0.baseAddress)
      }
      if isLiteral == 1 {
        self.init(form: form[...])
        return
      }
    }
    return nil
  }

  package var description: String {
    var text = [CChar](repeating: 0, count: 64)
    let result = unsafe form.withUnsafeBytes { form in
      unsafe text.withUnsafeMutableBufferPointer {
        unsafe perdure_gate_text(form.baseAddress, $0.baseAddress, 64)
      }
    }
    guard result == 0 else { return "?" }
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Whether this machine has it.
  var isOwn: Bool {
    unsafe form.withUnsafeBytes { unsafe perdure_gate_is_own($0.baseAddress) } == 1
  }

  /// Looks a name up as this machine does; may block for as long as its resolver does.
  package static func resolve(_ name: String) -> [NetworkAddress] {
    let most = 32
    var forms = [UInt8](repeating: 0, count: 17 * most)
    let count = unsafe forms.withUnsafeMutableBytes {
      unsafe perdure_gate_resolve(name, $0.baseAddress, Int32(most))
    }
    guard count > 0 else { return [] }
    return (0..<Int(count)).compactMap { NetworkAddress(form: forms[($0 * 17)..<($0 * 17 + 17)]) }
  }
}
