internal import CPerdureCheck
import Glibc
internal import PerdureValue

/// Why a test of a plugin failed.
struct CheckFailure: Error {
  var reason: String
  /// What to do, if that is more than what the test says in general.
  var remedy: String?

  init(_ reason: String, remedy: String? = nil) {
    self.reason = reason
    self.remedy = remedy
  }
}

/// How the host of a check behaves; as it is made, like an ordinary one.
struct CheckBehaviour: Sendable {
  enum Operations: UInt32, Sendable { case done, failing, refused }

  /// What it says the plugin may fill in, in bytes; 0 = all that this version knows.
  var pluginSize: UInt32 = 0
  /// Structs are longer than this version knows, and unknown flags are set.
  var isLater = false
  var hasShortCalls = false
  /// What is lent is read-only, ends at an unmapped page, and goes away.
  var guards = false
  var hidesCalls = false
  var hidesInvoke = false
  var operations = Operations.done
  var starves = false
}

/// A host that means harm, around one mapping of a plugin.
// Safe: the pointer is made here and its memory is never freed, because a plugin may keep it.
@safe final class CheckHost {
  /// What a function of the plugin's life came to.
  enum Step: Equatable {
    case done
    case refused(Int32, String)
    case hung
    /// The plugin does not have the function.
    case absent
  }

  /// What became of a call.
  struct Seen {
    var hasReturned: Bool
    var accepted: Int32
    var completions: Int
    var status: Int32
    var startMicroseconds: Int64
    var endedMicroseconds: Int64
    /// How many operations were asked for within it.
    var operations: Int
    var output: UInt64

    /// Whether the target is unknown.
    ///
    /// A call that asked for something may pass on that this host does not do it.
    var isRefusal: Bool { accepted == -10 || (status == -10 && operations == 0) }
  }

  static let stepLimit: Int64 = 10_000
  private let host: OpaquePointer

  /// Maps the file at `path`.
  init(path: String, _ behaviour: CheckBehaviour) throws(CheckFailure) {
    var options = perdure_check_options()
    options.plugin_size = behaviour.pluginSize
    options.later_version = behaviour.isLater ? 1 : 0
    options.short_call = behaviour.hasShortCalls ? 1 : 0
    options.guards = behaviour.guards ? 1 : 0
    options.hides_calls = behaviour.hidesCalls ? 1 : 0
    options.hides_invoke = behaviour.hidesInvoke ? 1 : 0
    options.operations = behaviour.operations.rawValue
    options.starves = behaviour.starves ? 1 : 0
    var made: OpaquePointer?
    let message = unsafe Self.text { buffer, capacity in
      unsafe made = perdure_check_open(path, &options, buffer, capacity)
    }
    guard let made = unsafe made else {
      throw CheckFailure(
        "it cannot be mapped: \(message)",
        remedy: "link what it needs statically, or say where it is with LD_LIBRARY_PATH"
      )
    }
    unsafe host = made
  }

  private static func text(_ body: (UnsafeMutablePointer<CChar>?, Int) -> Void) -> String {
    unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 1_024) { buffer in
      unsafe buffer.initialize(repeating: 0)
      unsafe body(buffer.baseAddress, 1_023)
      return unsafe buffer.baseAddress.map { unsafe String(cString: $0) } ?? ""
    }
  }

  private func step(
    _ body: (OpaquePointer, UnsafeMutablePointer<CChar>?, Int) -> Int32
  ) -> Step {
    var code: Int32 = 0
    let message = unsafe Self.text { buffer, capacity in code = unsafe body(host, buffer, capacity)
    }
    switch code {
    case 0: return .done
    case Int32.min: return .hung
    default: return .refused(code, message)
    }
  }

  // MARK: Life

  func enter() -> Step {
    unsafe step { unsafe perdure_check_enter($0, Self.stepLimit, $1, $2) }
  }

  func activate() -> Step {
    unsafe step { unsafe perdure_check_activate($0, Self.stepLimit, $1, $2) }
  }

  /// Asks the plugin for a table of its own; `nil` if it does not return.
  func query(_ name: String, least: UInt32) -> Bool? {
    let answer = unsafe perdure_check_query(host, name, least, Self.stepLimit)
    return answer == Int32.min ? nil : answer != 0
  }

  func deactivate() -> Step {
    let step = unsafe step { host, _, _ in unsafe perdure_check_deactivate(host, Self.stepLimit) }
    return step == .refused(1, "") ? .absent : step
  }

  /// Whether it says within this time that it is stopped.
  func isStopped(within milliseconds: Int64) -> Bool {
    unsafe perdure_check_stopped(host, milliseconds) != 0
  }

  func destroy() -> Step {
    unsafe step { host, _, _ in unsafe perdure_check_destroy(host, Self.stepLimit) }
  }

  // MARK: Calls

  /// Begins a call and gives its number.
  func start(
    _ target: String,
    _ input: JSON,
    deadline milliseconds: Int64? = nil,
    cancelledFor reason: UInt32 = 0
  ) -> UInt64 {
    let bytes = input.encoded
    return unsafe bytes.withUnsafeBufferPointer { bytes in
      unsafe perdure_check_start(
        host,
        target,
        bytes.baseAddress,
        bytes.count,
        milliseconds ?? -1,
        reason
      )
    }
  }

  /// Whether start has returned and the call is completed or refused within this time.
  func isOver(_ call: UInt64, within milliseconds: Int64) -> Bool {
    unsafe perdure_check_wait(host, call, milliseconds) != 0
  }

  /// Waits until the call has emitted something or is over.
  func waitForOutput(of call: UInt64, _ milliseconds: Int64) {
    _ = unsafe perdure_check_wait_output(host, call, milliseconds)
  }

  func cancel(_ call: UInt64, for reason: UInt32) {
    unsafe perdure_check_cancel(host, call, reason)
  }

  func look(at call: UInt64) -> Seen {
    let seen = unsafe perdure_check_look(host, call)
    return Seen(
      hasReturned: seen.has_returned != 0,
      accepted: seen.accepted,
      completions: Int(seen.completions),
      status: seen.status,
      startMicroseconds: seen.start_us,
      endedMicroseconds: seen.ended_us,
      operations: Int(seen.operations),
      output: seen.output
    )
  }

  /// The first completion's value.
  func payload(of call: UInt64) throws(CheckFailure) -> Payload {
    let name = unsafe String(cString: perdure_check_media_type(host, call))
    guard let type = name.isEmpty ? .json : MediaType(name: name) else {
      throw CheckFailure("it answered with the media type \(name), which no host knows")
    }
    var length = 0
    let bytes = unsafe perdure_check_value(host, call, &length)
    return Payload(
      type: type,
      bytes: unsafe Array(UnsafeBufferPointer(start: bytes, count: length))
    )
  }

  /// The first completion's sentence and details.
  func failure(of call: UInt64) -> (message: String, detail: String) {
    unsafe (
      String(cString: perdure_check_error(host, call)),
      String(cString: perdure_check_detail(host, call))
    )
  }

  /// The promises that the plugin has broken so far, in sentences.
  var offences: [String] {
    var all: [String] = []
    while let text = unsafe perdure_check_offence(host, all.count) {
      all.append(unsafe String(cString: text))
    }
    return all
  }

  /// Where its state and its start function are.
  var places: (state: UInt, start: UInt) {
    var state: UInt = 0
    var start: UInt = 0
    unsafe perdure_check_places(host, &state, &start)
    return (state, start)
  }
}

