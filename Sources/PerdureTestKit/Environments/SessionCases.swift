import PerdureModel
import PerdureValue

extension EnvironmentConformance {
  static let sessionCases = each(
    .sessions,
    [
      ("a session outlives its call and is found by its id", outlives),
      ("it reads what is written to it, up to the end of its input", input),
      ("output is read from a position on", positions),
      ("output that is not kept any more is counted exactly", dropped),
      ("stopping ends what ignores signals, with all it started", stops),
      ("a signal reaches the command", signals),
      ("one that cannot be started says so", unstartable),
      ("a session has its own time", times),
      ("cleaning up ends it", cleanup),
      ("a session without a terminal has no size", sizeless),
    ]
  )

  static let terminalCases = each(
    .terminals,
    [
      ("a session can have a terminal of its own, as its controlling one", terminal),
      ("a terminal has its size, and another one", resize),
      ("the keys of a terminal interrupt and end", keys),
      ("job control works", jobs),
    ]
  )

  /// Only so that a failure is told at all; slow machines have their time.
  private static let patience = 60.0

  /// Reads from a position on until the text holds `part`, or throws.
  private static func read(
    _ session: any CommandSession,
    until part: String,
    from start: SessionPosition = .start
  ) async throws -> (text: String, position: SessionPosition) {
    var text = ""
    var position = start
    while true {
      let output = await session.output(after: position, within: patience)
      text += output.chunks.map { $0.text }.joined()
      position = output.position
      if text.contains(part) { return (text, position) }
      if output.end != nil || output.chunks.isEmpty {
        throw ConformanceFailure("the session put out '\(text)' and not '\(part)'")
      }
    }
  }

  /// Reads all until the end.
  private static func all(
    _ session: any CommandSession
  ) async -> (chunks: [OutputChunk], end: SessionEnd) {
    let end = await session.wait()
    return (session.output(after: .start).chunks, end)
  }

  private static func start(
    _ harness: EnvironmentHarness,
    _ line: String,
    _ options: SessionOptions = SessionOptions()
  ) async throws -> any CommandSession {
    try await harness.env.startSession(.shell(line), options)
  }

  private static func text(
    _ chunks: [OutputChunk],
    _ stream: OutputChunk.Stream = .stdout
  ) -> String {
    chunks.filter { $0.stream == stream }.map { $0.text }.joined()
  }

  // MARK: Pipes

  private static let outlives: Body = { harness in
    try expect(harness.env.hasSessions, true, "whether there are sessions")
    try await harness.env.writeFile("sub/mark", "here")
    let session = try await start(
      harness,
      "cat mark; printf %s \"$GIVEN\"; echo e >&2; read line; exit 3",
      SessionOptions(cwd: "sub", variables: ["GIVEN": " given"])
    )
    let other = try await start(harness, "read line")
    try expect(session.id == other.id, false, "whether two have one id")
    try expect(session.end, nil, "the end of one that waits")
    _ = try await harness.env.execute(.shell("true"), ExecutionOptions(), nil)
    let found = harness.env.session(session.id)
    try expect(found?.id, session.id, "the session of the id")
    try expect(harness.env.session("no-such-session")?.id, nil, "the session of another id")
    try session.write(Array("\n".utf8))
    let (chunks, end) = await all(session)
    try expect(text(chunks), "here given", "the output")
    try expect(text(chunks, .stderr), "e\n", "the errors")
    try expect(end.exitCode, 3, "the exit code")
    try expect(end.failure, nil, "the failure")
    try expect(harness.env.session(session.id)?.end?.exitCode, 3, "the end of one that ended")
    try await expectExecutionError(.sessionEnded, "input for one that ended") {
      try session.write([10])
    }
    let stopped = await other.stop()
    try expect(stopped.failure?.code, .aborted, "the failure of one that was stopped")
  }

