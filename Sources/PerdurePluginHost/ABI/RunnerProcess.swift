internal import CPerdureLinux
import Glibc

/// What a wait of a connection has found.
struct RunnerNews: OptionSet, Sendable {
  let rawValue: Int32
  static let socket = RunnerNews(rawValue: PERDURE_READY_SOCKET)
  static let end = RunnerNews(rawValue: PERDURE_READY_END)
  static let output = RunnerNews(rawValue: PERDURE_READY_OUTPUT)
  static let errors = RunnerNews(rawValue: PERDURE_READY_ERRORS)
  static let wake = RunnerNews(rawValue: PERDURE_READY_WAKE)
  static let space = RunnerNews(rawValue: PERDURE_READY_SPACE)
}

/// What the process of a plugin may use.
struct RunnerLimits: Sendable, Equatable {
  /// Private memory; 0 = any.
  var dataBytes: UInt64
  var files: UInt64
  /// How many processes and threads the user may have more than now; 0 = any number.
  var processes: UInt64
}

/// A process that runs a plugin, as the thread that watches it sees it.
// Safe and @unchecked Sendable: what changes is used by the one thread that watches the process.
@safe final class RunnerProcess: @unchecked Sendable {
  private var process = perdure_runner_process()
  let socket: FrameSocket
  private var outputs: [LineBuffer] = [LineBuffer(), LineBuffer()]
  /// Why the program ended itself, if it said so; a plugin can say the same in its place.
  private(set) var reason: String?

  /// The id of the process.
  let id: Int32

  /// Starts a program; the calling thread must live as long as the process.
  ///
  /// Throws the number of the system's error.
  init(_ arguments: [String], variables: [String], limits: RunnerLimits) throws(SystemFailure) {
    var limits = perdure_runner_limits(
      data_bytes: limits.dataBytes,
      files: limits.files,
      processes: limits.processes
    )
    if limits.processes > 0 {
      limits.processes += UInt64(max(0, perdure_runner_user_tasks()))
    }
    var process = perdure_runner_process()
    let code = unsafe Self.withPointers(arguments) { arguments in
      unsafe Self.withPointers(variables) { variables in
        unsafe perdure_runner_spawn(arguments, variables, &limits, &process)
      }
    }
    guard code == 0 else { throw SystemFailure(number: -code) }
    self.process = process
    id = process.process
    socket = FrameSocket(socket: process.socket)
  }

  private static func withPointers<Value>(
    _ words: [String],
    _ body: (UnsafePointer<UnsafePointer<CChar>?>?) -> Value
  ) -> Value {
    let copies = unsafe words.map { unsafe strdup($0) }
    defer { for place in unsafe copies.indices { unsafe free(copies[place]) } }
    let pointers = unsafe copies.map { unsafe UnsafePointer($0) } + [nil]
    return unsafe pointers.withUnsafeBufferPointer { unsafe body($0.baseAddress) }
  }

  /// Waits until something happens; nothing when the time is over.
  func wait(milliseconds: Int32) -> RunnerNews {
    let space: Int32 = socket.isWaiting ? 1 : 0
    return RunnerNews(
      rawValue: max(
        0,
        unsafe perdure_runner_wait(&process, socket.wake, space, milliseconds)
      )
    )
  }

  /// Takes no more notice of the socket, whose other end was closed.
  func ignoreSocket() { process.socket = -1 }

  /// Kills the process and what it started.
  func kill() { perdure_runner_kill(id) }

  /// Takes the end of the process: its exit status, or minus its signal; `nil` while it runs.
  func collect() -> Int32? {
    var status: Int32 = 0
    return unsafe perdure_runner_collect(id, &status) == 1 ? status : nil
  }

  /// Gives the lines that were printed since the last time.
  func lines(_ news: RunnerNews) -> [String] {
    var lines: [String] = []
    if news.contains(.output) { lines += read(0, &process.output) }
    if news.contains(.errors) {
      let errors = read(1, &process.errors)
      let own = "\(RunnerProtocol.program): "
      if let last = errors.last(where: { $0.hasPrefix(own) }) {
        reason = String(last.dropFirst(own.count).prefix(1_024))
      }
      lines += errors
    }
    return lines
  }

  private func read(_ index: Int, _ descriptor: inout Int32) -> [String] {
    let (bytes, isOver) = Self.read(descriptor)
    if isOver {
      perdure_runner_close(descriptor)
      descriptor = -1
    }
    return outputs[index].take(bytes, isOver: isOver)
  }

  /// What the crash handler of the process said: plugin, target and call, a line each.
  func lastWords() -> String {
    String(decoding: Self.read(process.crash).bytes.prefix(1_024), as: UTF8.self)
  }

