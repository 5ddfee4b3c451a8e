import CPerdureLinux
package import PerdureModel
import Synchronization

/// Programs of the author of a plugin, such as compilers.
package enum HostCommand {
  /// What a program came to.
  package struct Outcome: Sendable {
    /// The exit status, or 128 + N if the signal N ended it.
    package var status: Int32
    /// The end of what it printed to either stream.
    package var output: String
  }

  private static let waiter = Mutex<CheckedContinuation<Outcome, Never>?>(nil)

  /// Runs a program in a folder to its end, without input; one at a time.
  package static func run(
    _ words: [String],
    in folder: String
  ) async throws(PerdureError) -> Outcome {
    let outcome = await withCheckedContinuation { continuation in
      waiter.withLock { $0 = continuation }
      HostText.put(([folder] + words).flatMap { Array($0.utf8) + [0] })
      let code = perdure_author_start { status, count in
        let output = String(decoding: HostText.take(count), as: UTF8.self)
        HostCommand.finish(Outcome(status: status, output: output))
      }
      if code != 0 { finish(Outcome(status: code, output: "")) }
    }
    guard outcome.status < 0 else { return outcome }
    throw PerdureError(
      "command_failed",
      "\(words.first ?? "the program") cannot be run",
      hint: "try it by hand",
      cause: HostText.reason(Int64(outcome.status))
    )
  }

  /// Kills the program that runs, with all that it started, and lets no other one begin.
  package static func end() { perdure_author_end() }

  private static func finish(_ outcome: Outcome) {
    let continuation = waiter.withLock { waiter in
      defer { waiter = nil }
      return waiter
    }
    continuation?.resume(returning: outcome)
  }
}

/// Hears of changes of the files below a folder; only one may be waited for at a time.
package final class FolderWatch: Sendable {
  private let path: String
  private let watch: Int32

  private static let waiter = Mutex<CheckedContinuation<Int32, Never>?>(nil)

  /// Opens a watch; throws `notFound` if the path names no folder that may be read.
  package init(path: String) throws(PerdureError) {
    let watch = perdure_watch_make()
    guard watch >= 0 else { throw Self.error(path, Int64(watch)) }
    self.path = path
    self.watch = watch
    _ = try files()
  }

  deinit { perdure_file_close(watch) }

  private static func error(_ path: String, _ code: Int64) -> PerdureError {
    PerdureError(
      .notFound,
      "the folder \(path) cannot be watched",
      hint: "check that it exists, may be read and holds at most 10,000 files",
      cause: HostText.reason(code)
    )
  }

  /// Returns the files that may be inputs of a build, by their paths below the folder, each with what
  /// is another value after a change.
  package func files() throws(PerdureError) -> [String: String] {
    HostText.put(Array(path.utf8))
    let count = perdure_author_list(watch)
    guard count >= 0 else { throw Self.error(path, count) }
    var files: [String: String] = [:]
    for line in String(decoding: HostText.take(count), as: UTF8.self).split(separator: "\n") {
      let parts = line.split(separator: "\t", maxSplits: 1)
      if let name = parts.first { files[String(name)] = parts.last.map(String.init) ?? "" }
    }
    return files
  }

  /// Returns when something may have changed since `files()` was called last, and nothing more does.
  package func change() async throws(PerdureError) {
    let code = await withCheckedContinuation { continuation in
      Self.waiter.withLock { $0 = continuation }
      let code = perdure_author_next(watch) { FolderWatch.finish($0) }
      if code != 0 { Self.finish(code) }
    }
    guard code == 0 else { throw Self.error(path, Int64(code)) }
  }

  private static func finish(_ code: Int32) {
    let continuation = waiter.withLock { waiter in
      defer { waiter = nil }
      return waiter
    }
    continuation?.resume(returning: code)
  }
}

extension HostText {
  /// How a file is written.
  package enum NewFile: Int32, Sendable {
    /// It must not exist.
    case plain = 0
    /// A program, which must not exist.
    case program = 1
    /// It takes the place of one that is there.
    case replacing = 2
  }

  /// Writes a file with the rights that the user's files have.
  package static func write(
    _ bytes: [UInt8],
    to path: String,
    _ kind: NewFile = .plain
  ) throws(PerdureError) {
    put(Array(path.utf8) + [0])
    put(bytes)
    let code = perdure_file_new(kind.rawValue)
    guard code < 0 else { return }
    throw PerdureError(
      "not_written",
      "the file \(path) cannot be written",
      hint: "choose another place, or free space there",
      cause: reason(Int64(code))
    )
  }

  /// Makes a folder with the rights that the user's folders have; it must not exist.
  package static func makeFolder(_ path: String) throws(PerdureError) {
    put(Array(path.utf8))
    let code = perdure_folder_new()
    guard code < 0 else { return }
    let exists = kind(ofPath: path) != .nothing
    throw PerdureError(
      .invalidInput,
      exists ? "\(path) exists already" : "the folder \(path) cannot be made",
      hint: exists ? "choose another name, or remove it" : "choose another place",
      cause: exists ? nil : reason(Int64(code))
    )
  }

  /// Makes a private folder with a name that nobody has.
  package static func makeTemporaryFolder() throws(PerdureError) -> String {
    let count = perdure_folder_temporary()
    guard count < 0 else { return String(decoding: take(count), as: UTF8.self) }
    throw PerdureError(
      "not_written",
      "no temporary folder can be made",
      hint: "let TMPDIR name a folder that can be written",
      cause: reason(count)
    )
  }

  /// Removes a folder with all that is in it, as far as that is possible.
  package static func removeFolder(_ path: String) {
    put(Array(path.utf8))
    _ = perdure_folder_remove()
  }

  /// Returns the names of the files in a folder, in order; throws `notFound` if it is none.
  package static func files(inFolder path: String) throws(PerdureError) -> [String] {
    put(Array(path.utf8))
    let folder = perdure_folder_open()
    defer { if folder >= 0 { perdure_file_close(folder) } }
    let count = folder < 0 ? Int64(folder) : perdure_folder_names(folder)
    guard count >= 0 else {
      throw PerdureError(
        .notFound,
        "the folder \(path) cannot be read",
        hint: "check that it exists and may be read",
        cause: reason(count)
      )
    }
    return String(decoding: take(count), as: UTF8.self).split(separator: "/").map(String.init)
      .sorted()
  }
}
