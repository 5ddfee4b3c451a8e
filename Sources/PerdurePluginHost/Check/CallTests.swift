import PerdureValue

extension PluginTest {
  private static let validRounds: UInt64 = 8
  private static let startLimitMs: Int64 = 1_000
  private static let hasTools: @Sendable (Manifest) -> Bool = { !$0.tools.isEmpty }

  private static let longMs: Int64 = 180_000

  static let calls: [PluginTest] = [
    eachTool(
      "valid",
      "each tool answers arguments that fit its schema",
      "complete the call once, with an answer or an error"
    ) { tool, samples, subject, host in
      for _ in 0..<validRounds {
        guard let arguments = samples.valid() else {
          subject.notes.append("no arguments were found that fit the schema of \(tool.name)")
          break
        }
        try call(tool, arguments, subject, host)
      }
    },
    eachTool(
      "invalid",
      "each tool survives arguments that do not fit its schema",
      "check the type and presence of every argument, and complete with PDR_E_INVALID"
    ) { tool, samples, subject, host in
      for arguments in samples.invalid() { try call(tool, arguments, subject, host) }
    },
    eachTarget(
      "targets",
      "everything that the manifest promises can be called",
      "answer every section, hook, wrap, task phase and migration of the manifest"
    ) { target, subject, host in
      let call = subject.start(target, on: host)
      try subject.finish(call, of: target, on: host)
      try subject.answer(call, of: target, on: host)
      if host.look(at: call).isRefusal {
        throw CheckFailure("\(target.name) is declared, but start answers that it is unknown")
      }
    },
    handlers,
    eachTarget(
      "once",
      "each call is completed exactly once",
      "let one place own the completion of a call",
      restMs: 400,
      body: round
    ),
    PluginTest(
      group: .calls,
      word: "start",
      question: "start returns at once unless the call is declared as blocking",
      remedy: "say \"blocking\": true in the manifest, or do the work on another thread"
    ) { subject in
      for target in subject.targets.all where !target.isBlocking { try isPrompt(target, subject) }
    },
    eachTarget(
      "deadline",
      "a call whose deadline has passed ends within its grace",
      "complete a cancelled call soon, with PDR_E_CANCELLED"
    ) { target, subject, host in
      let call = host.start(target.name, target.input(), deadline: 0)
      host.cancel(call, for: 2)
      try subject.expectEnd(call, of: target, on: host)
    },
    PluginTest(
      group: .calls,
      word: "cancel",
      question: "a call that is cancelled before, during or after ends within its grace",
      remedy: "look at calls.cancelled in loops, or register calls.on_cancel; the completion is"
        + " still owed",
      limitMs: longMs
    ) { subject in
      try cancels(subject)
    },
    eachTarget(
      "limit",
      "as many calls at once as the manifest allows all end, each once",
      "keep the state of a call by its id, never in statics",
      restMs: 100
    ) { target, subject, host in
      let count = min(target.maxConcurrency, 64)
      let calls = (0..<count).map { _ in subject.start(target, on: host) }
      for call in calls { try subject.finish(call, of: target, on: host) }
    },
    eachTarget(
      "back-pressure",
      "output waits for credit",
      "when emit answers PDR_E_WOULD_BLOCK, wait for the operation output.flush",
      CheckBehaviour(starves: true),
      concerns: hasTools
    ) { target, subject, host in
      if target.hasOutput { try round(target, subject, host) }
    },
    PluginTest(
      group: .calls,
      word: "unknown",
      question: "a target that is not declared is refused",
      remedy: "return PDR_E_UNSUPPORTED from start for names that are not known"
    ) { subject in
      try subject.live { host in
        for name in ["tool:no_such_tool", "later:thing", "task:no.such@1/phase", ""] {
          let call = host.start(name, ["ctx": ["now": 1]])
          guard host.isOver(call, within: CheckSubject.patience) else {
            throw CheckFailure("the unknown target '\(name)' is accepted and never completed")
          }
        }
      }
    },
    eachTarget(
      "short",
      "a pdr_call without its last member is read up to its size",
      "read deadline_ns only if call->size covers it",
      CheckBehaviour(hasShortCalls: true),
      body: round
    ),
  ]

