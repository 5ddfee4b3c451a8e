import Glibc

/// A program that a test runs: started without Foundation, whose `Process` can miss an end.
package struct Program {
  /// How a program ended.
  package struct End: Sendable {
    /// The id that it had.
    package var process: Int32
    /// The exit status, or -1 if a signal ended it.
    package var status: Int32
    /// The signal that ended it, or 0.
    package var signal: Int32
    /// What it wrote, standard error included.
    package var output: String
  }

  /// What went wrong before a program ran.
  package struct Failure: Error, CustomStringConvertible {
    package var description: String

    package init(description: String) { self.description = description }
  }

  private let process: pid_t
  private let output: String

  /// Starts a program of the path; what it writes goes to the file `output`.
  package init(_ words: [String], output: String) throws {
    guard let name = words.first else { throw Failure(description: "no program") }
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    let flags = O_WRONLY | O_CREAT | O_TRUNC
    unsafe posix_spawn_file_actions_addopen(&actions, 1, output, flags, 0o644)
    unsafe posix_spawn_file_actions_adddup2(&actions, 1, 2)
    unsafe posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    // The strings live until the child has been started.
    var pointers = unsafe words.map { unsafe strdup($0) } + [nil]
    defer { for place in unsafe pointers.indices { unsafe free(pointers[place]) } }
    var child: pid_t = 0
    guard unsafe posix_spawnp(&child, name, &actions, nil, &pointers, environ) == 0 else {
      throw Failure(description: "\(name) cannot be started")
    }
    process = child
    self.output = output
  }

  /// Sends a signal; an ended program does not mind.
  package func signal(_ number: Int32) { kill(process, number) }

  /// Returns when the program has ended.
  package func end() -> End {
    var status: Int32 = 0
    while unsafe waitpid(process, &status, 0) < 0, errno == EINTR {}
    let signal = status & 0x7F
    return End(
      process: process,
      status: signal == 0 ? (status >> 8) & 0xFF : -1,
      signal: signal,
      output: Self.read(output)
    )
  }

  /// Runs a program to its end.
  package static func run(_ words: [String], output: String) throws -> End {
    try Program(words, output: output).end()
  }

  /// Returns the text of a file, or nothing.
  package static func read(_ path: String) -> String {
    let file = unsafe open(path, O_RDONLY)
    guard file >= 0 else { return "" }
    defer { close(file) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = unsafe Glibc.read(file, &buffer, buffer.count)
      if count <= 0 { return String(decoding: bytes, as: UTF8.self) }
      bytes += buffer.prefix(count)
    }
  }
}
