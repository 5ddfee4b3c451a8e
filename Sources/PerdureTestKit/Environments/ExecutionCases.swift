import PerdureModel
import PerdureValue
import Synchronization

extension EnvironmentConformance {
  static let executionCases = each(
    .execution,
    [
      ("arguments arrive as they are", arguments),
      ("streams are told apart", streams),
      ("a command has its folder, its variables and its exit code", surroundings),
      ("what cannot be started says so", unstartable),
      ("output beside a window is counted exactly", windowed),
      ("a command that takes too long or is not wanted any more is killed", stops),
      ("output that is not taken ends the command", callbacks),
      ("a large output is kept in a file as well", spills),
      ("a process that keeps the output open holds nothing up", background),
      ("a character in two pieces arrives whole", pieces),
    ]
  )

  /// Takes what a command puts out.
  private final class Output: Sendable {
    private let chunks = Mutex<[OutputChunk]>([])

    @Sendable func take(_ chunk: OutputChunk) { chunks.withLock { $0.append(chunk) } }

    var all: [OutputChunk] { chunks.withLock { $0 } }

    func text(_ stream: OutputChunk.Stream) -> String {
      all.filter { $0.stream == stream }.map { $0.text }.joined()
    }
  }

  /// Cancels a task that may not be known yet.
  private final class Canceller: Sendable {
    private struct State {
      var task: Task<Void, any Error>?
      var isCancelled = false
    }

    private let state = Mutex(State())

    func adopt(_ task: Task<Void, any Error>) {
      let isCancelled = state.withLock { state in
        state.task = task
        return state.isCancelled
      }
      if isCancelled { task.cancel() }
    }

    func cancel() {
      let task = state.withLock { state in
        state.isCancelled = true
        return state.task
      }
      task?.cancel()
    }
  }

  private static func run(
    _ harness: EnvironmentHarness,
    _ command: EnvironmentCommand,
    _ options: ExecutionOptions = ExecutionOptions()
  ) async throws -> (result: ExecutionResult, output: Output) {
    let output = Output()
    let result = try await harness.env.execute(command, options) { output.take($0) }
    return (result, output)
  }

  private static let arguments: Body = { harness in
    let hostile = ["$(touch bad)", "`touch bad`", "; touch bad", "a  b", "*", "'\"", "\\n", "ä\n"]
    let (result, output) = try await run(
      harness,
      .arguments(["printf", "%s|"] + hostile)
    )
    try expect(result.exitCode, 0, "the exit code")
    try expect(output.text(.stdout), hostile.map { $0 + "|" }.joined(), "the arguments")
    try expect(try await harness.env.exists("bad"), false, "whether something was evaluated")
  }

  private static let streams: Body = { harness in
    let line = "echo out; echo err >&2"
    for command in [EnvironmentCommand.shell(line), .arguments(["sh", "-c", line])] {
      let (_, output) = try await run(harness, command)
      try expect(output.text(.stdout), "out\n", "the output")
      try expect(output.text(.stderr), "err\n", "the errors")
    }
  }

  private static let surroundings: Body = { harness in
    try await harness.env.writeFile("sub/mark", "here")
    let (result, output) = try await run(
      harness,
      .shell("cat mark; printf %s \"$GIVEN\"; cat; exit 3"),
      ExecutionOptions(cwd: "sub", variables: ["GIVEN": "a b"])
    )
    try expect(result.exitCode, 3, "the exit code")
    try expect(output.text(.stdout), "herea b", "the output, with nothing as input")
    let killed = try await run(harness, .shell("kill -9 $$")).result
    try expect(killed.exitCode, 137, "the exit code of one that a signal ended")
    let bare = try await run(
      harness,
      .arguments(["/usr/bin/env"]),
      ExecutionOptions(variables: ["A": "b"], inheritsVariables: false)
    )
    try expect(bare.output.text(.stdout), "A=b\n", "the variables of one that inherits none")
  }

  private static let unstartable: Body = { harness in
    let commands: [(String, EnvironmentCommand, String?)] = [
      ("a missing program", .arguments(["no-such-program-anywhere"]), nil),
      ("no words", .arguments([]), nil), ("an empty word", .arguments([""]), nil),
      ("a missing folder", .shell("true"), "missing"),
      ("a zero", .arguments(["echo", "a\0b"]), nil),
    ]
    for (what, command, cwd) in commands {
      try await expectExecutionError(.spawnError, what) {
        _ = try await run(harness, command, ExecutionOptions(cwd: cwd))
      }
    }
    for timeout in [0, -1, .infinity, .nan, 3_000_000] as [Double] {
      try await expectExecutionError(.timeout, "a timeout of \(timeout)") {
        let options = ExecutionOptions(timeout: timeout)
        _ = try await run(harness, .shell("echo ran > ran"), options)
      }
    }
    try expect(try await harness.env.exists("ran"), false, "whether a command ran all the same")
  }

