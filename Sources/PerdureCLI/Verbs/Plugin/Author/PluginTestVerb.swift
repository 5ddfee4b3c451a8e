import Perdure
import PerdureModel
import PerdureValue

/// What became of one script.
struct ScriptResult: Sendable {
  enum Outcome: String, Sendable { case passed, failed, updated }

  var script: String
  var outcome: Outcome
  var milliseconds: Int64
  /// Why it failed.
  var reason: String?
  /// What differs from what is expected.
  var diff: [String] = []

  /// The same for programs.
  var json: JSON {
    var object: JSONObject = [
      "script": .string(script), "outcome": .string(outcome.rawValue),
      "ms": .int(milliseconds),
    ]
    object["reason"] = reason.map { .string($0) }
    if !diff.isEmpty { object["diff"] = .array(diff.map { .string($0) }) }
    return .object(object)
  }
}

/// `perdure plugin test`: faux scripts as tests whose transcripts are compared.
enum PluginTestVerb {
  static let verb = Verb(
    name: "plugin test",
    summary: "play a plugin's faux scripts and compare the transcripts",
    options: [
      Option(
        name: "scripts",
        value: "DIR",
        help: "where NAME.faux.json and NAME.expected.txt are",
        standard: "beside the plugin"
      ),
      Option(name: "update", help: "accept what comes of the scripts now"),
      Option(name: "junit", value: "FILE", help: "write the results as JUnit XML, too"),
      Option(
        name: "isolation",
        value: "WHERE",
        help: "auto, in-process or runner",
        standard: "runner,\nunless the manifest says inProcess"
      ),
      Option(
        name: "timeout",
        value: "SECONDS",
        help: "how long one script may take",
        standard: "60"
      ),
      Option(name: "json", help: "write one JSON object"),
    ],
    positionals: ["DIR|FILE"],
    notes: """
      A plugin is a .so or an .ffi.json. Of a folder the one in it is tested, with all scripts; of
      a file those named like it, NAME.faux.json and NAME.….faux.json, if there are any. Each script
      has a store in memory and an empty conversation. A script may say what is asked: "prompt". If
      there is a folder NAME.files, tools work on a copy of it, which they see as /.
      Transcripts have no ids and no times: <id>, <time>, <uuid> and <folder> stand for what
      changes from run to run. Approvals are denied. Exit status 1 if one differs.
      """,
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let place = try place(of: arguments.positionals.first ?? "")
    let plugin = try PluginInspection(path: place.library)
    let folder = arguments.value("scripts").map { HostText.absolutePath($0) } ?? place.folder
    let seconds = try arguments.number("timeout", in: 1...86_400) ?? 60
    let isolation = try arguments.choice("isolation", Isolation.self) ?? Self.isolation(of: plugin)
    let scripts = try PluginScript.all(in: folder, stem: place.stem)
    guard !scripts.isEmpty else {
      throw PerdureError(
        .notFound,
        "there is no faux script in \(folder)",
        hint: "write NAME.faux.json; docs/faux-script.md describes the format"
      )
    }
    try HostText.guardOutput()
    try SignalWatch.watchPlugins(reporter)
    var results: [ScriptResult] = []
    for script in scripts {
      let play = try await play(
        script,
        place.library,
        folder,
        isolation,
        .seconds(seconds),
        reporter
      )
      let result = try judge(script, play, updates: arguments.has("update"))
      if !reporter.isJSON { show(result, script, reporter) }
      results.append(result)
    }
    if let path = arguments.value("junit") {
      let text = JUnitReport.text(plugin: plugin.id, results: results)
      try HostText.write(Array(text.utf8), to: path, .replacing)
    }
    return end(place.library, plugin, results, reporter)
  }

  // MARK: The plugin

  private struct Place {
    var library: String
    var folder: String
    /// The name of the file without its ending, if that was named.
    var stem: String?
  }

  private static let endings = [".so", ".ffi.json"]

