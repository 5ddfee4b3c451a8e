package import PerdureModel
package import PerdureValue

/// What is asked of a plugin, and how.
package struct PluginCheckOptions: Sendable {
  /// The file.
  package var path: String
  /// The folder of private copies.
  package var copies: String
  /// Where chance begins; the same seed gives the same inputs.
  package var seed: UInt64
  /// Only the tests of this group, or this one test, if any.
  package var group: String?
  /// Whether tests run in this process, for debuggers; a crash then ends it.
  package var isInProcess: Bool
  /// What starts this program on one test: the words before the path, the test and the rest.
  package var verb: [String]

  /// Makes options.
  package init(
    path: String,
    copies: String,
    seed: UInt64,
    group: String?,
    isInProcess: Bool,
    verb: [String]
  ) {
    self.path = path
    self.copies = copies
    self.seed = seed
    self.group = group
    self.isInProcess = isInProcess
    self.verb = verb
  }
}

/// Checks a plugin as its author would want it checked before it is given to others.
package enum PluginChecks {
  /// The names of the groups, in order.
  package static let groups = PluginTest.Group.allCases.map(\.rawValue)
  /// The names of the tests that run code of the plugin, in order.
  package static let tests = PluginTest.all.map(\.name)

  /// Asks all tests and tells each finding as it comes; returns the id and version, if known.
  ///
  /// Throws if the file cannot be read at all.
  package static func run(
    _ options: PluginCheckOptions,
    tell: (JSON) -> Void
  ) throws(PerdureError) -> (id: String, version: String)? {
    let file = try FileTests.run(path: options.path)
    let wanted = options.group
    func isWanted(_ name: String) -> Bool {
      guard let wanted else { return true }
      return name == wanted || name.hasPrefix(wanted + "/")
    }
    for finding in file where isWanted(finding.name) { tell(finding.json) }
    let description: PluginDescription
    do { description = try PluginFiles.describe(path: options.path) } catch {
      for test in PluginTest.all where isWanted(test.name) {
        tell(skipped(test, "the file is refused, so none of its code is run").json)
      }
      // A refused file fails every group, also one that was asked for alone.
      for finding in file where finding.outcome == .failed && !isWanted(finding.name) {
        tell(finding.json)
      }
      return nil
    }
    let manifest = description.manifest
    for test in PluginTest.all where isWanted(test.name) {
      guard test.isAsked(of: manifest) else { continue }
      tell((options.isInProcess ? here(test, options) : apart(test, options)).json)
    }
    return (manifest.id, manifest.version)
  }

  private static func skipped(_ test: PluginTest, _ reason: String) -> TestFinding {
    TestFinding(name: test.name, question: test.question, outcome: .skipped, reason: reason)
  }

  // MARK: One test

  /// Runs one test in this process, which was started for it, and tells the parent.
  package static func runOne(_ name: String, path: String, copies: String, seed: UInt64) {
    guard let test = PluginTest.all.first(where: { $0.name == name }) else { return }
    CheckProcess.tell()
    let options = PluginCheckOptions(
      path: path,
      copies: copies,
      seed: seed,
      group: nil,
      isInProcess: true,
      verb: []
    )
    CheckProcess.say([UInt8(ascii: "=")] + here(test, options).json.encoded)
  }

  private static func here(_ test: PluginTest, _ options: PluginCheckOptions) -> TestFinding {
    var finding = TestFinding(name: test.name, question: test.question, outcome: .passed)
    let begin = CheckRest.now
    do {
      let subject = try CheckSubject(
        path: options.path,
        copies: options.copies,
        seed: options.seed
      )
      try test.body(subject)
      if !subject.notes.isEmpty { finding.reason = subject.notes.joined(separator: "; ") }
    } catch {
      finding.outcome = .failed
      let failure = error as? CheckFailure
      let refusal = error as? PerdureError
      finding.reason = failure?.reason ?? refusal?.message ?? "\(error)"
      finding.remedy = failure?.remedy ?? refusal?.hint ?? test.remedy
    }
    finding.milliseconds = CheckRest.now - begin
    return finding
  }

  /// Runs one test in a process of its own, whose end is part of what is found.
  private static func apart(_ test: PluginTest, _ options: PluginCheckOptions) -> TestFinding {
    let begin = CheckRest.now
    var finding = outcome(of: test, options)
    finding.milliseconds = CheckRest.now - begin
    return finding
  }

  private static func outcome(
    of test: PluginTest,
    _ options: PluginCheckOptions
  ) -> TestFinding {
    var finding = TestFinding(
      name: test.name,
      question: test.question,
      outcome: .failed,
      remedy: test.remedy
    )
    guard let folder = CheckProcess.makeFolder() else {
      finding.reason = "there is no folder to run it in"
      finding.remedy = "set TMPDIR to a folder that can be written to"
      return finding
    }
    defer { CheckProcess.removeFolder(folder) }
    let words =
      options.verb + [
        "--seed", "\(options.seed)", "--copies", options.copies, "--", options.path, test.name,
      ]
    guard let end = CheckProcess.run(words, in: folder, limit: test.limitMs) else {
      finding.reason = "the process of the test cannot be started"
      finding.remedy = "see whether the system allows more processes"
      return finding
    }
    let told = Told(end.told)
    if let result = told.result, !end.isTimeout { return read(result, finding) }
    let sentence = reason(end, told, test.limitMs)
    finding.reason = sentence
    if !end.isTimeout { finding.remedy = CheckRemedy.ofEnd(sentence, name: test.name) }
    return finding
  }

  private static func read(_ result: JSON, _ blank: TestFinding) -> TestFinding {
    var finding = blank
    finding.outcome =
      result["outcome"]?.text.flatMap(TestFinding.Outcome.init(rawValue:)) ?? .failed
    finding.reason = result["reason"]?.text
    finding.remedy = result["remedy"]?.text
    return finding
  }

  /// What the process of a test wrote.
  private struct Told {
    var result: JSON?
    var crash: String?
    /// The last function of the plugin that was called.
    var target: String?

    init(_ bytes: [UInt8]) {
      for line in bytes.split(separator: UInt8(ascii: "\n")) {
        switch line.first {
        case UInt8(ascii: "="): result = try? JSON(parsing: Array(line.dropFirst()))
        case UInt8(ascii: "!"): crash = String(decoding: line.dropFirst(), as: UTF8.self)
        case UInt8(ascii: "@"): target = String(decoding: line.dropFirst(), as: UTF8.self)
        default: break
        }
      }
    }
  }

  private static func reason(_ end: CheckProcess.End, _ told: Told, _ limitMs: Int64) -> String {
    let last = told.target.map { "; the last of the plugin that was called is \($0)" } ?? ""
    if let crash = told.crash { return "it crashed with \(crash)" }
    if end.isTimeout { return "the test did not end within \(limitMs / 1_000) seconds\(last)" }
    if end.signal != 0 { return "signal \(end.signal) ended the process of the test\(last)" }
    return "it ended the process with the status \(end.status)\(last)"
  }
}
