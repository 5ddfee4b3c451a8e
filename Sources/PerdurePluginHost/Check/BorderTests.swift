import PerdureValue

/// The groups threads, memory and faults.
extension PluginTest {
  static let threads: [PluginTest] = [
    PluginTest(
      group: .threads,
      word: "parallel",
      question: "calls of all kinds at once, each from a thread of its own, all end",
      remedy: "guard what calls share with a lock, and keep nothing in thread-local state",
      limitMs: 120_000
    ) { subject in
      try subject.live { host in
        for _ in 0..<4 {
          let most = max(1, min(subject.manifest.execution.maxConcurrency, 64))
          let started = subject.targets.all.prefix(most).map { ($0, subject.start($0, on: host)) }
          for (target, call) in started {
            try subject.finish(call, of: target, on: host)
            try subject.answer(call, of: target, on: host)
          }
        }
      }
    },
    PluginTest(
      group: .threads,
      word: "race",
      question: "a cancellation from another thread may meet the completion",
      remedy: "find the state of a call by its id in on_cancel, under a lock",
      limitMs: 180_000
    ) { subject in
      var chance = SeededChance(seed: subject.seed)
      try subject.live { host in
        for target in subject.targets.all {
          for _ in 0..<12 {
            let call = subject.start(target, on: host)
            if Bool.random(using: &chance) {
              CheckRest.pause(Int64.random(in: 0...2, using: &chance))
            }
            host.cancel(call, for: 1)
            try subject.expectEnd(call, of: target, on: host)
          }
        }
      }
    },
  ]

  static let memory: [PluginTest] = [
    PluginTest(
      group: .memory,
      word: "inputs",
      question: "inputs are read within their length, never written, and not after start returned",
      remedy: "use ptr with len, never as a C string; copy what is needed longer",
      limitMs: 180_000
    ) { subject in
      try subject.live(CheckBehaviour(guards: true)) { host in
        for target in subject.targets.all { try lend(target, subject, host) }
        for tool in subject.manifest.tools {
          guard var samples = try? SchemaSamples(tool.parameters, seed: subject.seed) else {
            continue
          }
          for arguments in samples.invalid().prefix(4) {
            guard let target = subject.targets.tool(tool, arguments: arguments) else { continue }
            try lend(target, subject, host)
          }
        }
        CheckRest.pause(300)
      }
    },
    PluginTest(
      group: .memory,
      word: "release",
      question: "blobs that are handed over are released on any thread, without a call to the host",
      remedy:
        "let release only free memory; the host calls it once, before complete or emit returns",
      limitMs: 120_000
    ) { subject in
      try subject.live { host in
        for target in subject.targets.all {
          for _ in 0..<3 {
            let call = subject.start(target, on: host)
            try subject.finish(call, of: target, on: host)
          }
        }
      }
    },
  ]

  private static func lend(
    _ target: CheckTarget,
    _ subject: CheckSubject,
    _ host: CheckHost
  ) throws {
    let call = subject.start(target, on: host)
    try subject.finish(call, of: target, on: host)
  }

  static let faults: [PluginTest] = [
    PluginTest(
      group: .faults,
      word: "failing",
      question: "when every operation fails, calls still end",
      remedy: "complete the call with an error when an operation it needs fails",
      limitMs: 180_000
    ) { subject in
      try survive(.failing, subject)
    },
    PluginTest(
      group: .faults,
      word: "refused",
      question: "when no operation is accepted, calls still end",
      remedy: "look at what invoke.start returns: done is not called for what it refused",
      limitMs: 180_000
    ) { subject in
      try survive(.refused, subject)
    },
    PluginTest(
      group: .faults,
      word: "errors",
      question: "errors have a code of perdure.h and a sentence",
      remedy: "pass a pdr_err with a message: what, where, what to do",
      limitMs: 180_000
    ) { subject in
      try subject.live { host in
        for tool in subject.manifest.tools {
          var samples = try SchemaSamples(tool.parameters, seed: subject.seed)
          for arguments in samples.invalid() {
            guard let target = subject.targets.tool(tool, arguments: arguments) else { continue }
            let call = subject.start(target, on: host)
            try subject.finish(call, of: target, on: host)
            try subject.answer(call, of: target, on: host)
            let seen = host.look(at: call)
            if seen.accepted == 0, seen.status < -1, host.failure(of: call).message.isEmpty {
              throw CheckFailure(
                "\(target.name) fails with \(CheckSubject.word(seen.status)) and no sentence"
              )
            }
          }
        }
      }
    },
  ]

  private static func survive(
    _ operations: CheckBehaviour.Operations,
    _ subject: CheckSubject
  ) throws {
    try subject.live(CheckBehaviour(operations: operations)) { host in
      for target in subject.targets.all {
        let call = subject.start(target, on: host)
        try subject.finish(call, of: target, on: host)
        try subject.answer(call, of: target, on: host)
      }
    }
  }
}
