import PerdureValue

/// The groups upgrade, isolation and docs.
extension PluginTest {
  private static let hasState: @Sendable (Manifest) -> Bool = { $0.state != nil }
  private static let hasMigrations: @Sendable (Manifest) -> Bool = { manifest in
    manifest.tasks.contains { !$0.migrates.isEmpty }
      || manifest.documents.contains { !$0.migrates.isEmpty }
  }
  private static let hasExamples: @Sendable (Manifest) -> Bool = { manifest in
    manifest.tools.contains { $0.parameters["examples"] != nil }
  }

  static let upgrade: [PluginTest] = [
    PluginTest(
      group: .upgrade,
      word: "copies",
      question: "two copies work at once, and one outlives the other",
      remedy: "use nothing that exists once per process: fixed paths, ports, names, signal handlers"
    ) { subject in
      let (old, new) = (try subject.copy(), try subject.copy())
      try subject.begin(old)
      try subject.begin(new)
      try answer(on: old, subject)
      try subject.end(old)
      try answer(on: new, subject)
      try subject.end(new)
      try subject.throwOffences(of: old)
    },
    PluginTest(
      group: .upgrade,
      word: "statics",
      question: "two copies share no state",
      remedy:
        "hide all symbols but perdure_plugin_1 (C++: -fno-gnu-unique) and link helpers statically"
    ) { subject in
      let (old, new) = (try subject.copy(), try subject.copy())
      try subject.begin(old)
      try subject.begin(new)
      let (first, second) = (old.places, new.places)
      if first.start == second.start {
        throw CheckFailure("the second copy runs the code of the first")
      }
      if first.state != 0, first.state == second.state {
        throw CheckFailure("the second copy has the state of the first")
      }
      try subject.end(old)
      try subject.end(new)
    },
    PluginTest(
      group: .upgrade,
      word: "state",
      question: "what snapshot gives, restore takes",
      remedy:
        "answer snapshot with {version, state} as in the manifest's \"state\", and restore what"
        + " it lists",
      concerns: hasState
    ) { subject in
      try handOver(subject)
    },
    PluginTest(
      group: .upgrade,
      word: "migrations",
      question: "what older versions left is taken over or refused",
      remedy: "answer task.migrate and document.migrate for every version in \"migrates\"",
      concerns: hasMigrations
    ) { subject in
      try subject.live { host in
        for target in subject.targets.migrations {
          let call = host.start(target.name, target.input(conversation: false))
          try subject.finish(call, of: target, on: host)
          try subject.answer(call, of: target, on: host)
        }
      }
    },
  ]

  private static func answer(on host: CheckHost, _ subject: CheckSubject) throws {
    for target in subject.targets.all {
      let call = subject.start(target, on: host)
      try subject.finish(call, of: target, on: host)
      try subject.answer(call, of: target, on: host)
    }
  }

  /// Makes a call that belongs to no conversation and gives its answer.
  private static func ask(
    _ name: String,
    _ members: JSONObject,
    _ subject: CheckSubject,
    _ host: CheckHost,
    limit: Int64 = 10_000
  ) throws -> JSONObject? {
    var input: JSONObject = ["ctx": ["now": 1_700_000_000_000, "settings": 1]]
    for (key, value) in members { input[key] = value }
    let call = host.start(name, .object(input))
    guard host.isOver(call, within: limit) else {
      throw CheckFailure("\(name) is not answered within \(limit / 1_000) seconds")
    }
    let seen = host.look(at: call)
    if seen.accepted == -10 || seen.status == -10 { return nil }
    guard seen.accepted == 0, seen.status == 0 else {
      throw CheckFailure("\(name) fails: \(CheckSubject.sentence(host, call))")
    }
    let payload = try host.payload(of: call)
    do throws(BorderProblem) { return try payload.object() } catch {
      throw CheckFailure("\(name) is answered with \(error.phrase)")
    }
  }

