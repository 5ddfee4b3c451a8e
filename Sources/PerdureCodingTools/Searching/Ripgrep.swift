import PerdureModel
import PerdureValue
import Synchronization

/// The program `rg` of an environment, where it has one: it says which of many files are worth a look.
///
/// What it looks for fits at least as much as what is meant, and each file that it names is looked at
/// here, so what is found is the same without it.
struct Ripgrep: Sendable {
  /// What it looks for.
  enum Outline: Sendable {
    case literal(String)
    case expression(String)
  }

  /// Fewer files are looked at as quickly without it.
  private static let fewest = 100
  /// What a command line has room for.
  private static let mostPaths = 2_000
  private static let mostBytes = 64 << 10
  /// In seconds.
  private static let patience = 20.0

  private let env: any Environment
  private let folder: String
  /// Whether it could not be run.
  private var isMissing = false

  init(_ env: any Environment, _ folder: String) {
    self.env = env
    self.folder = folder
  }

  /// Takes the next of the files, whose paths are below the folder, and returns those that may hold
  /// what is meant.
  mutating func candidates(
    among files: inout ArraySlice<String>,
    for outline: Outline?
  ) async throws -> [String] {
    guard let outline, files.count >= Self.fewest, env.runsCommands, !isMissing else {
      defer { files = [] }
      return Array(files)
    }
    let batch = Self.batch(&files)
    return try await look(into: batch, for: outline) ?? batch
  }

  private static func batch(_ files: inout ArraySlice<String>) -> [String] {
    var batch: [String] = []
    var bytes = 0
    while let file = files.first, batch.count < mostPaths, bytes < mostBytes {
      bytes += file.utf8.count + 1
      batch.append(file)
      files.removeFirst()
    }
    return batch
  }

  /// The files in which it finds something; `nil` if it did not look into all of them.
  private mutating func look(into files: [String], for outline: Outline) async throws -> [String]? {
    let what: [String] =
      switch outline {
      case .literal(let text): ["--fixed-strings", "--regexp", text]
      case .expression(let text): ["--regexp", text]
      }
    let words =
      [
        "--no-config", "--no-ignore", "--hidden", "--text", "--encoding", "none", "--color",
        "never",
        "--no-messages", "--null", "--files-with-matches",
      ] + what + ["--"] + files
    guard let answer = try await run(words), answer.exitCode == 0 || answer.exitCode == 1 else {
      return nil
    }
    let named = Set(
      answer.output.utf8.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
    )
    let found = files.filter { named.contains($0) }
    return found.count == named.count ? found : nil
  }

  /// Runs it; `nil` if that is not possible.
  private mutating func run(_ words: [String]) async throws -> (exitCode: Int32, output: String)? {
    let output = Mutex("")
    do {
      let result = try await env.execute(
        .arguments(["rg"] + words),
        ExecutionOptions(cwd: folder, timeout: Self.patience)
      ) { chunk in
        if chunk.stream == .stdout { output.withLock { $0 += chunk.text } }
      }
      return (result.exitCode, output.withLock { $0 })
    } catch {
      if error.code == .aborted { throw error }
      isMissing = true
      return nil
    }
  }
}
