internal import CPerdureLinux
import Glibc
import Synchronization

/// One end of the connection between host and runner.
///
/// Any thread sends; one thread receives, and sends on what did not go at once.
// Safe and @unchecked Sendable: `buffer` belongs to the one thread that receives; the rest is under
// the mutex.
@safe final class FrameSocket: @unchecked Sendable {
  private struct Waiting {
    var head: [UInt8]
    var memory: Int32
    var size: Int
  }

  private struct State {
    var sequence: UInt32 = 0
    var waiting: [Waiting] = []
    var first = 0
    var waitingBytes = 0
    var isBroken = false
    var isClosed = false
  }

  /// What was received.
  enum Received {
    case frame(Frame)
    case nothing
    case end
  }

  private let socket: Int32
  /// Ends the wait of the thread that receives.
  let wake: Int32
  private let state = Mutex(State())
  private let buffer: UnsafeMutableRawBufferPointer
  private var lastSequence: UInt32 = 0

  /// Takes over a descriptor.
  init(socket: Int32) {
    self.socket = socket
    wake = perdure_wake_make()
    unsafe buffer = .allocate(byteCount: Frame.datagramLimit + 1, alignment: 8)
  }

  deinit { unsafe buffer.deallocate() }

  /// Ends the wait of the thread that receives.
  func interrupt() { state.withLock { interrupt($0) } }

  // Under the mutex, because the number may belong to another file once it is closed.
  private func interrupt(_ state: State) { if !state.isClosed { perdure_wake_set(wake) } }

  /// Forgets that the wait was ended.
  func clearInterrupt() { perdure_wake_clear(wake) }

  /// Closes the descriptors; what is sent from now on is dropped.
  func close() {
    state.withLock { state in
      guard !state.isClosed else { return }
      state.isBroken = true
      state.isClosed = true
      for waiting in state.waiting[state.first...] { perdure_runner_close(waiting.memory) }
      state.waiting = []
      state.first = 0
      perdure_runner_close(socket)
      perdure_runner_close(wake)
    }
  }

  // MARK: Sending

  /// Whether something waits for space.
  var isWaiting: Bool { state.withLock { $0.first < $0.waiting.count } }

  /// Whether nothing can be sent any more.
  var isBroken: Bool { state.withLock { $0.isBroken } }

  /// Sends a frame, now or when there is space; never waits.
  func send(_ frame: Frame) {
    var memory: Int32 = -1
    if !frame.fits, let payload = frame.payload {
      memory = unsafe payload.withUnsafeBytes { bytes in
        unsafe perdure_memory_make(bytes.baseAddress, bytes.count)
      }
      // Without memory to share nothing can be said any more.
      if memory < 0 { return fail() }
    }
    let size = frame.payload?.count ?? 0
    state.withLock { state in
      guard !state.isBroken else { return perdure_runner_close(memory) }
      state.sequence &+= 1
      let head = frame.encoded(sequence: state.sequence)
      if state.first == state.waiting.count {
        let code = Self.send(socket, head, memory)
        if code != -EAGAIN {
          perdure_runner_close(memory)
          guard code < 0 else { return }
          state.isBroken = true
          return interrupt(state)
        }
      }
      state.waiting.append(Waiting(head: head, memory: memory, size: size))
      state.waitingBytes += size
      // The other side has stopped to read.
      if state.waitingBytes > Frame.payloadLimit { state.isBroken = true }
      interrupt(state)
    }
  }

  /// Sends what waits, as far as there is space.
  func flush() {
    state.withLock { state in
      while !state.isBroken, state.first < state.waiting.count {
        let waiting = state.waiting[state.first]
        let code = Self.send(socket, waiting.head, waiting.memory)
        if code == -EAGAIN { return }
        perdure_runner_close(waiting.memory)
        state.first += 1
        state.waitingBytes -= waiting.size
        if code < 0 { state.isBroken = true }
      }
      if state.first == state.waiting.count {
        state.waiting = []
        state.first = 0
      }
    }
  }

  private func fail() {
    state.withLock { state in
      state.isBroken = true
      interrupt(state)
    }
  }

  private static func send(_ socket: Int32, _ head: [UInt8], _ memory: Int32) -> Int32 {
    unsafe head.withUnsafeBytes { bytes in
      unsafe perdure_frame_send(socket, bytes.baseAddress, bytes.count, nil, 0, memory)
    }
  }

  // MARK: Receiving

  /// Takes the next frame, if one is there; ignored ones are passed over.
  func receive() throws(FrameProblem) -> Received {
    while true {
      var descriptor: Int32 = -1
      let count = unsafe perdure_frame_receive(
        socket,
        buffer.baseAddress,
        buffer.count,
        &descriptor
      )
      if count == -Int(EAGAIN) { return .nothing }
      if count == -Int(EBADMSG) { throw .descriptor("descriptors that cannot be taken") }
      if count <= 0 { return .end }
      defer { perdure_runner_close(descriptor) }
      let bytes = unsafe [UInt8](UnsafeRawBufferPointer(rebasing: buffer[..<count]))
      switch try Frame.read(bytes) {
      case .frame(let frame):
        guard descriptor < 0 else { throw .descriptor("a descriptor and no use for it") }
        try self.count(frame.sequence)
        return .frame(frame)
      case .ignored(let sequence): try self.count(sequence)
      case .outside(var frame, let size):
        guard descriptor >= 0 else { throw .descriptor("a payload elsewhere and no descriptor") }
        try self.count(frame.sequence)
        try checkSize(size, of: frame)
        let taken = descriptor
        descriptor = -1
        frame.payload = try Self.take(taken, size)
        return .frame(frame)
      }
    }
  }

  private func count(_ sequence: UInt32) throws(FrameProblem) {
    lastSequence &+= 1
    guard sequence == lastSequence else { throw .sequence(sequence) }
  }

  /// Refuses what no frame of this type may hold before memory is made for it.
  private func checkSize(_ size: Int, of frame: Frame) throws(FrameProblem) {
    let limit =
      switch frame.type {
      case .emit: Border.emitLimit
      case .start, .complete, .invoke, .done:
        frame.mediaType == MediaType.parts.name ? Frame.payloadLimit : Border.messageLimit
      default: 2 << 20
      }
    guard size <= limit else { throw .limit("a payload") }
  }

  private static func take(_ descriptor: Int32, _ size: Int) throws(FrameProblem) -> [UInt8] {
    var code: Int32 = 0
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
      code = unsafe perdure_memory_take(descriptor, buffer.baseAddress, size)
      count = code == 0 ? size : 0
    }
    guard code == 0 else { throw .seal }
    return bytes
  }
}
