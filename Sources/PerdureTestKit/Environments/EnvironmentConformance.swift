public import PerdureModel

/// What every environment must do, as cases that a test framework of any kind can run.
///
///     for test in EnvironmentConformance.cases {
///       try await test.run(EnvironmentHarness(try await freshEnvironment()))
///     }
///
/// Each case needs an environment of its own whose working folder is empty and can be written. A case
/// that fails throws, and the error says what differed.
public enum EnvironmentConformance {
  /// One claim about an environment.
  public struct Case: Sendable, CustomStringConvertible {
    /// What the claim is about.
    public let group: Group
    /// A sentence that says what is claimed.
    public let name: String
    /// Checks it.
    public let run: @Sendable (EnvironmentHarness) async throws -> Void

    public var description: String { "\(group.rawValue): \(name)" }
  }

  /// What claims are about; the last five are for environments that have these things.
  public enum Group: String, Sendable, CaseIterable {
    case files
    case fileReader = "file reader"
    case folderReader = "folder reader"
    case watch
    case execution
    case links
    case listing
    case sessions
    case terminals
  }

  /// All cases, in the order of their groups.
  public static let cases: [Case] =
    fileCases + fileReaderCases + folderReaderCases + watchCases + executionCases + linkCases
    + listingCases + sessionCases + terminalCases

  /// The cases of some groups.
  public static func cases(of groups: Set<Group>) -> [Case] {
    cases.filter { groups.contains($0.group) }
  }

  static func each(_ group: Group, _ cases: [(String, Body)]) -> [Case] {
    cases.map { Case(group: group, name: $0.0, run: $0.1) }
  }

  typealias Body = @Sendable (EnvironmentHarness) async throws -> Void
}

/// An environment as the conformance suite uses it.
public struct EnvironmentHarness: Sendable {
  /// Creates a symbolic link at a path, which leads to `target`.
  public typealias MakeLink = @Sendable (_ path: String, _ target: String) async throws -> Void

  public let env: any Environment
  let makeLink: MakeLink?

  /// Takes an environment whose working folder is empty; links are made by `makeLink`.
  public init(_ env: any Environment, makeLink: MakeLink? = nil) {
    self.env = env
    self.makeLink = makeLink
  }

  func link(_ path: String, to target: String) async throws {
    guard let makeLink else {
      throw ConformanceFailure("the harness cannot make the link '\(path)'")
    }
    try await makeLink(try env.absolutePath(path), target)
  }
}

/// Runs the cases of `groups`, each on an environment that `open` makes; throws what differed first.
public func runEnvironmentConformance(
  _ groups: Set<EnvironmentConformance.Group>,
  open: @Sendable () async throws -> EnvironmentHarness
) async throws {
  for test in EnvironmentConformance.cases(of: groups) {
    let harness = try await open()
    do {
      try await test.run(harness)
    } catch {
      await harness.env.cleanup()
      throw ConformanceFailure("\(test): \(error)")
    }
    await harness.env.cleanup()
  }
}

/// Throws unless `body` throws a `FileError` with this code.
func expectFileError(
  _ code: FileError.Code,
  _ what: String,
  _ body: () async throws -> Void
) async throws {
  do {
    try await body()
  } catch let error as FileError {
    return try expect(error.code, code, "\(what): \(error)")
  }
  throw ConformanceFailure("\(what): no error, wanted \(code.rawValue)")
}

/// Throws unless `body` throws an `ExecutionError` with this code.
func expectExecutionError(
  _ code: ExecutionError.Code,
  _ what: String,
  _ body: () async throws -> Void
) async throws {
  do {
    try await body()
  } catch let error as ExecutionError {
    return try expect(error.code, code, "\(what): \(error)")
  }
  throw ConformanceFailure("\(what): no error, wanted \(code.rawValue)")
}

/// Runs `body` in a task that is cancelled already.
func cancelled(_ body: @escaping @Sendable () async throws -> Void) async throws {
  let task = Task.detached {
    while !Task.isCancelled { await giveWay() }
    try await body()
  }
  task.cancel()
  try await task.value
}
