import CPerdureLinux
package import PerdureModel
import Synchronization

/// Files, variables and streams of the process, without a pointer and without Foundation.
///
/// Bytes pass in words through texts that each thread has of its own, so nothing here may be
/// called between two halves of another call; no function suspends.
package enum HostText {
  /// Where text goes.
  package enum Stream: Int32, Sendable {
    case input = 0
    case output = 1
    case error = 2

    /// Whether a person watches it.
    package var isTerminal: Bool { perdure_is_terminal(rawValue) == 1 }
  }

  /// What a path names.
  package enum PathKind: Sendable {
    case nothing
    case file
    case folder
    case other
  }

  /// Makes sure that no file that is opened later is taken for a standard stream.
  package static func openStreams() { perdure_streams_open() }

  /// Keeps standard output for what is queued here: what plugins print goes to standard error.
  package static func guardOutput() throws(PerdureError) {
    let code = perdure_text_guard_output()
    guard code < 0 else { return }
    throw PerdureError(
      "out_of_files",
      "the system gives no further file for standard output",
      hint: "raise 'ulimit -n'",
      cause: reason(Int64(code))
    )
  }

  // MARK: Files

  /// Returns the bytes of a file; throws `invalidInput` if it cannot be read.
  package static func file(
    at path: String,
    called name: String,
    limit: Int64 = 64 << 20
  ) throws(PerdureError) -> [UInt8] {
    put(Array(path.utf8))
    let count = perdure_text_read_file(limit)
    guard count >= 0 else {
      throw PerdureError(
        .invalidInput,
        "\(name) \(path) cannot be read",
        hint: "check that it exists, is a file and may be read",
        cause: reason(count)
      )
    }
    return take(count)
  }

  /// Returns everything that standard input gives.
  package static func standardInput(limit: Int64 = 64 << 20) throws(PerdureError) -> [UInt8] {
    let count = perdure_text_read_input(limit)
    guard count >= 0 else {
      throw PerdureError(
        .invalidInput,
        "standard input cannot be read",
        hint: "give the prompt as an argument, or at most \(limit >> 20) MiB of text",
        cause: reason(count)
      )
    }
    return take(count)
  }

  private static let lineReader = Mutex<CheckedContinuation<[UInt8]?, Never>?>(nil)

  /// Returns the next line of standard input, or `nil` at its end; only one may be waited for.
  package static func inputLine() async -> String? {
    let bytes = await withCheckedContinuation { continuation in
      lineReader.withLock { $0 = continuation }
      let code = perdure_terminal_read { count in
        HostText.finishLine(count < 0 ? nil : HostText.take(count))
      }
      if code != 0 { finishLine(nil) }
    }
    return bytes.map { String(decoding: $0, as: UTF8.self) }
  }

  private static func finishLine(_ bytes: [UInt8]?) {
    let reader = lineReader.withLock { reader in
      defer { reader = nil }
      return reader
    }
    reader?.resume(returning: bytes)
  }

  /// Returns what a path names; what cannot be looked at counts as something else.
  package static func kind(ofPath path: String) -> PathKind {
    put(Array(path.utf8))
    return switch perdure_text_path_kind() {
    case 0: .nothing
    case 1: .file
    case 2: .folder
    default: .other
    }
  }

  /// Returns the absolute path without symbolic links, or `nil` if it names nothing.
  package static func fullPath(_ path: String) -> String? {
    put(Array(path.utf8))
    return text(perdure_text_full_path())
  }

  /// Returns the path with the working directory before it, unless it is absolute.
  package static func absolutePath(_ path: String) -> String {
    if path.hasPrefix("/") { return path }
    guard let folder = text(perdure_text_working_directory()) else { return path }
    return folder + "/" + path
  }

  /// Creates a folder and those above it, private to the user.
  package static func makeFolders(_ path: String) throws(PerdureError) {
    put(Array(path.utf8))
    let code = perdure_text_make_folders()
    guard code < 0 else { return }
    throw PerdureError(
      .storeUnwritable,
      "the folder \(path) cannot be created",
      hint: "choose another path",
      cause: reason(Int64(code))
    )
  }

  /// Removes a file; it may be gone already.
  package static func removeFile(_ path: String) {
    put(Array(path.utf8))
    _ = perdure_path_remove()
  }

  /// Lets crashes in plugins leave a file with the plugin's id as its name in this folder.
  package static func keepCrashes(in folder: String) {
    put(Array(folder.utf8))
    _ = perdure_breadcrumb_keep_crashes()
  }

  /// The plugin whose code this thread runs, and what it is in, if any; it also leaves the file.
  package static func markPlugin() -> (plugin: String, target: String)? {
    guard let plugin = text(perdure_breadcrumb_tell(Int32(PERDURE_BREADCRUMB_PLUGIN.rawValue))),
      let target = text(perdure_breadcrumb_tell(Int32(PERDURE_BREADCRUMB_TARGET.rawValue)))
    else { return nil }
    perdure_breadcrumb_mark()
    return (plugin, target)
  }

  // MARK: Environment

  /// Returns the value of a variable, or `nil`.
  package static func variable(_ name: String) -> String? {
    put(Array(name.utf8))
    return text(perdure_text_variable())
  }

  /// Returns the value of a variable that holds an absolute path, or `nil`, as XDG asks.
  package static func folderVariable(_ name: String) -> String? {
    guard let path = variable(name), path.hasPrefix("/") else { return nil }
    return path
  }

  /// Returns a time of the machine's zone, as `2026-01-31 12:59:00 +01:00`.
  package static func localTime(_ milliseconds: Int64) -> String {
    var digits = String(perdure_local_time(milliseconds))
    guard digits.count == 14 else { return "-" }
    for (offset, mark) in [(12, ":"), (10, ":"), (8, " "), (6, "-"), (4, "-")] {
      digits.insert(
        contentsOf: mark,
        at: digits.index(digits.startIndex, offsetBy: offset)
      )
    }
    let minutes = Int(perdure_local_offset(milliseconds))
    let (hours, rest) = abs(minutes).quotientAndRemainder(dividingBy: 60)
    func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
    return "\(digits) \(minutes < 0 ? "-" : "+")\(two(hours)):\(two(rest))"
  }

  // MARK: Streams

  /// Queues bytes for standard output; returns at once, however slow the reader is.
  package static func queueOutput(_ bytes: [UInt8]) {
    put(bytes)
    perdure_text_queue_output()
  }

  /// Waits until little is queued for standard output; `false` if nobody takes it any more.
  ///
  /// Whoever queues much calls it now and then, so that a slow reader costs no memory.
  package static func waitForOutput() -> Bool { perdure_text_wait_output(1 << 20) == 0 }

  /// Waits until standard output has everything; returns why it could not, if so.
  ///
  /// A reader that went away is no reason: it had seen enough.
  package static func finishOutput() -> String? {
    let code = perdure_text_finish_output()
    return code == 0 || code == brokenPipe ? nil : reason(Int64(code))
  }

  /// Writes to standard error.
  package static func writeError(_ bytes: [UInt8]) {
    put(bytes)
    // There is nobody left to tell.
    _ = perdure_text_write_error()
  }

  private static let brokenPipe: Int32 = -32

  // MARK: Words

  static func put(_ bytes: [UInt8]) {
    var word: UInt64 = 0
    var count: Int32 = 0
    for byte in bytes {
      word |= UInt64(byte) << UInt64(8 * count)
      count += 1
      guard count == 8 else { continue }
      perdure_text_put(word, count)
      (word, count) = (0, 0)
    }
    if count > 0 { perdure_text_put(word, count) }
  }

  static func take(_ count: Int64) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(Int(count))
    var index: Int64 = 0
    while index < count {
      var word = perdure_text_word(index)
      for _ in 0..<min(8, count - index) {
        bytes.append(UInt8(truncatingIfNeeded: word))
        word >>= 8
      }
      index += 8
    }
    return bytes
  }

  private static func text(_ count: Int64) -> String? {
    count < 0 ? nil : String(decoding: take(count), as: UTF8.self)
  }

  static func reason(_ code: Int64) -> String {
    text(perdure_text_error(Int32(clamping: -code))) ?? "error \(-code)"
  }
}
