import Perdure
import PerdureModel
import PerdureValue

/// From a change of the sources to the transcripts of the scripts.
struct DevCycle: Sendable {
  /// Where a cycle ended.
  enum End: Sendable {
    case good
    case notBuilt
    /// The check, or the host, does not take it.
    case refused
    /// A script does not say what is expected.
    case differs

    var status: ExitStatus {
      switch self {
      case .good: .ok
      case .notBuilt, .differs: .runFailed
      case .refused: .pluginRefused
      }
    }
  }

  /// What one cycle leaves to the next.
  struct Memory: Sendable {
    /// The manifest of what runs.
    var manifest: JSON?
    var transcripts: [String: String] = [:]
    /// The files as they were when the build began.
    var seen: [String: String] = [:]
    /// The files that were other ones when it had ended.
    var written: Set<String> = []
    /// Those of which that was so twice in a row: the build makes them.
    var outputs: Set<String> = []

    /// Whether a file has changed that the build does not make.
    func isOld(beside files: [String: String]) -> Bool {
      Self.differing(seen, files).contains { !outputs.contains($0) }
    }

    static func differing(_ old: [String: String], _ new: [String: String]) -> Set<String> {
      Set(old.keys).union(new.keys).filter { old[$0] != new[$0] }
    }
  }

  /// Ends a cycle early, when all has been said.
  private struct Stop: Error { var end: End }

  /// The groups of the check that take no time.
  static let groups = ["file", "entry", "calls", "faults", "docs"]
  private static let shownLines = 60

  let folder: String
  /// Where builds go.
  let output: String
  let host: DevHost
  let watch: FolderWatch
  let limit: Duration
  /// Whether what comes of the scripts is accepted.
  let updates: Bool
  let reporter: Reporter
  /// Set once somebody ended all this: what is cut off then is no news.
  let isEnding = Flag()

  /// Builds, checks, loads and replays; says what came of each.
  func run(_ memory: inout Memory) async throws -> End {
    do {
      let library = try await build(&memory)
      let plugin = try inspected(library)
      try check(library)
      try await load(library, plugin, &memory)
      return try await replay(&memory)
    } catch let stop as Stop { return stop.end }
  }

  // MARK: Building

  private func build(_ memory: inout Memory) async throws -> String {
    HostText.removeFolder(output)
    try HostText.makeFolder(output)
    memory.seen = try watch.files()
    let outcome = try await HostCommand.run([folder + "/build", output], in: folder)
    let written = Memory.differing(memory.seen, try watch.files())
    memory.outputs = written.intersection(memory.written)
    memory.written = written
    let libraries = try HostText.files(inFolder: output).filter { $0.hasSuffix(".so") }
    let isGood = outcome.status == 0
    event(
      "build",
      ["exit": .int(Int64(outcome.status)), "output": .string(outcome.output)]
    )
    tell(isGood ? "built" : "the build failed with \(outcome.status)\(kept(memory))")
    let lines = outcome.output.split(separator: "\n", omittingEmptySubsequences: false)
    let text = lines.suffix(Self.shownLines).joined(separator: "\n")
    if !text.isEmpty { tell(text) }
    guard isGood else { throw Stop(end: .notBuilt) }
    guard let library = libraries.first, libraries.count == 1 else {
      let sentence =
        libraries.isEmpty
        ? "the build made no .so in the folder that it was given"
        : "the build made several: \(libraries.joined(separator: ", "))"
      refuse("build", PerdureError(.notFound, sentence, hint: "let it make one .so in $1"))
      throw Stop(end: .notBuilt)
    }
    return "\(output)/\(library)"
  }

  private func inspected(_ library: String) throws -> PluginInspection {
    do { return try PluginInspection(path: library) } catch let error as PerdureError {
      refuse("check", error)
      throw Stop(end: .refused)
    }
  }

