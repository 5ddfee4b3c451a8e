import Glibc
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import TestPrograms

/// Plays a scenario once for each call, until it dies or fails there, and then to its end.
struct Sweep {
  /// A call and the moment of it.
  private struct Point {
    var call: Int
    var moment: Failpoint.Moment
  }

  private let program: String
  private let folder: String
  private let backend: Backend
  private let layer: Failpoint.Layer
  private let word: String
  private let scenario: ScenarioName
  private let seed: UInt64
  /// How many points are tried; all of them if absent.
  private let wanted: Int?
  /// What a store of the kernel's scenario holds after each step.
  private var contents: [JSONObject] = []

  init(program: String, _ arguments: [String]) async throws {
    self.program = program
    folder = arguments[1]
    word = arguments[4]
    scenario = try ScenarioName(word)
    guard let backend = Backend(rawValue: arguments[2]),
      let layer = Failpoint.Layer(rawValue: arguments[3]), let seed = UInt64(arguments[5]),
      arguments[6] == "all" || Int(arguments[6]) != nil
    else { throw PerdureError(.invalidInput, "there is no such sweep") }
    (self.backend, self.layer, self.seed, wanted) = (backend, layer, seed, Int(arguments[6]))
    if case .kernel(let seed) = scenario { contents = try await Self.contents(seed) }
  }

  /// Prints the undisturbed run, then one line for each death.
  func run() async throws {
    let whole = try await trial("whole", nil)
    say(.object(whole))
    let calls = whole["result"]?["calls"]?.array ?? []
    for (number, point) in points(of: calls).enumerated() {
      say(.object(try await trial("\(number)", point)))
    }
  }

  private func points(of calls: [JSON]) -> [Point] {
    var points: [Point] = []
    // A run may make some calls more than another.
    let further = (0..<4).map { _ in JSON.array(["read", false]) }
    for (place, call) in (calls + further).enumerated() {
      points.append(Point(call: place + 1, moment: .before))
      // Between two reads nothing changes, so death behind one is death before the next.
      guard call.array?.last == true else { continue }
      if layer == .files, ["append", "write"].contains(call.array?.first) {
        points.append(Point(call: place + 1, moment: .half))
      }
      points.append(Point(call: place + 1, moment: .after))
    }
    guard let wanted else { return points }
    var random = SeededGenerator(seed: seed)
    return Array(points.shuffled(using: &random).prefix(wanted))
  }

  private func trial(_ name: String, _ point: Point?) async throws -> JSONObject {
    var line: JSONObject = [:]
    if let point {
      line["call"] = .int(Int64(point.call))
      line["moment"] = .string(point.moment.rawValue)
    }
    if backend == .memory {
      try await fail(name, point, &line)
    } else {
      try await kill(name, point, &line)
    }
    let effects = Program.read("\(folder)/\(name).effects").split(separator: "\n")
    line["effects"] = .array(effects.map { .string(String($0)) })
    return line
  }

  // MARK: Deaths

  private func kill(_ name: String, _ point: Point?, _ line: inout JSONObject) async throws {
    if let point {
      var deaths = [point]
      var random = SeededGenerator(seed: seed &+ UInt64(point.call))
      // The recovery may die too.
      if random.chance(25) { deaths.append(Point(call: random.int(1...20), moment: .before)) }
      var problems: [String] = []
      var died = 0
      for death in deaths {
        let end = try play(name, death.call, death.moment)
        if end.signal == SIGKILL { died += 1 }
        problems += try await look(name, after: end)
      }
      line["deaths"] = .int(Int64(died))
      line["problems"] = .array(problems.map { .string($0) })
    }
    let end = try play(name, 0, .before)
    line["status"] = .int(Int64(end.status))
    line["output"] = .string(String(end.output.prefix(1_000)))
    if let result = Self.lines(end).last { take(result, &line) }
  }

  private func look(_ name: String, after end: Program.End) async throws -> [String] {
    let confirmed = Self.lines(end).compactMap { $0["confirmed"]?.int.map { Int($0) } }.max()
    do {
      return problems(of: try await Backend.look(at: path(name)), confirmed ?? 0)
    } catch {
      return ["it cannot be read: \(error)"]
    }
  }