  private static let input: Body = { harness in
    let session = try await start(harness, "wc -c")
    let block = [UInt8](repeating: 0x61, count: 100_000)
    for _ in 0..<5 { try session.write(block) }
    try session.endInput()
    let (chunks, end) = await all(session)
    try expect(text(chunks), "500000\n", "how many bytes it read")
    try expect(end.exitCode, 0, "the exit code")
    let full = try await start(harness, "sleep 600")
    try await expectExecutionError(.unknown, "input that nobody reads") {
      for _ in 0..<100 { try full.write(block) }
    }
    _ = await full.stop()
  }

  private static let positions: Body = { harness in
    let session = try await start(harness, "echo first; read line; echo second; read line")
    let (first, position) = try await read(session, until: "\n")
    try expect(first, "first\n", "what was put out first")
    try expect(session.output(after: position).chunks, [], "what there is behind it")
    let nothing = await session.output(after: position, within: 0.01)
    try expect(nothing.chunks, [], "what came in a moment")
    try session.write(Array("\n".utf8))
    let (second, last) = try await read(session, until: "\n", from: position)
    try expect(second, "second\n", "what was put out then")
    try expect(last, SessionPosition(bytes: 13, newlines: 2), "the position behind it")
    _ = await session.stop()
  }

  private static let dropped: Body = { harness in
    let session = try await start(
      harness,
      "i=0; while [ $i -lt 100 ]; do seq 1 2000; i=$((i+1)); done; echo end",
      SessionOptions(keptBytes: 262_144)
    )
    let (chunks, _) = await all(session)
    let round = (1...2_000).map { "\($0)\n" }.joined()
    let kept = text(chunks)
    let skipped = chunks.first?.skipped
    // What came at once, at most 64 KiB, goes as a whole.
    try expect((190_000...262_144).contains(kept.utf8.count), true, "what is kept")
    try expect(kept.hasSuffix("1999\n2000\nend\n"), true, "whether it is the newest")
    try expect(
      kept.utf8.count + (skipped?.bytes ?? 0),
      round.utf8.count * 100 + 4,
      "the bytes of what is kept and skipped"
    )
    try expect(
      kept.utf8.count { $0 == 10 } + (skipped?.newlines ?? 0),
      200_001,
      "the newlines of what is kept and skipped"
    )
  }

  private static let stops: Body = { harness in
    let session = try await start(
      harness,
      "trap '' TERM HUP INT; (trap '' TERM HUP INT; while :; do sleep 1; done) & "
        + "echo begun; while :; do sleep 1; done"
    )
    _ = try await read(session, until: "begun\n")
    let end = await session.stop()
    try expect(end.exitCode, 137, "the exit code")
    try expect(end.failure?.code, .aborted, "the failure")
    try expect(session.end, end, "the end")
  }

  private static let signals: Body = { harness in
    let session = try await start(
      harness,
      "trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.05; done"
    )
    let (_, position) = try await read(session, until: "ready\n")
    // SIGUSR1.
    try session.signal(10)
    _ = try await read(session, until: "caught\n", from: position)
    try expect(await session.wait().exitCode, 5, "the exit code")
    for number in [0, 65] as [UInt8] {
      try await expectExecutionError(.unknown, "the signal \(number)") {
        try await start(harness, "sleep 600").signal(number)
      }
    }
  }

  private static let unstartable: Body = { harness in
    let commands: [(String, EnvironmentCommand, String?)] = [
      ("a missing program", .arguments(["no-such-program-anywhere"]), nil),
      ("no words", .arguments([]), nil), ("a missing folder", .shell("true"), "missing"),
      ("a zero", .arguments(["echo", "a\0b"]), nil),
    ]
    for (what, command, cwd) in commands {
      try await expectExecutionError(.spawnError, what) {
        _ = try await harness.env.startSession(command, SessionOptions(cwd: cwd))
      }
    }
    try await expectExecutionError(.timeout, "a timeout that cannot be") {
      _ = try await start(harness, "echo ran > ran", SessionOptions(timeout: -1))
    }
    try await expectExecutionError(.aborted, "one that is cancelled before it begins") {
      try await cancelled { _ = try await start(harness, "echo ran > ran") }
    }
    try expect(try await harness.env.exists("ran"), false, "whether it ran all the same")
  }

