import Glibc
import Perdure
import PerdureModel

/// What very many tasks cost that sleep or wait, and whether they wake the process.
enum Sleepers {
  struct Position: TaskCheckpoint {
    var phase = "begin"
  }

  private struct Plan: Codable, Sendable {
    /// The task for which it waits; absent: it sleeps.
    var on: Int64?
  }

  private struct Nothing: Codable, Sendable {}

  /// Half of them sleep until long after the benchmark, the others wait for one that does.
  private static let type = TaskType<Plan, Position, Nothing>(
    "bench.sleeper",
    initial: { _ in Position() },
    phases: [
      Phase("begin") { run in
        let next = Position(phase: "end")
        guard let id = run.input.on.flatMap({ TaskID($0) }) else {
          return try await run.sleep(until: run.now + 86_400_000, at: next)
        }
        try await run.commit { _ in .waiting(next, on: [id]) }
      },
      Phase("end") { run in try await run.commit { _ in .completed(Nothing()) } },
    ]
  )

  static func run(_ arguments: Arguments) async throws {
    switch arguments.mode {
    case "fill": try await fill(arguments)
    case "hold": try await hold(arguments)
    default: try measure(arguments)
    }
  }

  private static func open(_ arguments: Arguments) async throws -> Harness {
    try await Harness.open(
      .sqliteFile(at: arguments.folder + "/perdure.db", durability: .normal),
      models: BenchModel(calls: 0, stamps: nil),
      extensions: [Extension(name: "bench", tasks: [type])]
    )
  }

  /// Creates the tasks and stays, with all of them asleep.
  private static func fill(_ arguments: Arguments) async throws {
    let harness = try await open(arguments)
    let root = try await harness.root()
    let first = try await root.commit { try await $0.createTask(type, Plan()) }
    try await harness.resume()
    let count = arguments.count ?? 1_000
    var created = 1
    while created < count {
      let portion = min(100, count - created)
      let newest = try await root.commit { tx in
        var newest = first
        for number in 0..<portion {
          let plan = Plan(on: number % 2 == 0 ? first.value : nil)
          newest = try await tx.createTask(type, plan)
        }
        return newest
      }
      created += portion
      // Not all at once, so that what runs at a time does not count as what sleeps.
      try await untilDormant(newest, harness)
    }
    try await untilAllDormant(harness)
    try await stay()
  }

  /// Opens a store in which tasks sleep, and stays.
  private static func hold(_ arguments: Arguments) async throws {
    let harness = try await open(arguments)
    try await harness.resume()
    try await stay()
    _ = harness
  }

  private static func untilDormant(_ id: TaskID, _ harness: Harness) async throws {
    while let task = try await harness.task(id), task.state.status != .sleeping,
      task.state.status != .waiting
    {
      await giveWay()
    }
  }

  private static func untilAllDormant(_ harness: Harness) async throws {
    while try await harness.wake().isActive { await giveWay() }
  }

  private static func stay() async throws {
    print("READY")
    fflush(nil)
    // Until it is killed.
    await Child.sleepForever()
  }

  // MARK: Measurement

  private static func measure(_ arguments: Arguments) throws {
    let calibration = try Calibration(in: arguments.folder)
    let counts = [1_000, max(1_000, arguments.count ?? 100_000)]
    var base: [String: Double] = [:]
    for count in counts {
      let folder = arguments.folder + "/sleepers-\(Machine.now)-\(count)"
      for mode in ["fill", "hold"] {
        let (resident, wakeups) = try Child.atRest([
          "sleepers", "--dir", folder, "--n", "\(count)", "--mode", mode,
        ])
        var line = ResultLine("sleepers")
        line["n"] = .int(Int64(count))
        line["mode"] = .string(JSONString(mode))
        line.set("rss_mb", resident)
        if let first = base[mode] { line.set("rss_growth_mb", resident - first) }
        base[mode] = base[mode] ?? resident
        line["wakeups_in_10_s"] = .int(wakeups)
        line.print(calibration)
      }
    }
  }
}