  private func path(_ name: String) -> String { "\(folder)/\(name).\(backend.rawValue)" }

  private static func lines(_ end: Program.End) -> [JSON] {
    end.output.split(separator: "\n").compactMap { try? JSON(parsing: String($0)) }
  }

  private func play(
    _ name: String,
    _ call: Int,
    _ moment: Failpoint.Moment
  ) throws -> Program.End {
    try Program.run(
      [
        program, "play", path(name), "\(folder)/\(name).effects", word, layer.rawValue, "\(call)",
        moment.rawValue,
      ],
      output: "\(folder)/\(name).out"
    )
  }

  // MARK: Faults

  /// A store in memory does not survive its process, so its calls fail instead.
  private func fail(_ name: String, _ point: Point?, _ line: inout JSONObject) async throws {
    var memory = MemoryStorage()
    let effects = "\(folder)/\(name).effects"
    if let point {
      let failpoint = Failpoint(layer: .storage, target: point.call, moment: point.moment) {
        throw PerdureError(.storageFailed, "the storage fails in this test")
      }
      let confirmed = Mutex(0)
      let failing = FailpointStorage(memory, failpoint)
      _ = try? await scenario.play(failing, effects: effects) { steps in
        confirmed.withLock { $0 = steps }
      }
      line["deaths"] = failpoint.isReached ? 1 : 0
      memory = MemoryStorage(continuing: memory)
      let remains = try await Backend.look(through: MemoryStorage(continuing: memory))
      line["problems"] = .array(
        problems(of: remains, confirmed.withLock { $0 }).map { .string($0) }
      )
    }
    let counter = Failpoint(layer: .storage, target: 0, moment: .before) {}
    let storage = FailpointStorage(memory, counter)
    var result = try await scenario.play(storage, effects: effects) { _ in }
    result["calls"] = .array(counter.calls.map { [.string($0.name), .bool($0.writes)] })
    line["status"] = 0
    take(.object(result), &line)
  }

  // MARK: Judgement

  /// What is wrong with a store that nobody has opened since.
  private func problems(of remains: Backend.Remains, _ confirmed: Int) -> [String] {
    var problems = remains.problems
    guard !contents.isEmpty, let dump = remains.dump.map(Kernel.plain) else { return problems }
    let steps = Kernel.steps(in: dump)
    if steps < confirmed { problems.append("\(confirmed) steps were on disk, \(steps) are there") }
    if steps > 0, contents[min(steps, contents.count - 1)] != dump {
      problems.append("the store is not what \(steps) steps make of it")
    }
    return problems
  }

  /// Takes over what a run to the end left; the contents of a store are compared here.
  private func take(_ result: JSON, _ line: inout JSONObject) {
    var result = result.object ?? [:]
    if let last = contents.last {
      if result["dump"] != .object(last) {
        result["violations"] = .array(
          (result["violations"]?.array ?? []) + [
            .string(
              "the store does not end as it should: "
                + Self.difference(result["dump"] ?? .null, .object(last))
            )
          ]
        )
      }
      result["dump"] = nil
    }
    line["result"] = .object(result)
  }

  /// Where two values differ first.
  private static func difference(_ left: JSON, _ right: JSON) -> String {
    if let mine = left.object, let other = right.object {
      for (key, value) in other where mine[key] != value {
        return key.string + "." + difference(mine[key] ?? .null, value)
      }
    }
    if let mine = left.array, let other = right.array, mine.count == other.count {
      for (place, pair) in zip(mine, other).enumerated() where pair.0 != pair.1 {
        return "\(place)." + difference(pair.0, pair.1)
      }
    }
    return "\(left.compactText.prefix(200)) instead of \(right.compactText.prefix(200))"
  }

  private static func contents(_ seed: UInt64) async throws -> [JSONObject] {
    let recorder = StepRecorder()
    _ = try await Kernel(seed: seed, confirm: { _ in }).play(on: recorder)
    var contents: [JSONObject] = [[:]]
    for copy in recorder.copies {
      let dump = Kernel.plain(try await StoreDump(copy).json())
      contents.append(dump)
    }
    return contents
  }
}