  private static func place(of path: String) throws -> Place {
    let full = HostText.fullPath(path) ?? HostText.absolutePath(path)
    guard HostText.kind(ofPath: full) == .folder else {
      let parts = full.split(separator: "/")
      let name = String(parts.last ?? "")
      return Place(
        library: full,
        folder: "/" + parts.dropLast().joined(separator: "/"),
        stem: endings.first { name.hasSuffix($0) }.map { String(name.dropLast($0.count)) } ?? name
      )
    }
    let libraries = try HostText.files(inFolder: full).filter { name in
      endings.contains { name.hasSuffix($0) }
    }
    guard let library = libraries.first, libraries.count == 1 else {
      let builds = HostText.kind(ofPath: full + "/build") == .file
      throw PerdureError(
        .notFound,
        libraries.isEmpty
          ? "there is no plugin in \(full)"
          : "there are several plugins in \(full): \(libraries.joined(separator: ", "))",
        hint: !libraries.isEmpty
          ? "name one of the files"
          : builds ? "build it with \(ShellWord.quoted(full + "/build"))" : "name its file"
      )
    }
    return Place(library: "\(full)/\(library)", folder: full, stem: nil)
  }

  /// Where a plugin is tested if nobody decides: a crash then costs one script and not the test.
  static func isolation(of plugin: PluginInspection) -> Isolation {
    plugin.json["manifest"]?["execution"]?["mode"] == "inProcess" ? .inProcess : .runner
  }

  private static func play(
    _ script: PluginScript,
    _ library: String,
    _ folder: String,
    _ isolation: Isolation,
    _ limit: Duration,
    _ reporter: Reporter
  ) async throws -> ScriptPlayer.Play {
    let shelf = ScriptShelf(first: try Models.play(scriptAt: script.path).models)
    // That nobody can be asked stands in the transcript.
    let report: @Sendable (Report) -> Void = { report in
      if report.type != "approval_denied" { reporter.report(report) }
    }
    let files = try await ScriptFiles(script)
    defer { files.remove() }
    let plugin = try await Plugin.load(path: library, isolation: isolation, onReport: report)
    do {
      let harness = try await Harness.open(
        .memory,
        models: shelf,
        extensions: [plugin.contribution],
        environment: files.environment,
        onReport: report
      )
      let player = ScriptPlayer(harness: harness, shelf: shelf, folder: folder, limit: limit)
      let play: ScriptPlayer.Play
      do { play = try await player.play(script) } catch {
        try? await harness.close()
        throw error
      }
      try await harness.close()
      for problem in await plugin.close() { reporter.warn("warning: \(problem)") }
      return play
    } catch {
      await plugin.close()
      throw error
    }
  }

  // MARK: Results

  private static func judge(
    _ script: PluginScript,
    _ play: ScriptPlayer.Play,
    updates: Bool
  ) throws -> ScriptResult {
    let expected = try script.expected()
    var result = ScriptResult(
      script: script.name,
      outcome: .passed,
      milliseconds: play.milliseconds
    )
    guard expected != play.transcript else { return result }
    if updates {
      try HostText.write(Array(play.transcript.utf8), to: script.expectedPath, .replacing)
      result.outcome = .updated
      return result
    }
    result.outcome = .failed
    result.reason =
      expected == nil
      ? "there is no \(script.expectedName)" : "it differs from \(script.expectedName)"
    result.diff = LineDiff.lines(from: expected ?? "", to: play.transcript)
    return result
  }

  private static func show(_ result: ScriptResult, _ script: PluginScript, _ reporter: Reporter) {
    switch result.outcome {
    case .passed: reporter.print("ok      \(result.script)")
    case .updated: reporter.print("updated \(script.expectedName)")
    case .failed:
      reporter.print("FAILED  \(result.script): \(result.reason ?? "")")
      for line in result.diff { reporter.print("        \(line)") }
    }
  }

  private static func end(
    _ path: String,
    _ plugin: PluginInspection,
    _ results: [ScriptResult],
    _ reporter: Reporter
  ) -> ExitStatus {
    let failed = results.count { $0.outcome == .failed }
    if reporter.isJSON {
      let object: JSON = [
        "path": .string(path), "id": .string(plugin.id), "version": .string(plugin.version),
        "tests": .int(results.count), "failed": .int(failed),
        "results": .array(results.map { $0.json }),
      ]
      reporter.printStyled(String(decoding: EventLine.bytes(object), as: UTF8.self))
    } else {
      let scripts = Counted.text(results.count, "script")
      reporter.print("\(plugin.id) \(plugin.version): \(scripts), \(failed) failed")
      if failed > 0 { reporter.print("if that is right, accept it with --update") }
    }
    return failed > 0 ? .runFailed : .ok
  }
}
