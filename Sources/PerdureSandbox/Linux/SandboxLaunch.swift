import CPerdureLinux
package import PerdureModel
import PerdureValue
import Synchronization

/// A sandbox that was started: the host's ends of its pipes, and the ways to end it.
///
/// Whoever lets go of the last reference ends the sandbox.
package final class SandboxLaunch: Sendable {
  /// What can be read of a launch.
  package enum End: CaseIterable, Sendable {
    case output, errors, records
  }

  let output: Descriptor
  let errors: Descriptor
  /// Where the launcher's records are read.
  let records: Descriptor
  private let control: Descriptor
  private let process: Int32
  /// Can be read once the launcher has ended; absent for an order.
  let handle: Descriptor?
  private let feed: Mutex<Descriptor?>
  /// The writing end of the lifeline, -1 once it is closed.
  private let lifeline: Mutex<Int32>
  private let reaped = Mutex<Int32?>(nil)

  /// Starts the launcher at an absolute path.
  package convenience init(
    program: String,
    policy: SandboxMessage,
    hasInput: Bool = false
  ) throws(PerdureError) {
    var raw = perdure_sandbox()
    let result = unsafe policy.bytes.withUnsafeBytes {
      unsafe perdure_sandbox_start(
        program,
        $0.baseAddress,
        Int64($0.count),
        hasInput ? 1 : 0,
        &raw
      )
    }
    guard result == 0 else {
      throw PerdureError(
        "sandbox_unavailable",
        "the launcher of sandboxes at \(program) cannot be started: \(SystemFailure(result).text)",
        hint: "install perdure-sandbox of this version there",
        details: ["errno": .int(Int64(-result))]
      )
    }
    self.init(raw)
  }

  /// Has a holder run a command in its sandbox.
  package convenience init(
    holder: SandboxLaunch,
    order: SandboxMessage,
    hasInput: Bool = false
  ) throws(PerdureError) {
    var raw = perdure_sandbox()
    let result = unsafe order.bytes.withUnsafeBytes {
      unsafe perdure_sandbox_order(
        holder.control.number,
        $0.baseAddress,
        Int64($0.count),
        hasInput ? 1 : 0,
        &raw
      )
    }
    guard result == 0 else {
      throw PerdureError(
        "sandbox_unavailable",
        "the sandbox has ended: its holder takes no order (\(SystemFailure(result).text))",
        hint: "try again; a new one is made where the host can",
        details: ["errno": .int(Int64(-result))]
      )
    }
    self.init(raw)
  }

  private init(_ ends: perdure_sandbox) {
    output = Descriptor(ends.output)
    errors = Descriptor(ends.errors)
    records = Descriptor(ends.status)
    control = Descriptor(ends.control)
    process = ends.process
    handle = ends.handle < 0 ? nil : Descriptor(ends.handle)
    feed = Mutex(ends.input < 0 ? nil : Descriptor(ends.input))
    lifeline = Mutex(ends.lifeline)
  }

  deinit {
    end()
    _ = finish()
  }

  /// Ends all that runs in the sandbox, at once and whatever it does.
  package func end() {
    let descriptor = lifeline.withLock { held in
      defer { held = -1 }
      return held
    }
    perdure_sandbox_close(descriptor)
  }

  /// Where the command's input is written; absent: it has none, or that has ended.
  var input: Descriptor? { feed.withLock { $0 } }

  /// Lets the input end with the last who holds it.
  func endInput() { feed.withLock { $0 = nil } }

  /// Ends what does not do as a launcher does, too.
  func abandon() {
    end()
    if process > 0 { perdure_command_kill(process) }
  }

  /// Asks the command to end; after the policy's grace it is made to.
  package func terminate() { send("t") }

  /// Kills all that runs in it, without the grace.
  package func kill() { send("k") }

  /// Sends a signal to all processes of the command.
  package func signal(_ number: UInt8) { send("s", number) }

  /// A launch that ended takes no order, and needs none.
  private func send(_ order: Unicode.Scalar, _ argument: UInt8 = 0) {
    _ = perdure_sandbox_control(control.number, Int32(order.value), Int32(argument))
  }

  private func descriptor(_ end: End) -> Int32 {
    switch end {
    case .output: output.number
    case .errors: errors.number
    case .records: records.number
    }
  }

  /// Reads what one end holds; `nil` if that is nothing yet, empty at its end.
  package func read(_ end: End, into buffer: inout [UInt8]) -> ArraySlice<UInt8>? {
    let length = unsafe buffer.withUnsafeMutableBytes {
      unsafe perdure_command_read(descriptor(end), $0.baseAddress, Int64($0.count))
    }
    // EAGAIN
    if length == -11 { return nil }
    return length <= 0 ? [] : buffer[..<Int(length)]
  }

  /// Waits until one of `wanted` can be read or `bell` rings, a descriptor or -1; those that can.
  package func wait(for wanted: [End], bell: Int32 = -1, milliseconds: Int32 = -1) -> [End] {
    func place(_ end: End) -> Int32 { wanted.contains(end) ? descriptor(end) : -1 }
    let ready = perdure_command_wait(
      place(.output),
      place(.errors),
      place(.records),
      bell,
      milliseconds
    )
    guard ready > 0 else { return [] }
    return End.allCases.enumerated().filter { ready >> Int32($0.offset) & 1 == 1 }.map(\.element)
  }

  /// Takes a descriptor that the launcher sent, which the caller then owns, with its message.
  ///
  /// The message begins with `r` for the root, `t` for a terminal, `l` for a listener. `nil`: none is
  /// there yet.
  package func receive() -> (message: [UInt8], descriptor: Int32)? {
    var message = [UInt8](repeating: 0, count: 16)
    var descriptor: Int32 = -1
    let length = unsafe message.withUnsafeMutableBytes {
      unsafe perdure_sandbox_receive(control.number, $0.baseAddress, &descriptor)
    }
    guard length > 0, descriptor >= 0 else {
      perdure_sandbox_close(descriptor)
      return nil
    }
    return (Array(message.prefix(Int(length))), descriptor)
  }

  /// Waits for the end of the launcher: its exit status, or 128 and the number of its signal; 0 for an
  /// order, whose records end with it.
  @discardableResult
  package func finish() -> Int32 {
    reaped.withLock { known in
      if let known { return known }
      let status = process > 0 ? perdure_sandbox_reap(process) : 0
      known = status
      return status
    }
  }
}
