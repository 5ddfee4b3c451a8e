import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// What code of an extension does wrong.
enum Misdeed: String, CaseIterable, Sendable {
  case throwing
  /// It ignores its cancellation, too.
  case hanging
  /// It answers what it must not.
  case junk
  /// It commits, itself and through another task.
  case committing
  case submitting
  /// It waits for the conversation that waits for it.
  case waiting
  case uninstalling
  case replacing

  /// Whether the call comes to nothing.
  var fails: Bool {
    switch self {
    case .throwing, .hanging, .junk, .waiting: true
    case .committing, .submitting, .uninstalling, .replacing: false
    }
  }
}

/// Code of the extension `ext` that does something wrong at its first call, and nothing later.
final class Culprit: Sendable {
  let misdeed: Misdeed
  let started = Event()
  let finished = Event()
  /// Lets code that hangs return at last.
  let release = Event()
  /// What it submitted.
  let submitted = Log<SubmissionID>()
  private let engines = Log<Engine>()
  private let hasActed = Mutex(false)
  private let others: Extension

  /// Makes one; `others` is what the extension is replaced by.
  init(_ misdeed: Misdeed, others: Extension = Extension(name: "ext")) {
    self.misdeed = misdeed
    self.others = others
  }

  func knows(_ engine: Engine) { engines.add(engine) }

  /// Returns whether junk is to be answered.
  func act() async throws -> Bool {
    let isFirst = hasActed.withLock { hasActed in
      defer { hasActed = true }
      return !hasActed
    }
    guard isFirst, let engine = engines.all.first else { return false }
    defer { finished.happen() }
    started.happen()
    switch misdeed {
    case .throwing: throw HookFault()
    case .hanging: await release.wait()
    case .junk: return true
    case .committing:
      try await engine.configure(.root, ["thinkingLevel": "low"])
      try await Task { try await engine.configure(.root, ["thinkingLevel": "high"]) }.value
    case .submitting: submitted.add(try await engine.submit("from inside", to: .root))
    case .waiting: try await engine.waitForIdle(.root)
    case .uninstalling: engine.registry.uninstall("ext")
    case .replacing: try engine.registry.install(others)
    }
    return false
  }

  /// Lets the deadline of a call that does not end pass, and then its grace.
  func pass(_ deadline: Duration, grace: Duration = .seconds(5), _ clock: ManualClock) async {
    guard misdeed == .hanging || misdeed == .waiting else { return }
    await started.wait()
    await clock.waitForSleeper(ofExactly: deadline)
    clock.advance(by: deadline)
    guard misdeed == .hanging else { return }
    await clock.waitForSleeper(ofExactly: grace)
    clock.advance(by: grace)
  }
}

extension TestBench {
  /// A bench on which a run that failed keeps nothing back, and only wishes lead to summaries.
  static func rough() -> TestBench {
    var bench = compacting(limit: 50_000)
    bench.settings.afterFailedRun = .continue
    return bench
  }

  /// A tool as `echo` that shares nothing with those of other engines.
  static var ownEcho: Tool {
    Tool(name: "echo", description: "", parameters: echo.parameters, execute: echo.execute)
  }

  /// A model that calls `echo` once for each prompt, always with the same id, and then answers.
  static var echoing: ScriptedModel {
    model { request in
      ScriptedModel.turn(of: request) == 0
        ? ScriptedModel.calls((id: "c", name: "echo", arguments: HookTests.sayHi))
        : ScriptedModel.text(text(10))
    }
  }

  /// Checks that nothing of what went wrong holds up what comes next.
  func checkNext(_ engine: Engine, _ culprit: Culprit) async throws {
    // Calls of an unsafe tool wait for one that was given up and may still run.
    culprit.release.happen()
    #expect(try await ask(engine, "again").status == .done)
    for id in culprit.submitted.all { #expect(try await engine.wait(for: id).status == .done) }
    await engine.waitUntilQuiet()
    #expect(engine.session.liveTasks.isEmpty)
    try await end(engine)
  }

  /// The reports of the extension `ext`.
  var complaints: [Report] { reports.all.filter { $0.type == "extension_error" } }
}