  private static let windowed: Body = { harness in
    let window = OutputWindowHint(
      maxBytes: 4_096,
      maxLines: 100,
      minIntervalMs: 20,
      bytesPerSecond: 1 << 30
    )
    let (_, output) = try await run(
      harness,
      .shell("i=0; while [ $i -lt 400 ]; do seq 1 2000; i=$((i+1)); done; echo end"),
      ExecutionOptions(window: window)
    )
    let round = (1...2_000).map { "\($0)\n" }.joined()
    let total = round.utf8.count * 400 + 4
    var bytes = 0
    var newlines = 0
    for chunk in output.all {
      bytes += chunk.text.utf8.count + (chunk.skipped?.bytes ?? 0)
      newlines += chunk.text.utf8.count { $0 == 10 } + (chunk.skipped?.newlines ?? 0)
      guard chunk.skipped != nil else { continue }
      let lines = chunk.text.utf8.count { $0 == 10 }
      try expect(
        chunk.text.utf8.count > window.maxBytes || lines > window.maxLines,
        true,
        "whether a chunk of \(chunk.text.utf8.count) bytes after a skip fills the window"
      )
    }
    try expect(bytes, total, "the bytes of all chunks and skips")
    try expect(newlines, 800_001, "the newlines of all chunks and skips")
    let tail = String(decoding: (round + "end\n").utf8.suffix(4_000), as: UTF8.self)
    try expect(
      output.all.map { $0.text }.joined().hasSuffix(tail),
      true,
      "whether the tail is exact"
    )
  }

  private static let stops: Body = { harness in
    try await expectExecutionError(.timeout, "a command without end") {
      _ = try await run(harness, .shell("sleep 600 & sleep 600"), ExecutionOptions(timeout: 0.2))
    }
    let output = Output()
    let canceller = Canceller()
    let task = Task.detached {
      _ = try await harness.env.execute(.shell("echo begun; sleep 600"), ExecutionOptions()) {
        output.take($0)
        canceller.cancel()
      }
    }
    canceller.adopt(task)
    try await expectExecutionError(.aborted, "a command that is cancelled") {
      try await task.value
    }
    try expect(output.text(.stdout), "begun\n", "what it put out before")
    try await expectExecutionError(.aborted, "a command that is cancelled before it begins") {
      try await cancelled { _ = try await run(harness, .shell("echo ran > ran")) }
    }
    try expect(try await harness.env.exists("ran"), false, "whether it ran all the same")
  }

  private static let callbacks: Body = { harness in
    struct Refusal: Error {}
    try await expectExecutionError(.callbackError, "output that nobody takes") {
      _ = try await harness.env.execute(.shell("echo a; sleep 600"), ExecutionOptions()) { _ in
        throw Refusal()
      }
    }
  }

  private static let spills: Body = { harness in
    let spill = ExecutionOptions.Spill(afterBytes: 1_000, afterLines: 100)
    let small = try await run(harness, .shell("echo a"), ExecutionOptions(spill: spill)).result
    try expect(small.spillPath, nil, "the file of a small output")
    for line in ["seq 1 500", "head -c 1001 /dev/zero"] {
      let (result, output) = try await run(
        harness,
        .shell(line),
        ExecutionOptions(spill: spill)
      )
      guard let path = result.spillPath else {
        throw ConformanceFailure("'\(line)' left no file")
      }
      try expect(
        try await harness.env.readTextFile(path),
        output.text(.stdout),
        "the file of '\(line)'"
      )
      try await harness.env.remove(path)
    }
    var kept: String?
    do {
      _ = try await run(
        harness,
        .shell("seq 1 500; sleep 600"),
        ExecutionOptions(timeout: 0.5, spill: spill)
      )
    } catch let error as ExecutionError {
      kept = error.spillPath
    }
    guard let kept else { throw ConformanceFailure("a command that was killed left no file") }
    try await harness.env.remove(kept)
  }

  private static let background: Body = { harness in
    let (result, output) = try await run(harness, .shell("sleep 20 & echo done"))
    try expect(result.exitCode, 0, "the exit code")
    try expect(output.text(.stdout), "done\n", "the output")
  }

  private static let pieces: Body = { harness in
    let (_, output) = try await run(
      harness,
      .shell(
        "printf '\\303'; printf '\\303' >&2; sleep 0.1; printf '\\244\\377'; printf '\\274' >&2"
      )
    )
    try expect(output.text(.stdout), "ä\u{FFFD}", "the output")
    try expect(output.text(.stderr), "ü", "the errors")
  }
}
