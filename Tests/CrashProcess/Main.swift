import Glibc
import PerdureModel
import PerdureTestKit
import PerdureValue

/// A process that plays a scenario on a store and dies at a chosen call.
///
///     CrashProcess play STORE EFFECTS SCENARIO storage|files CALL before|half|after
///     CrashProcess look STORE
///     CrashProcess sweep FOLDER sqlite|jsonl|memory storage|files SCENARIO SEED POINTS|all
///     CrashProcess install FOLDER FILE install|upgrade|rollback|uninstall STEP
///
/// A store whose name ends with `.jsonl` is a folder of JSON lines, any other one a SQLite file.
/// With CALL 0 it lives. Playing again after a death is the recovery: a walk-through submits under
/// fixed request ids, and the steps of the kernel go on behind the last one that is on disk. At
/// the end it prints what the scenario leaves, and which calls it made. `sweep` plays the scenario
/// once to its end, and then for each call, or for as many POINTS as are asked for, until it dies
/// there and again to its end; it prints a line for each. `look` prints what is wrong with a store
/// that nobody has opened since a death, and changes nothing. `install` changes the plugins installed
/// in a folder and dies before the step of that number; with 0 it lives, and prints the steps.
@main
struct Main {
  static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    do {
      switch (arguments.first, arguments.count) {
      case ("sweep", 7):
        try await Sweep(program: CommandLine.arguments[0], arguments).run()
      case ("play", 7): try await play(arguments)
      case ("install", 5): try await PluginSteps(arguments).run()
      case ("race", 5), ("raced", 3): try await race(arguments)
      case ("look", 2):
        for problem in try await Backend.look(at: arguments[1]).problems { print(problem) }
      default:
        print("usage: CrashProcess play|look|sweep|race|raced|install …")
        exit(2)
      }
    } catch {
      print("CrashProcess: \(error)")
      exit(1)
    }
  }

  /// Takes part in a race for a store, or checks one that is over.
  private static func race(_ arguments: [String]) async throws {
    guard let kind = Race.Kind(rawValue: arguments[1]) else {
      throw PerdureError(.invalidInput, "there is no kind of store '\(arguments[1])'")
    }
    let race = Race(kind: kind, folder: arguments[2])
    guard arguments.count == 5 else { return try await race.check() }
    guard let seed = UInt64(arguments[3]), let turns = Int(arguments[4]) else {
      throw PerdureError(.invalidInput, "a race needs a seed and a number of turns")
    }
    try await race.run(seed: seed, turns: turns)
  }

  private static func play(_ arguments: [String]) async throws {
    let scenario = try ScenarioName(arguments[3])
    let failpoint = try Failpoint(arguments[4], arguments[5], arguments[6]) { Failpoint.die() }
    let storage = try await Backend.open(arguments[1], failpoint)
    var result = try await scenario.play(storage, effects: arguments[2]) { steps in
      say(["confirmed": .int(Int64(steps))])
    }
    result["calls"] = .array(failpoint.calls.map { .array([.string($0.name), .bool($0.writes)]) })
    say(.object(result))
  }
}

/// Prints a line at once: a death would keep what is buffered.
func say(_ line: JSON) {
  print(line.compactText)
  fflush(nil)
}

/// What is played, as a word of the command line.
enum ScenarioName {
  case walk(WalkThrough, ReplayPolicy)
  case kernel(UInt64)

  /// Reads `A2-safe` or `kernel-7`.
  init(_ word: String) throws {
    let parts = word.split(separator: "-").map(String.init)
    guard parts.count == 2 else { throw Self.unknown(word) }
    if parts[0] == "kernel", let seed = UInt64(parts[1]) {
      self = .kernel(seed)
    } else if let walk = WalkThrough(rawValue: parts[0]),
      let replay = ReplayPolicy(rawValue: parts[1])
    {
      self = .walk(walk, replay)
    } else {
      throw Self.unknown(word)
    }
  }

  private static func unknown(_ word: String) -> PerdureError {
    PerdureError(.invalidInput, "there is no scenario '\(word)'")
  }

  /// Plays to the end, from what the store holds on, and returns what is to be compared.
  ///
  /// `confirm` is told how many steps are on disk, where a scenario has steps.
  func play(
    _ storage: any Storage,
    effects: String,
    confirm: @escaping @Sendable (Int) -> Void
  ) async throws -> JSONObject {
    switch self {
    case .walk(let walk, let replay):
      try await Walk(walk: walk, replay: replay, effects: effects).play(on: storage)
    case .kernel(let seed):
      try await Kernel(seed: seed, confirm: confirm).play(on: storage)
    }
  }
}
