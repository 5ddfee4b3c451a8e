import Glibc
import PerdureValue
import Synchronization

/// The built program, run as users run it.
enum Program {
  /// What a run came to.
  struct Finished: Sendable {
    /// The exit status; 128 + N if the signal N ended it.
    var status: Int32
    var output: String
    var error: String

    /// The lines of standard output as JSON; one that is none reads as `null`.
    var events: [JSON] {
      output.split(separator: "\n").map { (try? JSON(parsing: String($0))) ?? .null }
    }
  }

  /// A run that has not ended yet.
  struct Running: Sendable {
    let pid: pid_t
    fileprivate let folder: Folder
    fileprivate let name: String

    /// Sends a signal.
    func signal(_ number: Int32) { kill(pid, number) }

    /// The most memory that it has had so far.
    ///
    /// What `wait4` reports will not do: a program inherits the peak of the one that started it.
    var peakKiB: Int? {
      String(decoding: Folder.bytes(at: "/proc/\(pid)/status"), as: UTF8.self)
        .split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        .flatMap { Int($0.filter(\.isNumber)) }
    }

    /// Returns what it came to, once it has ended.
    func wait() -> Finished {
      var status: Int32 = 0
      while unsafe waitpid(pid, &status, 0) == -1 && errno == EINTR {}
      let signal = status & 0x7F
      return Finished(
        status: signal == 0 ? (status >> 8) & 0xFF : 128 + signal,
        output: folder.read(name + ".out"),
        error: folder.read(name + ".err")
      )
    }
  }

  private static let counter = Mutex(0)

  /// The folder of what was built, in which the tests lie too.
  static let products: String = {
    let path = executable
    return path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
  }()

  /// The launcher of sandboxes, which is no product of the package, beside the others; 0 if it was built.
  private static let launcherStatus: Int32 = {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    let words = [
      "/\(root)/Sources/PerdureSandboxLauncher/build", products + "/perdure-sandbox",
    ]
    let pid = spawn(["/bin/sh"] + words, ["PATH": "/usr/local/bin:/usr/bin:/bin"], [])
    var status: Int32 = 0
    while unsafe waitpid(pid, &status, 0) == -1 && errno == EINTR {}
    return status
  }()

  private static var executable: String {
    guard let full = unsafe realpath("/proc/self/exe", nil) else { return "" }
    defer { unsafe free(full) }
    return unsafe String(cString: full)
  }

  /// Runs `perdure` to its end; everything that it keeps lies in `folder`.
  static func run(
    _ arguments: [String],
    in folder: Folder,
    input: String = "",
    environment: [String: String] = [:]
  ) -> Finished {
    start(arguments, in: folder, input: input, environment: environment).wait()
  }

  /// What the launcher of sandboxes prints of this machine.
  static func probe(in folder: Folder) -> String {
    precondition(launcherStatus == 0, "the launcher of sandboxes cannot be built")
    return start([products + "/perdure-sandbox", "--probe"], folder, "", [:]).wait().output
  }

  /// Starts `perdure`.
  static func start(
    _ arguments: [String],
    in folder: Folder,
    input: String = "",
    environment: [String: String] = [:]
  ) -> Running {
    precondition(launcherStatus == 0, "the launcher of sandboxes cannot be built")
    return start([products + "/perdure"] + arguments, folder, input, environment)
  }

  /// Starts `perdure` with standard output going to a pipe with a name; with `onTerminal` that is
  /// a terminal, and so is standard error.
  static func start(
    _ arguments: [String],
    in folder: Folder,
    output: Journal,
    onTerminal: Bool = false
  ) -> Running {
    let line = ([products + "/perdure"] + arguments).map { "'\($0)'" }.joined(separator: " ")
    let command =
      onTerminal ? #"exec script -qefc "$1" /dev/null > "$0""# : #"eval "exec $1" > "$0""#
    return start(["/bin/sh", "-c", command, output.path, line], folder, "", [:])
  }

  /// Runs another program to its end, as compilers are.
  static func runTool(_ words: [String], in folder: Folder) -> Finished {
    startTool(words, in: folder).wait()
  }

  /// Starts another program.
  static func startTool(_ words: [String], in folder: Folder) -> Running {
    start(["/usr/bin/env"] + words, folder, "", [:])
  }

  private static func start(
    _ words: [String],
    _ folder: Folder,
    _ input: String,
    _ variables: [String: String]
  ) -> Running {
    let name = counter.withLock { counter in
      counter += 1
      return ".run-\(counter)"
    }
    folder.write(input, to: name + ".in")
    var environment = ["HOME": folder.path, "PATH": "/usr/local/bin:/usr/bin:/bin", "TZ": "UTC"]
    for (key, value) in variables { environment[key] = value }
    let create = O_WRONLY | O_CREAT | O_TRUNC
    let files: [(path: String, flags: Int32)] = [
      (folder.file(name + ".in"), O_RDONLY), (folder.file(name + ".out"), create),
      (folder.file(name + ".err"), create),
    ]
    return Running(pid: spawn(words, environment, files), folder: folder, name: name)
  }

  /// Removes a folder with all that is in it.
  static func remove(_ path: String) {
    let pid = spawn(["/bin/rm", "-rf", path], [:], [])
    var status: Int32 = 0
    unsafe waitpid(pid, &status, 0)
  }

  private static func spawn(
    _ words: [String],
    _ environment: [String: String],
    _ files: [(path: String, flags: Int32)]
  ) -> pid_t {
    var pid: pid_t = 0
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    for (number, file) in files.enumerated() {
      unsafe posix_spawn_file_actions_addopen(
        &actions,
        Int32(number),
        file.path,
        file.flags,
        0o600
      )
    }
    // Whoever started the tests may ignore Ctrl-C.
    var attributes = posix_spawnattr_t()
    unsafe posix_spawnattr_init(&attributes)
    var signals = sigset_t()
    unsafe sigemptyset(&signals)
    unsafe sigaddset(&signals, SIGINT)
    unsafe posix_spawnattr_setsigdefault(&attributes, &signals)
    unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF))
    let arguments = unsafe words.map { unsafe strdup($0) } + [nil]
    let pairs = unsafe environment.map { unsafe strdup("\($0.key)=\($0.value)") } + [nil]
    let code = unsafe posix_spawn(&pid, words[0], &actions, &attributes, arguments, pairs)
    var copies = unsafe arguments + pairs
    while let word = unsafe copies.popLast() { unsafe free(word) }
    unsafe posix_spawnattr_destroy(&attributes)
    unsafe posix_spawn_file_actions_destroy(&actions)
    precondition(code == 0, "\(words[0]) cannot be started (error \(code))")
    return pid
  }
}
