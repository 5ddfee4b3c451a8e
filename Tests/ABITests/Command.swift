import Glibc

/// Runs programs, because Foundation's `Process` now and then misses the end of one.
enum Command {
  /// What a program that failed printed.
  struct Failure: Error, CustomStringConvertible {
    var description: String
  }

  /// Runs a program of the path; returns what it prints, throws if it fails.
  @discardableResult static func run(_ words: [String]) throws -> String {
    var ends: [Int32] = [0, 0]
    guard unsafe pipe(&ends) == 0 else { throw Failure(description: "no pipe") }
    defer { close(ends[0]) }
    _ = fcntl(ends[0], F_SETFD, FD_CLOEXEC)
    _ = fcntl(ends[1], F_SETFD, FD_CLOEXEC)
    let child = try spawn(words, output: ends[1])
    close(ends[1])
    let output = read(ends[0])
    guard wait(for: child) == 0 else {
      throw Failure(description: "\(words.joined(separator: " ")): \(output)")
    }
    return output
  }

  /// Gives the id of a process that is gone.
  static func deadProcess() throws -> Int32 {
    let child = try spawn(["true"], output: 2)
    _ = wait(for: child)
    return child
  }

  private static func spawn(_ words: [String], output: Int32) throws -> pid_t {
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    unsafe posix_spawn_file_actions_adddup2(&actions, output, 1)
    unsafe posix_spawn_file_actions_adddup2(&actions, output, 2)
    let arguments = unsafe words.map { unsafe strdup($0) } + [nil]
    defer { for index in words.indices { unsafe free(arguments[index]) } }
    var child = pid_t()
    let status = unsafe posix_spawnp(&child, words[0], &actions, nil, arguments, environ)
    guard status == 0 else { throw Failure(description: "\(words[0]) cannot be run") }
    return child
  }

  private static func read(_ descriptor: Int32) -> String {
    var output: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4_096)
    while true {
      let count = unsafe Glibc.read(descriptor, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return String(decoding: output, as: UTF8.self) }
      output += buffer.prefix(count)
    }
  }

  private static func wait(for child: pid_t) -> Int32 {
    var status: Int32 = 0
    while unsafe waitpid(child, &status, 0) < 0, errno == EINTR {}
    return status
  }
}