  private static let times: Body = { harness in
    let session = try await start(harness, "sleep 600", SessionOptions(timeout: 0.2))
    try expect(await session.wait().failure?.code, .timeout, "the failure")
  }

  private static let cleanup: Body = { harness in
    let session = try await start(harness, "trap '' TERM; echo begun; while :; do sleep 1; done")
    _ = try await read(session, until: "begun\n")
    await harness.env.cleanup()
    try expect(session.end != nil, true, "whether it has ended")
  }

  private static let sizeless: Body = { harness in
    let session = try await start(harness, "sleep 600")
    try expect(session.hasTerminal, false, "whether it has a terminal")
    try await expectExecutionError(.notSupported, "a size") { try session.resize(TerminalSize()) }
    _ = await session.stop()
  }

  // MARK: Terminals

  private static let withTerminal = SessionOptions(terminal: TerminalSize(rows: 30, columns: 90))

  private static let terminal: Body = { harness in
    let session = try await start(
      harness,
      "test -t 0 && test -t 1 && test -t 2 && echo 'all three' > /dev/tty; exit 4",
      withTerminal
    )
    try expect(session.hasTerminal, true, "whether it has a terminal")
    let (chunks, end) = await all(session)
    try expect(text(chunks), "all three\r\n", "the output")
    try expect(end.exitCode, 4, "the exit code")
    let (output, last) = await all(try await start(harness, "seq 1 5000", withTerminal))
    try expect(text(output).hasSuffix("\r\n5000\r\n"), true, "whether a long output is whole")
    try expect(last.exitCode, 0, "the exit code of a long output")
  }

  private static let resize: Body = { harness in
    let session = try await start(
      harness,
      "stty size; trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done",
      withTerminal
    )
    let (text, position) = try await read(session, until: "ready\r\n")
    try expect(text, "30 90\r\nready\r\n", "the size it began with")
    try session.resize(TerminalSize(rows: 50, columns: 132))
    _ = try await read(session, until: "50 132\r\n", from: position)
    try expect(await session.wait().exitCode, 0, "the exit code")
  }

  private static let keys: Body = { harness in
    let session = try await start(harness, "stty -echo; echo ready; cat; exit 6", withTerminal)
    let (_, position) = try await read(session, until: "ready\r\n")
    try session.write(Array("line\n".utf8))
    _ = try await read(session, until: "line\r\n", from: position)
    try session.endInput()
    try expect(await session.wait().exitCode, 6, "the exit code behind the end of input")
    let other = try await start(
      harness,
      "trap 'exit 7' INT; echo ready; while :; do sleep 0.05; done",
      withTerminal
    )
    _ = try await read(other, until: "ready\r\n")
    try other.write([0x03])
    try expect(await other.wait().exitCode, 7, "the exit code of one that ^C interrupted")
  }

  private static let jobs: Body = { harness in
    let session = try await harness.env.startSession(
      .arguments(["/bin/bash", "--norc", "--noprofile", "--noediting", "-i"]),
      SessionOptions(variables: ["PS1": "> ", "HISTFILE": ""], terminal: TerminalSize())
    )
    let (greeting, position) = try await read(session, until: "> ")
    try expect(greeting.contains("job control"), false, "whether it complains: '\(greeting)'")
    try session.write(Array("cat\n".utf8))
    let (_, begun) = try await read(session, until: "cat\r\n", from: position)
    try session.write(Array("echo-me\n".utf8))
    let (_, behind) = try await read(session, until: "echo-me\r\necho-me\r\n", from: begun)
    try session.write([0x1A])
    let (note, stopped) = try await read(session, until: "cat\r\n> ", from: behind)
    try expect(note.contains("Stopped"), true, "whether ^Z stopped it: '\(note)'")
    try session.write(Array("fg\n".utf8))
    let (_, resumed) = try await read(session, until: "cat\r\n", from: stopped)
    try session.write([0x04])
    _ = try await read(session, until: "> ", from: resumed)
    try session.write(Array("exit 9\n".utf8))
    try expect(await session.wait().exitCode, 9, "the exit code")
  }
}
