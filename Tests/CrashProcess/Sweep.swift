import Glibc
import PerdureValue
import TestPrograms

/// Plays a walk-through once for each storage call, killed at that call, and then to its end.
struct Sweep {
  let program: String
  let folder: String
  let rest: [String]

  /// Prints the undisturbed run, then one line for each death.
  func run() throws {
    let whole = try play("whole", 0, "before")
    report(["whole": true], whole, folder + "/whole.effects")
    let result = Self.result(whole)
    let groups = (result?["groups"]?.array ?? []).compactMap { $0.int.map(Int.init) }
    // A run may make some calls more than another, so the sweep ends where nothing dies any more.
    var call = 0
    var deaths = 0
    repeat {
      call += 1
      deaths = 0
      // Between two reads nothing changes, so death behind one is death before the next.
      for moment in groups.contains(call) ? ["before", "after"] : ["before"] {
        let name = "\(call)-\(moment)"
        guard try play(name, call, moment).signal == SIGKILL else { continue }
        deaths += 1
        let again = try play(name, 0, "before")
        report(
          ["call": .int(call), "moment": .string(moment)],
          again,
          "\(folder)/\(name).effects"
        )
      }
    } while deaths > 0
  }

  private static func result(_ end: Program.End) -> JSON? {
    end.output.split(separator: "\n").last.flatMap { try? JSON(parsing: String($0)) }
  }

  private func report(_ point: JSONObject, _ end: Program.End, _ effects: String) {
    var line = point
    line["status"] = .int(Int64(end.status))
    line["output"] = .string(end.output)
    line["context"] = Self.result(end)?["context"]
    line["effects"] = .array(
      Program.read(effects).split(separator: "\n").map { .string(String($0)) }
    )
    print(JSON.object(line).compactText)
  }

  private func play(_ name: String, _ call: Int, _ moment: String) throws -> Program.End {
    try Program.run(
      [program, "\(folder)/\(name).sqlite", "\(folder)/\(name).effects"] + rest
        + ["\(call)", moment],
      output: "\(folder)/\(name).out"
    )
<<<<<<< HEAD
    unsafe posix_spawn_file_actions_adddup2(&actions, 1, 2)
    // The strings live until the child has been started.
    var pointers = unsafe arguments.map { unsafe strdup($0) } + [nil]
    defer { unsafe pointers.forEach { unsafe free($0) } }
    var child: pid_t = 0
    guard unsafe posix_spawn(&child, program, &actions, nil, &pointers, environ) == 0 else {
      return Ended(status: 127, signal: 0, output: "cannot start \(program)")
    }
    var status: Int32 = 0
    while unsafe waitpid(child, &status, 0) < 0, errno == EINTR {}
    let signal = status & 0x7F
    return Ended(
      status: signal == 0 ? (status >> 8) & 0xFF : -1,
      signal: signal,
      output: Self.read(output)
    )
  }

  private static func read(_ path: String) -> String {
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
=======
>>>>>>> 9ac8419a25a066cf7f723fc48c2ed0c01bd46fdb
  }
}