/// What of a plugin is left in this process.
enum CheckRest {
  /// How many threads there are, when those that end have ended.
  static var threads: Int { Int(perdure_check_threads()) }
  static var descriptors: Int { Int(perdure_check_descriptors()) }
  static func pause(_ milliseconds: Int64) { perdure_check_pause(milliseconds) }
  static var now: Int64 { perdure_check_now_ms() }
}

/// Tests in processes of their own.
enum CheckProcess {
  /// How a test's process ended.
  struct End {
    var status: Int32
    var signal: Int32
    var isTimeout: Bool
    var told: [UInt8]
  }

  static let descriptor: Int32 = 3
  private static let toldLimit = 4 << 20

  /// Says on descriptor 3 what the plugin is asked to do from now on, and what it crashes of.
  static func tell() { perdure_check_tell(descriptor) }

  /// Writes a line to descriptor 3.
  static func say(_ line: [UInt8]) {
    let line = line + [UInt8(ascii: "\n")]
    unsafe line.withUnsafeBufferPointer { unsafe perdure_check_say($0.baseAddress, $0.count) }
  }

  /// Runs this program with the arguments in `folder` and listens to one of its descriptors; `nil` if
  /// it cannot be started.
  static func run(
    _ arguments: [String],
    in folder: String,
    listeningTo stream: Int32 = descriptor,
    limit milliseconds: Int64
  ) -> End? {
    let words = arguments.flatMap { (word) -> [UInt8] in Array(word.utf8) + [0] }
    var told = [UInt8](repeating: 0, count: toldLimit)
    var end = perdure_check_end()
    let result = unsafe words.withUnsafeBufferPointer { words in
      unsafe perdure_check_run(
        folder,
        words.baseAddress,
        words.count,
        stream,
        milliseconds,
        &told,
        toldLimit,
        &end
      )
    }
    guard result == 0 else { return nil }
    return End(
      status: end.status,
      signal: end.signal,
      isTimeout: end.timed_out != 0,
      told: Array(told.prefix(end.length))
    )
  }

  /// Whether a program of this name stands beside this one.
  static func hasNeighbour(_ name: String) -> Bool {
    unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 4_096) { buffer in
      unsafe buffer.initialize(repeating: 0)
      guard let base = buffer.baseAddress,
        unsafe readlink("/proc/self/exe", base, buffer.count - 1) > 0
      else { return false }
      let folder = unsafe String(cString: base).split(separator: "/").dropLast()
      return unsafe access("/" + (folder + [Substring(name)]).joined(separator: "/"), X_OK) == 0
    }
  }

  /// Makes an empty folder; `nil` if there is no place for it.
  static func makeFolder() -> String? {
    unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 4_096) { buffer in
      unsafe buffer.initialize(repeating: 0)
      guard let base = buffer.baseAddress,
        unsafe perdure_check_make_folder(base, buffer.count) == 0
      else { return nil }
      return unsafe String(cString: base)
    }
  }

  /// Removes a folder with all that is in it.
  static func removeFolder(_ path: String) { unsafe perdure_check_remove_folder(path) }
}