  private static func read(_ descriptor: Int32) -> (bytes: [UInt8], isOver: Bool) {
    guard descriptor >= 0 else { return ([], false) }
    var count = 0
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, size in
      count = unsafe perdure_runner_read(descriptor, buffer.baseAddress, 65_536)
      size = max(0, count)
    }
    return (bytes, count == 0 || (count < 0 && count != -Int(EAGAIN)))
  }

  /// Closes what is open.
  func close() {
    socket.close()
    perdure_runner_close(process.pidfd)
    perdure_runner_close(process.output)
    perdure_runner_close(process.errors)
    perdure_runner_close(process.crash)
  }
}

/// What the system refused.
struct SystemFailure: Error {
  var number: Int32

  /// The system's words.
  var text: String { unsafe String(cString: strerror(number)) }
}

/// Makes lines of what is printed.
struct LineBuffer {
  private static let limit = 8 << 10
  private var rest: [UInt8] = []

  /// Takes bytes; gives the lines that are whole, or as long as a line may be.
  mutating func take(_ bytes: [UInt8], isOver: Bool) -> [String] {
    var lines: [String] = []
    for byte in bytes {
      if byte == UInt8(ascii: "\n") || rest.count >= Self.limit {
        lines.append(String(decoding: rest, as: UTF8.self))
        rest.removeAll(keepingCapacity: true)
        if byte == UInt8(ascii: "\n") { continue }
      }
      rest.append(byte)
    }
    if isOver, !rest.isEmpty {
      lines.append(String(decoding: rest, as: UTF8.self))
      rest = []
    }
    return lines
  }
}

/// The runner's own end, as its main thread sees it.
// Safe and @unchecked Sendable: nothing in it changes.
@safe struct RunnerEnd: @unchecked Sendable {
  let socket = FrameSocket(socket: PERDURE_RUNNER_SOCKET)

  /// Waits until something happens; nothing when the time is over.
  func wait(milliseconds: Int32) -> RunnerNews {
    var process = perdure_runner_process()
    process.socket = PERDURE_RUNNER_SOCKET
    process.pidfd = -1
    process.output = -1
    process.errors = -1
    process.crash = -1
    let space: Int32 = socket.isWaiting ? 1 : 0
    return RunnerNews(
      rawValue: max(
        0,
        unsafe perdure_runner_wait(&process, socket.wake, space, milliseconds)
      )
    )
  }

  /// Makes crashes and output of the plugin known to the host.
  static func prepare() { perdure_runner_report_crashes() }

  /// Ends the process at once.
  static func exit(_ status: Int32, _ sentence: String? = nil) -> Never {
    guard let sentence else {
      fflush(nil)
      perdure_runner_exit(status, nil)
    }
    unsafe perdure_runner_exit(status, sentence)
  }

  /// The variable of the environment, if it is set.
  static func variable(_ name: String) -> String? {
    unsafe getenv(name).map { unsafe String(cString: $0) }
  }

  /// The program that this process runs.
  static var program: String? {
    unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 4_097) { buffer in
      guard let start = buffer.baseAddress else { return nil }
      let count = unsafe readlink("/proc/self/exe", start, 4_096)
      guard count > 0 else { return nil }
      unsafe start[count] = 0
      return unsafe String(cString: start)
    }
  }

  /// Whether a file can be run.
  static func isProgram(_ path: String) -> Bool { unsafe access(path, X_OK) == 0 }
}

/// Runs `body` on a thread of its own; `false` if there can be none.
func startThread(_ body: @escaping @Sendable () -> Void) -> Bool {
  final class Box: Sendable {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }
  let box = unsafe Unmanaged.passRetained(Box(body))
  var thread = pthread_t()
  let status = unsafe pthread_create(
    &thread,
    nil,
    { context in
      guard let context = unsafe context else { return nil }
      unsafe Unmanaged<Box>.fromOpaque(context).takeRetainedValue().body()
      return nil
    },
    box.toOpaque()
  )
  guard status == 0 else {
    unsafe box.release()
    return false
  }
  pthread_detach(thread)
  return true
}

/// Keeps this thread for a time.
func restOnThread(nanoseconds: Int64) {
  var rest = timespec(
    tv_sec: Int(max(0, nanoseconds) / 1_000_000_000),
    tv_nsec: Int(max(0, nanoseconds) % 1_000_000_000)
  )
  var left = timespec()
  while unsafe nanosleep(&rest, &left) != 0, errno == EINTR { rest = left }
}

/// Returns when `nanoseconds` are over, which a thread of its own waits for.
func sleepOnThread(nanoseconds: Int64) async {
  await withCheckedContinuation { continuation in
    let isStarted = startThread {
      restOnThread(nanoseconds: nanoseconds)
      continuation.resume()
    }
    if !isStarted { continuation.resume() }
  }
}
