internal import PerdureModel

extension PluginTest {
  static let entry: [PluginTest] = [
    PluginTest(
      group: .entry,
      word: "twice",
      question: "the entry function may be called again, on another thread",
      remedy: "keep nothing of the first call that makes a second one fail"
    ) { subject in
      try subject.withMapping { path in
        let first = try CheckHost(path: path, CheckBehaviour())
        try subject.expect(first.enter(), "its entry function")
        let second = try CheckHost(path: path, CheckBehaviour())
        try subject.expect(second.enter(), "its entry function, called a second time,")
        try subject.expect(second.activate(), "its activation")
        try subject.end(second)
        try subject.throwOffences(of: first)
      }
    },
    PluginTest(
      group: .entry,
      word: "quiet",
      question: "the entry function starts nothing and opens nothing",
      remedy: "start threads and open files in activate, not in perdure_plugin_1"
    ) { subject in
      let host = try subject.copy()
      let threads = CheckRest.threads
      let descriptors = CheckRest.descriptors
      try subject.expect(host.enter(), "its entry function")
      var more = CheckRest.threads - threads
      // A thread of this host may still be ending.
      for _ in 0..<8 where more > 0 { more = CheckRest.threads - threads }
      if more > 0 { throw CheckFailure("its entry function starts \(more) threads") }
      let opened = CheckRest.descriptors - descriptors
      if opened > 0 { throw CheckFailure("its entry function opens \(opened) descriptors") }
      try subject.throwOffences(of: host)
    },
    PluginTest(
      group: .entry,
      word: "small",
      question: "a smaller pdr_plugin is not written past its size",
      remedy: "compare out->size before filling in members, or refuse when it is less than"
        + " sizeof *out"
    ) { subject in
      for size in [24, 40, 48] as [UInt32] {
        let host = try subject.copy(CheckBehaviour(pluginSize: size))
        try refusesProperly(host.enter(), "a pdr_plugin of \(size) bytes")
        try subject.throwOffences(of: host)
      }
    },
    PluginTest(
      group: .entry,
      word: "later",
      question: "longer structs, a higher minor and unknown flags of a later host are accepted",
      remedy: "compare sizes with >= and ignore the flags of the lower half that are not known"
    ) { subject in
      try subject.live(CheckBehaviour(isLater: true)) { host in
        for target in subject.targets.all {
          let call = subject.start(target, on: host)
          try subject.finish(call, of: target, on: host)
          try subject.answer(call, of: target, on: host)
        }
      }
    },
    PluginTest(
      group: .entry,
      word: "query",
      question: "tables that no plugin has are not given",
      remedy: "compare the whole name and min_size in pdr_plugin.query, and return null otherwise"
    ) { subject in
      try subject.live { host in
        for name in [
          "no.such.table/1", "", "perdure.calls/99", String(repeating: "x", count: 5_000),
        ] {
          guard let isGiven = host.query(name, least: 8) else {
            throw CheckFailure("query does not return for the table '\(name.prefix(40))'")
          }
          if isGiven { throw CheckFailure("query gives a table for the name '\(name.prefix(40))'") }
        }
        if host.query("no.such.table/1", least: .max) != false {
          throw CheckFailure("query gives a table of 4 GiB")
        }
      }
    },
    PluginTest(
      group: .entry,
      word: "tables",
      question: "a host without one of the tables is refused or served",
      remedy: "check what host->query returns before using it; refuse with a sentence if the table"
        + " is required"
    ) { subject in
      for name in ["perdure.calls/1", "perdure.invoke/1"] {
        let behaviour = CheckBehaviour(
          hidesCalls: name == "perdure.calls/1",
          hidesInvoke: name == "perdure.invoke/1"
        )
        try withoutTable(name, subject, behaviour)
      }
    },
  ]

  private static func refusesProperly(_ step: CheckHost.Step, _ what: String) throws {
    switch step {
    case .done, .absent: return
    case .hung: throw CheckFailure("it does not return when it is given \(what)")
    case .refused(let code, let message):
      if code > 0 { throw CheckFailure("given \(what), it returns \(code), which is no code") }
      if message.isEmpty {
        throw CheckFailure(
          "given \(what), it refuses without a sentence",
          remedy: "write a sentence to the error buffer: what was found, what is needed"
        )
      }
    }
  }

  private static func withoutTable(
    _ name: String,
    _ subject: CheckSubject,
    _ behaviour: CheckBehaviour
  ) throws {
    let host = try subject.copy(behaviour)
    let step = host.enter()
    try refusesProperly(step, "a host without \(name)")
    guard step == .done else {
      if subject.manifest.optionalInterfaces.contains(name) {
        throw CheckFailure(
          "it refuses a host without \(name), which its manifest calls optional",
          remedy: "do without the table, or move it to \"required\""
        )
      }
      return try subject.throwOffences(of: host)
    }
    try refusesProperly(host.activate(), "a host without \(name)")
    // Without the table of calls nothing can be answered.
    if !behaviour.hidesCalls {
      for target in subject.targets.all {
        let call = subject.start(target, on: host)
        try subject.finish(call, of: target, on: host)
      }
    }
    _ = host.deactivate()
    try subject.expect(host.destroy(), "destroy")
    try subject.throwOffences(of: host)
  }
}
