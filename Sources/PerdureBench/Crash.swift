import Glibc
import Perdure

/// W7: a process is killed in the middle of a tool call, and the next one goes on.
enum Crash {
  static func run(_ arguments: Arguments) async throws {
    switch arguments.mode {
    case "", "safe", "unsafe": break
    default: throw Arguments.wrong("--mode takes safe or unsafe, not '\(arguments.mode)'")
    }
    if arguments.spawns { return try await drive(arguments) }
    // The time before this line: the loader, the runtime, reading the arguments.
    let startUp = Machine.processorTime
    let start = Machine.now
    let stamps = Stamps()
    let host = try await open(arguments, stamps)
    guard arguments.resumes else {
      try await host.configure()
      try await host.ask()
      return try await host.harness.close()
    }
    try await host.harness.resume()
    await host.harness.waitUntilQuiet()
    let entries = try await host.harness.reader.entries(of: host.conversation.id)
    try await host.harness.close()
    var line = line(arguments, entries)
    line.set("import_ms", milliseconds(startUp))
    if let first = stamps.first { line.set("first_model_ms", milliseconds(first - start)) }
    line.print(try Calibration(in: arguments.folder))
  }

  private static func open(_ arguments: Arguments, _ stamps: Stamps) async throws -> BenchHost {
    let calls = arguments.history / 2 + 10
    return try await BenchHost.open(
      arguments,
      BenchModel(calls: calls, stamps: stamps),
      replay: arguments.mode == "unsafe" ? .unsafe : .safe
    ) { call in
      let number = call.arguments["i"]?.int ?? -1
      try Machine.append(
        "tool \(number) \(arguments.resumes ? "second" : "first")",
        to: log(arguments)
      )
      if number == arguments.history / 2 + 5, !arguments.resumes {
        try await call.host.sleep(milliseconds: 60_000)
      }
      return .text(BenchHost.payload)
    }
  }

  private static func log(_ arguments: Arguments) -> String { arguments.folder + "/effects.log" }

  private static func line(_ arguments: Arguments, _ entries: [EntryRecord]) -> ResultLine {
    let messages = entries.flatMap { $0.model ?? [] }
    let results = messages.filter { $0["role"] == "toolResult" }
    var line = ResultLine("w7")
    line["mode"] = .string(arguments.mode.isEmpty ? "safe" : arguments.mode)
    line["sync"] = .string(arguments.sync)
    line["tool_results"] = .int(Int64(results.count))
    line["tool_errors"] = .int(Int64(results.count { $0["isError"] == true }))
    line["assistants"] = .int(Int64(messages.count { $0["role"] == "assistant" }))
    line["effects"] = .array(effects(arguments).map { .string($0) })
    return line
  }

  private static func effects(_ arguments: Arguments) -> [String] {
    guard let text = TextFile.read(log(arguments)) else { return [] }
    return text.split(separator: "\n").map { String($0) }
  }

  /// Starts a process, kills it in the call, and starts the one that goes on and reports.
  private static func drive(_ arguments: Arguments) async throws {
    let words = [
      "w7", "--dir", arguments.folder, "--sync", arguments.sync, "--mode",
      arguments.mode.isEmpty ? "safe" : arguments.mode, "--h", String(arguments.history),
    ]
    let mark = "tool \(arguments.history / 2 + 5) first"
    let first = try Child.start(words)
    let end = Machine.now + 120_000_000_000
    while !effects(arguments).contains(mark) {
      guard Machine.now < end else {
        first.kill()
        throw PerdureError(.invalidInput, "the call that was to be cut off never came")
      }
      await SystemClock().sleep(nanoseconds: 5_000_000)
    }
    first.kill()
    let second = try Child.start(words + ["--resume"])
    let line = second.readLine()
    guard second.wait() == 0 else {
      throw PerdureError(.invalidInput, "the process that goes on failed", cause: line)
    }
    print(line)
  }
}

/// Small text files.
enum TextFile {
  /// Returns the text of a file, or `nil` if it cannot be opened.
  static func read(_ path: String) -> String? {
    guard let file = unsafe fopen(path, "re") else { return nil }
    defer { unsafe fclose(file) }
    var text: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = unsafe fread(&buffer, 1, buffer.count, file)
      if count == 0 { return String(decoding: text, as: UTF8.self) }
      text += buffer.prefix(count)
    }
  }
}