  private static func handOver(_ subject: CheckSubject) throws {
    guard let promised = subject.manifest.state else { return }
    let old = try subject.copy()
    try subject.begin(old)
    guard let snapshot = try ask("snapshot", ["reason": "upgrade"], subject, old) else {
      throw CheckFailure("the manifest has \"state\", but snapshot is not supported")
    }
    guard snapshot["version"]?.int == Int64(promised.version), let state = snapshot["state"] else {
      throw CheckFailure(
        "snapshot does not answer with version \(promised.version) and a state"
      )
    }
    guard state.encoded.count <= LoadedPlugin.snapshotLimit else {
      throw CheckFailure("the state of snapshot is larger than 4 MiB")
    }
    guard promised.restores.contains(promised.version) else {
      subject.notes.append("the manifest restores no state of its own version \(promised.version)")
      return try subject.end(old)
    }
    let new = try subject.copy()
    try subject.begin(new)
    let answer = try ask(
      "restore",
      [
        "fromVersion": .string(subject.manifest.version), "version": .int(promised.version),
        "state": state,
      ],
      subject,
      new
    )
    if answer == nil {
      throw CheckFailure("the manifest has \"state\", but restore is not supported")
    }
    try subject.end(old)
    try subject.end(new)
  }

  // MARK: Docs

  static let docs: [PluginTest] = [
    PluginTest(
      group: .docs,
      word: "descriptions",
      question: "the plugin and every tool say what they do",
      remedy: "write one sentence for people into \"description\"; a model chooses by it",
      isForForeign: true
    ) { subject in
      let manifest = subject.manifest
      for tool in manifest.tools {
        let words = tool.description.filter { !$0.isWhitespace }
        if words.isEmpty { throw CheckFailure("the tool \(tool.name) has no description") }
        if words.lowercased() == tool.name.lowercased() {
          throw CheckFailure("the description of the tool \(tool.name) only repeats its name")
        }
      }
      if manifest.description?.isEmpty != false {
        subject.notes.append("the plugin itself has no \"description\"")
      }
    },
    PluginTest(
      group: .docs,
      word: "examples",
      question: "the examples of the tools' schemas fit and run",
      remedy: "correct the \"examples\" of \"parameters\"",
      concerns: hasExamples
    ) { subject in
      try subject.live { host in
        for tool in subject.manifest.tools {
          let examples = try SchemaSamples(tool.parameters, seed: subject.seed).examples
          if let bad = examples.bad.first {
            throw CheckFailure("an example of \(tool.name) does not fit: \(bad.compactText)")
          }
          for arguments in examples.good { try run(tool, arguments, subject, host) }
        }
      }
    },
    PluginTest(
      group: .docs,
      word: "selftest",
      question: "what the plugin tests itself is good",
      remedy: "see what the check of the plugin's own says",
      limitMs: 60_000
    ) { subject in
      try subject.live { host in
        guard
          let answer = try ask("selftest", ["reason": "check"], subject, host, limit: 30_000)
        else { return }
        for check in answer["checks"]?.array ?? [] where check["ok"]?.bool != true {
          let name = check["name"]?.text ?? "?"
          throw CheckFailure(
            "its own check \(name) fails: \(check["message"]?.text ?? "no reason")"
          )
        }
      }
    },
  ]

  private static func run(
    _ tool: ManifestTool,
    _ arguments: JSON,
    _ subject: CheckSubject,
    _ host: CheckHost
  ) throws {
    guard let target = subject.targets.tool(tool, arguments: arguments) else { return }
    let call = subject.start(target, on: host)
    try subject.finish(call, of: target, on: host)
    let seen = host.look(at: call)
    if seen.accepted != 0 || seen.status != 0 {
      throw CheckFailure(
        "an example of \(tool.name) fails: \(CheckSubject.sentence(host, call)),"
          + " given \(arguments.compactText)"
      )
    }
  }
}