  /// A test that does something with each target, on one copy of the plugin.
  private static func eachTarget(
    _ word: String,
    _ question: String,
    _ remedy: String,
    _ behaviour: CheckBehaviour = CheckBehaviour(),
    restMs: Int64 = 0,
    concerns: @escaping @Sendable (Manifest) -> Bool = { _ in true },
    body: @escaping @Sendable (CheckTarget, CheckSubject, CheckHost) throws -> Void
  ) -> PluginTest {
    PluginTest(
      group: .calls,
      word: word,
      question: question,
      remedy: remedy,
      limitMs: longMs,
      concerns: concerns
    ) { subject in
      try subject.live(behaviour) { host in
        for target in subject.targets.all { try body(target, subject, host) }
        // What comes too late shows then.
        if restMs > 0 { CheckRest.pause(restMs) }
      }
    }
  }

  private typealias ToolBody =
    @Sendable (ManifestTool, inout SchemaSamples, CheckSubject, CheckHost) throws -> Void

  /// A test that calls each tool with arguments of its choice, on one copy of the plugin.
  private static func eachTool(
    _ word: String,
    _ question: String,
    _ remedy: String,
    _ body: @escaping ToolBody
  ) -> PluginTest {
    PluginTest(
      group: .calls,
      word: word,
      question: question,
      remedy: remedy,
      limitMs: longMs,
      concerns: hasTools
    ) { subject in
      try subject.live { host in
        for tool in subject.manifest.tools {
          var samples = try SchemaSamples(tool.parameters, seed: subject.seed)
          try body(tool, &samples, subject, host)
        }
      }
    }
  }

  /// Makes one call and waits for its end.
  @Sendable private static func round(
    _ target: CheckTarget,
    _ subject: CheckSubject,
    _ host: CheckHost
  ) throws {
    try subject.finish(subject.start(target, on: host), of: target, on: host)
  }

  private static func call(
    _ tool: ManifestTool,
    _ arguments: JSON,
    _ subject: CheckSubject,
    _ host: CheckHost
  ) throws {
    guard let target = subject.targets.tool(tool, arguments: arguments) else { return }
    let call = subject.start(target, on: host)
    do {
      try subject.finish(call, of: target, on: host)
      try subject.answer(call, of: target, on: host)
      try subject.throwOffences(of: host)
    } catch let failure as CheckFailure {
      let text = arguments.compactText
      let shown = text.count > 200 ? text.prefix(200) + "…" : text[...]
      throw CheckFailure("\(failure.reason), given \(shown)", remedy: failure.remedy)
    }
  }

  /// Looks at the shortest of three starts, because the machine may be busy.
  private static func isPrompt(_ target: CheckTarget, _ subject: CheckSubject) throws {
    var least = Int64.max
    for _ in 0..<3 where least > startLimitMs {
      let host = try subject.copy()
      try subject.begin(host)
      let call = subject.start(target, on: host)
      _ = host.isOver(call, within: startLimitMs * 3)
      let seen = host.look(at: call)
      least = min(least, seen.hasReturned ? seen.startMicroseconds / 1_000 : Int64.max)
      if !seen.hasReturned, least == Int64.max {
        throw CheckFailure("start of \(target.name) does not return within \(startLimitMs * 3) ms")
      }
      try? subject.finish(call, of: target, on: host, patience: 0)
      try? subject.stop(host)
    }
    if least > startLimitMs {
      throw CheckFailure(
        "start of \(target.name) takes \(least) ms, and it should take less than 50"
      )
    }
  }

  /// Cancels at points of chance, the same ones for the same seed.
  private static func cancels(_ subject: CheckSubject) throws {
    var chance = SeededChance(seed: subject.seed)
    try subject.live { host in
      for target in subject.targets.all {
        let before = subject.start(target, on: host, cancelledFor: 1)
        try subject.expectEnd(before, of: target, on: host)
        for _ in 0..<4 {
          let during = subject.start(target, on: host)
          CheckRest.pause(Int64.random(in: 0...20, using: &chance))
          host.cancel(during, for: 1)
          try subject.expectEnd(during, of: target, on: host)
        }
        let after = subject.start(target, on: host)
        try subject.finish(after, of: target, on: host)
        host.cancel(after, for: 1)
      }
    }
  }
}
