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
  }
}
