import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Testing

/// Loading and closing.
struct LifecycleTests {
  private func names(_ folder: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: folder)
  }

  @Test func `the private copy is read-only and gone after the close`() async throws {
    let bench = try await PluginBench.load(Fixtures.plugin("adversary"))
    let copy = try #require(try names(bench.copies).first)
    #expect(copy.hasPrefix("test.adversary-\(bench.plugin.digest.prefix(16))-\(getpid())-"))
    let attributes = try FileManager.default.attributesOfItem(atPath: "\(bench.copies)/\(copy)")
    #expect(attributes[.posixPermissions] as? Int == 0o555)
    #expect(await bench.plugin.close() == [])
    #expect(try names(bench.copies) == [])
  }

  @Test func `copies of processes that are gone are swept`() async throws {
    let folder = try Fixtures.folder()
    let dead = try Command.deadProcess()
    for name in ["a-0123-\(dead)-1.so", "a-0123-\(dead)-2.so.tmp", "a-0123-1-1.so", "notes.txt"] {
      try Data("x".utf8).write(to: URL(filePath: "\(folder)/\(name)"))
    }
    let plugin = try await PluginFiles.load(
      path: Fixtures.plugin("adversary"),
      environment: PluginBench.environment(Reports(), copies: folder)
    )
    _ = await plugin.close()
    #expect(try names(folder).sorted() == ["a-0123-1-1.so", "notes.txt"])
  }

  @Test func `a folder that others may write to is refused`() async throws {
    let folder = try Fixtures.folder()
    try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: folder)
    let error = await #expect(throws: PerdureError.self) {
      try await PluginFiles.load(
        path: Fixtures.plugin("adversary"),
        environment: PluginBench.environment(Reports(), copies: folder)
      )
    }
    #expect(error?.code == .pluginRefused)
  }

  @Test func `two loads of one file have state of their own`() async throws {
    let path = try Fixtures.plugin("adversary")
    try await PluginBench.with(path) { (first) async throws in
      _ = try await first.call("twice")
      try await PluginBench.with(path) { (second) async throws in
        #expect(try await first.text("codes") == "0 -3")
        #expect(try await second.text("codes") == "")
      }
    }
  }

  @Test func `a closed plugin gets gone from every function`() async throws {
    let pipe = Pipe()
    let descriptor = pipe.fileHandleForWriting.fileDescriptor
    let bench = try await PluginBench.load(Fixtures.plugin("adversary"))
    _ = try await bench.call("watch_gone", ["fd": .int(Int(dup(descriptor)))])
    try pipe.fileHandleForWriting.close()
    _ = await bench.plugin.close()
    let line = try pipe.fileHandleForReading.readToEnd() ?? Data()
    #expect(String(decoding: line, as: UTF8.self) == "-4 -4 -4 -4 -4 -4\n")
  }

  @Test(.timeLimit(.minutes(5)))
  func `a closed plugin keeps nothing of what it was given`() async throws {
    weak var kept: Reports?
    do {
      let bench = try await PluginBench.load(Fixtures.plugin("adversary"))
      kept = bench.reports
      #expect(try await bench.text("echo", ["n": 1]).contains(#""n":1"#))
      #expect(await bench.plugin.close() == [])
    }
    // The last of its threads may just be leaving.
    while kept != nil { await Task.yield() }
  }

  @Test(.bothPlaces)
  func `a file that is replaced while it is loaded changes nothing that runs`() async throws {
    let path = try Fixtures.copy(Fixtures.plugin("adversary"))
    try await PluginBench.with(path) { (bench) async throws in
      // In place, and by another file.
      try Data("no plugin".utf8).write(to: URL(filePath: path))
      #expect(try await bench.text("echo", ["n": 1]).contains(#""n":1"#))
      try Data("another one".utf8).write(to: URL(filePath: path), options: .atomic)
      #expect(try await bench.text("echo", ["n": 2]).contains(#""n":2"#))
    }
  }

  @Test func `a process that is started again has the code that was loaded`() async throws {
    let path = try Fixtures.copy(Fixtures.plugin("doom"))
    try await Place.$current.withValue(.runner) {
      let bench = try await PluginBench.load(path)
      try Data("no plugin".utf8).write(to: URL(filePath: path))
      #expect(await bench.failure("abort")?.code == .pluginFault)
      #expect(try await bench.text("echo") == "{}")
      _ = await bench.plugin.close()
    }
  }

  @Test(.bothPlaces)
  func `a library that is missing is one clear sentence`() async throws {
    let folder = try Fixtures.folder()
    let library = folder + "/libgone.so"
    try Data("int gone(void) { return 1; }".utf8).write(to: URL(filePath: folder + "/gone.c"))
    try Command.run(["cc", "-shared", "-fPIC", "-o", library, folder + "/gone.c"])
    let path = try Fixtures.lifecycle(
      manifest: RefusalTests.plain,
      flags: ["-L\(folder)", "-Wl,--no-as-needed", "-lgone"]
    )
    try FileManager.default.removeItem(atPath: library)
    let error = await #expect(throws: PerdureError.self) { try await PluginBench.load(path) }
    #expect(error?.code == .pluginRefused)
    #expect(error?.message == "plugin file \(path) cannot be loaded")
    #expect(error?.cause?.contains("libgone.so") == true)
  }

  @Test func `a thread that outlives its plugin ends with the process`() async throws {
    try await Place.$current.withValue(.runner) {
      let bench = try await PluginBench.load(Fixtures.plugin("adversary"))
      // It asks for ever, and here nobody ever says that the plugin is gone.
      _ = try await bench.call("watch_gone", ["fd": -1])
      let process = try #require(bench.plugin.processID)
      _ = await bench.plugin.close()
      #expect(kill(process, 0) != 0)
    }
  }

  @Test func `a host full of closed plugins loads no more`() async throws {
    let first = try await PluginBench.load(Fixtures.plugin("adversary"))
    _ = await first.plugin.close()
    var environment = PluginBench.environment(Reports(), copies: try Fixtures.folder())
    environment.retiredLimit = 1
    let error = await #expect(throws: PerdureError.self) {
      try await PluginFiles.load(
        path: Fixtures.plugin("adversary"),
        environment: environment
      )
    }
    #expect(error?.hint == "restart the host")
  }

  @Test func `a call after the close is refused`() async throws {
    let bench = try await PluginBench.load(Fixtures.plugin("adversary"))
    let tool = try #require(bench.plugin.extensionValue.tools.first { $0.name == "echo" })
    _ = await bench.plugin.close()
    let error = await #expect(throws: PerdureError.self) { try await bench.call(tool) }
    #expect(error?.code == "tool_unavailable")
    #expect(await bench.plugin.close() == [])
  }

  @Test func `a closed plugin contributes nothing any more`() async throws {
    let bench = try await PluginBench.load(Fixtures.plugin("adversary"))
    #expect(!bench.plugin.extensionValue.tools.isEmpty)
    _ = await bench.plugin.close()
    #expect(bench.plugin.extensionValue.tools.isEmpty)
    #expect(bench.plugin.extensionValue.name == bench.plugin.id)
  }

  @Test func `closing cancels calls with the reason drain`() async throws {
    let bench = try await PluginBench.load(Fixtures.plugin("adversary"))
    let host = FakeHost()
    async let text = bench.text("poll", host: host)
    await host.whenReady()
    #expect(await bench.plugin.close() == [])
    #expect(try await text == "4")
  }

  @Test func `a plugin that does not stop is told of and closed`() async throws {
    let clock = ManualClock()
    let path = try Fixtures.lifecycle(manifest: RefusalTests.plain, wrong: 5)
    let bench = try await PluginBench.load(path, clock: clock)
    async let problems = bench.plugin.close()
    await clock.waitForSleeper(of: .seconds(5))
    clock.advance(by: .seconds(5))
    #expect(await problems == ["plugin test.plain did not stop in time"])
  }

  @Test func `a plugin whose code hangs is muted and left`() async throws {
    let manifest =
      RefusalTests.plain.dropLast()
      + #","tools":[{"name":"hang","description":"","blocking":true,"parameters":{}}]}"#
    let path = try Fixtures.lifecycle(manifest: String(manifest), wrong: 6)
    let clock = ManualClock()
    let bench = try await PluginBench.load(path, clock: clock)
    let host = FakeHost(time: clock)
    let call = Task { try await bench.call("hang", host: host) }
    await host.whenReady()
    async let problems = bench.plugin.close()
    await clock.waitForSleeper(of: .seconds(5))
    clock.advance(by: .seconds(5))
    await clock.waitForSleeper(of: .seconds(1))
    clock.advance(by: .seconds(1))
    #expect(
      await problems == [
        "plugin test.plain left calls unanswered",
        "plugin test.plain still runs code; it was muted and stays until the host ends",
      ]
    )
    await #expect(throws: PerdureError.self) { try await call.value }
  }

  @Test func `what a manifest lists is served without a warning`() async throws {
    let manifest =
      RefusalTests.plain.dropLast()
      + #","sections":[{"key":"s","text":"x"}],"hooks":[{"point":"afterTool","role":"observer"}],"#
      + #""documents":[{"kind":"a.b","version":1,"scope":"session","base":"always"}]}"#
    try await PluginBench.with(Fixtures.lifecycle(manifest: String(manifest))) {
      (bench) async throws in
      #expect(bench.plugin.warnings.isEmpty)
    }
  }

  @Test func `a plugin in Swift answers from a task of its own runtime`() async throws {
    try await PluginBench.with(Fixtures.swiftPlugin()) { (bench) async throws in
      let result = try await bench.call("tally", ["numbers": [1, 2, 3, 4]])
      #expect(result.output == [["type": "text", "text": "call-1 square,nameless 10.0"]])
      #expect(result.structuredOutput == ["sum": 10])
      let error = await bench.failure("tally", ["numbers": "none"])
      #expect(error?.message.contains("typeMismatch") == true)
    }
  }

  @Test func `two copies of a plugin in Swift run side by side`() async throws {
    let path = try Fixtures.swiftPlugin()
    try await PluginBench.with(path) { (first) async throws in
      try await PluginBench.with(path) { (second) async throws in
        async let one = first.call("tally", ["numbers": [1]])
        async let two = second.call("tally", ["numbers": [2]])
        #expect(try await one.structuredOutput == ["sum": 1])
        #expect(try await two.structuredOutput == ["sum": 2])
      }
    }
  }

  @Test func `the border alone gives back every byte`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let border = BorderBench(plugin: bench.plugin, tool: "raw")
      let input = [UInt8](repeating: 7, count: 1_024)
      #expect(try border.run(rounds: 3_000, input: input) == 3_000 * 1_024)
    }
  }
}
