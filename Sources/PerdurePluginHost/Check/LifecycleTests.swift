extension PluginTest {
  private static let rounds = 100
  private static let warmUp = 10

  static let lifecycle: [PluginTest] = [
    PluginTest(
      group: .lifecycle,
      word: "repeat",
      question: "\(rounds) lives from entry to destroy are alike",
      remedy: "give back in deactivate and destroy what entry and activate took, and set statics"
        + " back",
      limitMs: 120_000
    ) { subject in
      _ = try lives(subject)
    },
    PluginTest(
      group: .lifecycle,
      word: "threads",
      question: "no thread is left behind by deactivate",
      remedy: "stop and join every thread before saying lifecycle.stopped",
      limitMs: 120_000
    ) { subject in
      let left = try lives(subject).threads
      if left >= (rounds - warmUp) / 3 {
        throw CheckFailure(
          "after \(rounds) lives there are \(left) threads more than after \(warmUp)"
        )
      }
    },
    PluginTest(
      group: .lifecycle,
      word: "descriptors",
      question: "no descriptor is left behind",
      remedy: "close in deactivate or destroy what was opened",
      limitMs: 120_000
    ) { subject in
      let left = try lives(subject).descriptors
      if left >= (rounds - warmUp) / 3 {
        throw CheckFailure(
          "after \(rounds) lives there are \(left) descriptors more than after \(warmUp)"
        )
      }
    },
    PluginTest(
      group: .lifecycle,
      word: "unused",
      question: "destroy without activate is survived",
      remedy: "destroy only what exists"
    ) { subject in
      let host = try subject.copy()
      try subject.expect(host.enter(), "its entry function")
      try subject.expect(host.destroy(), "destroy")
      try subject.throwOffences(of: host)
    },
    PluginTest(
      group: .lifecycle,
      word: "in-flight",
      question: "deactivate ends the calls that are under way, also while they emit",
      remedy: "complete every open call before saying lifecycle.stopped",
      limitMs: 120_000
    ) { subject in
      for waits in [false, true] { try interrupted(subject, waits: waits) }
    },
    PluginTest(
      group: .lifecycle,
      word: "silence",
      question: "nothing is asked of the host after destroy",
      remedy: "join every thread and drop every callback before destroy returns"
    ) { subject in
      try silence(subject)
    },
  ]

  /// What is more at the end of many lives than after the first ones.
  private static func lives(
    _ subject: CheckSubject
  ) throws -> (threads: Int, descriptors: Int) {
    var (threads, descriptors) = (0, 0)
    // A tool that takes its time is left out after the first life.
    var target = subject.targets.all.first { $0.hasOutput }
    try subject.withMapping { path in
      for round in 1...rounds {
        let host = try CheckHost(path: path, CheckBehaviour())
        do {
          try subject.begin(host)
          if let called = target {
            let begin = CheckRest.now
            let call = subject.start(called, on: host)
            try subject.finish(call, of: called, on: host)
            if CheckRest.now - begin > 100 { target = nil }
          }
          try subject.end(host)
        } catch let failure as CheckFailure {
          let which = round == 1 ? "in its first life" : "in life \(round) of one mapping"
          throw CheckFailure("\(which): \(failure.reason)", remedy: failure.remedy)
        }
        if round == warmUp { (threads, descriptors) = (CheckRest.threads, CheckRest.descriptors) }
      }
    }
    return (CheckRest.threads - threads, CheckRest.descriptors - descriptors)
  }

  /// Deactivates while a call of each target is under way.
  private static func interrupted(_ subject: CheckSubject, waits: Bool) throws {
    let host = try subject.copy()
    try subject.begin(host)
    let started = subject.targets.all.map { ($0, subject.start($0, on: host)) }
    for (target, call) in started { waitForStart(of: call, of: target, on: host) }
    if waits {
      for (target, call) in started where target.hasOutput { host.waitForOutput(of: call, 200) }
    }
    switch host.deactivate() {
    case .absent:
      for (_, call) in started { host.cancel(call, for: 4) }
    case .done:
      // As a host does: it asks the calls to end as well.
      for (_, call) in started { host.cancel(call, for: 4) }
      guard host.isStopped(within: CheckSubject.stopLimit) else {
        throw CheckFailure("with calls under way it does not say lifecycle.stopped in time")
      }
    case .refused(let code, _):
      throw CheckFailure("with calls under way deactivate fails with \(CheckSubject.word(code))")
    case .hung: throw CheckFailure("with calls under way deactivate does not return")
    }
    for (target, call) in started { try subject.expectEnd(call, of: target, on: host) }
    try subject.expect(host.destroy(), "destroy")
    try subject.throwOffences(of: host)
  }

  /// Waits until `start` was entered.
  ///
  /// No host makes a call that the plugin has not heard of when it is to stop. What blocks returns
  /// late, so only some time is given to it.
  private static func waitForStart(of call: UInt64, of target: CheckTarget, on host: CheckHost) {
    let end = CheckRest.now + (target.isBlocking ? 100 : 2_000)
    while !host.look(at: call).hasReturned, CheckRest.now < end { CheckRest.pause(1) }
  }

  private static func silence(_ subject: CheckSubject) throws {
    let host = try subject.copy()
    try subject.begin(host)
    for target in subject.targets.all {
      let call = subject.start(target, on: host)
      try subject.finish(call, of: target, on: host)
    }
    try subject.stop(host)
    try subject.expect(host.destroy(), "destroy")
    CheckRest.pause(700)
    try subject.throwOffences(of: host)
  }
}