  private func check(_ library: String) throws {
    let seed = UInt64.random(in: 1...999_999_999)
    var findings: [JSON] = []
    for group in Self.groups {
      let checkup = try PluginCheckup(
        path: library,
        seed: seed,
        group: group,
        isInProcess: false,
        verb: ["plugin", "check-one"]
      )
      _ = try checkup.run { findings.append($0) }
    }
    let failed = findings.filter { $0["outcome"]?.text == "failed" }
    event(
      "check",
      ["tests": .int(findings.count), "failed": .int(failed.count), "findings": .array(failed)]
    )
    tell(
      "checked: \(Counted.text(findings.count, "test")), \(failed.count) failed"
        + (failed.isEmpty ? "" : ", seed \(seed); what runs stays as it is")
    )
    guard failed.isEmpty else {
      for finding in failed {
        let remedy = finding["remedy"]?.text.map { "; \($0)" } ?? ""
        tell("  \(finding["name"]?.text ?? "?"): \(finding["reason"]?.text ?? "")\(remedy)")
      }
      throw Stop(end: .refused)
    }
  }

  // MARK: Running

  private func load(
    _ library: String,
    _ plugin: PluginInspection,
    _ memory: inout Memory
  ) async throws {
    let change: PluginChange
    do { change = try await host.load(library, plugin) } catch let error as PerdureError {
      refuse("load", error)
      throw Stop(end: .refused)
    }
    let manifest = plugin.json["manifest"] ?? .null
    let diff = ManifestDiff(from: memory.manifest, to: manifest)
    let isFirst = memory.manifest == nil
    memory.manifest = manifest
    var members = diff.json
    members["plugin"] = .string(plugin.id)
    members["version"] = .string(plugin.version)
    members["digest"] = change.digest.map { .string($0) }
    members["upgraded"] = .bool(change.from != nil)
    event("loaded", members)
    let nothing = diff.isEmpty ? "; it registers what it did" : ""
    tell("\(isFirst ? "loaded" : "reloaded") \(plugin.id) \(plugin.version)\(nothing)")
    for line in diff.lines { tell("  \(line)") }
    for warning in plugin.warnings { reporter.warn("warning: \(warning)") }
  }

  private func replay(_ memory: inout Memory) async throws -> End {
    var end = End.good
    let scripts = try PluginScript.all(in: folder, stem: nil)
    if scripts.isEmpty { tell("there is no faux script to replay; write NAME.faux.json") }
    for script in scripts {
      let player = ScriptPlayer(
        harness: host.host.harness,
        shelf: host.shelf,
        folder: folder,
        limit: limit
      )
      do {
        let play = try await player.play(script)
        let isExpected = try tell(play, script, &memory)
        if !isExpected { end = .differs }
      } catch let error as PerdureError {
        event("replay", ["script": .string(script.name), "error": error.json])
        tell("\(script.name): \(error)")
        end = .differs
      }
    }
    if end == .differs {
      let folder = ShellWord.quoted(folder)
      tell("if that is right, accept it: perdure plugin dev \(folder) --once --update")
    }
    return end
  }

  /// Says what came of a script, and how that differs from the last time; returns whether it is as
  /// expected.
  private func tell(
    _ play: ScriptPlayer.Play,
    _ script: PluginScript,
    _ memory: inout Memory
  ) throws -> Bool {
    let expected = try script.expected()
    let last = memory.transcripts[script.name] ?? expected ?? ""
    memory.transcripts[script.name] = play.transcript
    let diff = LineDiff.lines(from: last, to: play.transcript)
    let isExpected = expected == play.transcript
    event(
      "replay",
      [
        "script": .string(script.name), "expected": .bool(isExpected),
        "ms": .int(play.milliseconds), "diff": .array(diff.map { .string($0) }),
      ]
    )
    let state =
      isExpected
      ? "as expected"
      : expected == nil
        ? "there is no \(script.expectedName)" : "not as in \(script.expectedName)"
    tell("\(script.name): \(state)")
    for line in diff { tell(line.isEmpty ? "" : "  \(line)") }
    guard !isExpected, updates else { return isExpected }
    try HostText.write(Array(play.transcript.utf8), to: script.expectedPath, .replacing)
    tell("updated \(script.expectedName)")
    return true
  }

  // MARK: Words

  private func kept(_ memory: Memory) -> String {
    memory.manifest == nil ? "" : "; what runs stays as it is"
  }

  private func refuse(_ step: String, _ error: PerdureError) {
    event("refused", ["step": .string(step), "error": error.json])
    tell("refused: \(error)")
  }

  private func event(_ type: String, _ members: JSONObject) {
    if !isEnding.isSet { reporter.event(type, members) }
  }

  private func tell(_ text: String) {
    if !reporter.isJSON, !isEnding.isSet { reporter.print(text) }
  }
}
