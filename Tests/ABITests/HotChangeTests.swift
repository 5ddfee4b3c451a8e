import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Testing

/// A harness that runs with installed plugins, and a model that calls one tool for each prompt.
struct HotBench: Sendable {
  let folder: String
  let plugins: InstalledPlugins
  let harness: Harness
  let reports: Reports

  /// Opens a harness whose plugins are those that are installed in `folder`.
  static func open(
    _ folder: String,
    calling tool: String = "version",
    _ arguments: JSON = [:],
    configure: @escaping @Sendable (inout PluginEnvironment) -> Void = { _ in },
    change: (inout InstalledPlugins.Options) -> Void = { _ in }
  ) async throws -> HotBench {
    let reports = Reports()
    var options = InstalledPlugins.Options()
    // The tests share descriptors with the plugins.
    options.isolation = .inProcess
    options.onReport = { reports.add($0) }
    options.configure = { environment in
      environment.copies = folder + "/copies"
      // One process runs all tests.
      environment.retiredLimit = .max
      configure(&environment)
    }
    change(&options)
    let plugins = try await InstalledPlugins.load(
      from: PluginInstallation(folder: folder + "/plugins"),
      options
    )
    let script = folder + "/script.json"
    let call: JSON = ["id": "c", "name": .string(tool), "arguments": arguments]
    let turns: JSON = [
      ["steps": [["toolCall": call]]], ["steps": [["text": "It says: "], ["toolResult": "c"]]],
    ]
    try Data(JSON.object(["turns": turns]).encoded).write(to: URL(filePath: script))
    var settings = HarnessSettings()
    settings.approvals = .wait
    let harness = try await Harness.open(
      .memory,
      models: Models.faux(scriptAt: script),
      extensions: plugins.extensions,
      pinned: plugins.pinned,
      settings: { [settings] in settings },
      onReport: { reports.add($0) }
    )
    try plugins.attach(to: harness)
    return HotBench(folder: folder, plugins: plugins, harness: harness, reports: reports)
  }

  /// Opens a harness with one version installed.
  static func running(
    _ version: String = "1.0.0",
    _ flags: [String] = [],
    calling tool: String = "version",
    _ arguments: JSON = [:],
    configure: @escaping @Sendable (inout PluginEnvironment) -> Void = { _ in },
    change: (inout InstalledPlugins.Options) -> Void = { _ in }
  ) async throws -> HotBench {
    let bench = try InstallBench()
    try await bench.installation.install(
      InstallBench.plugin(version, flags),
      InstallBench.unsigned
    )
    return try await open(
      bench.folder,
      calling: tool,
      arguments,
      configure: configure,
      change: change
    )
  }

  /// Runs a prompt in a new conversation and returns its answer.
  func ask() async throws -> String {
    let conversation = try await harness.createConversation(agent: .init(model: Models.fauxModel))
    return try await conversation.submit("?").answer()
  }

  /// Starts a prompt in a new conversation.
  func start() async throws -> Submission {
    let conversation = try await harness.createConversation(agent: .init(model: Models.fauxModel))
    return try await conversation.submit("?")
  }

  func upgrade(_ version: String, _ flags: [String] = []) async throws -> PluginChange {
    try await plugins.upgrade(InstallBench.plugin(version, flags), InstallBench.unsigned)
  }

  /// The error of an upgrade.
  func refusal(_ version: String, _ flags: [String] = []) async -> PerdureError? {
    do {
      _ = try await upgrade(version, flags)
      return nil
    } catch {
      return error as? PerdureError
    }
  }

  /// What runs, by version.
  func runningVersion() throws -> String? {
    try plugins.plugin("test.versions").running?.version
  }

  @discardableResult func close() async throws -> [String] {
    try await harness.close()
    return await plugins.close()
  }
}

/// A call that is under way until a test lets it end.
struct HeldCall: Sendable {
  private let ready = Pipe()
  private let gate = Pipe()

  var arguments: JSON {
    [
      "fd": .int(Int(gate.fileHandleForReading.fileDescriptor)),
      "ready": .int(Int(ready.fileHandleForWriting.fileDescriptor)),
    ]
  }

  /// Returns when the plugin has the call.
  func whenBegun() async {
    let reading = ready.fileHandleForReading
    await withCheckedContinuation { continuation in
      Thread.detachNewThread {
        _ = try? reading.read(upToCount: 1)
        continuation.resume()
      }
    }
  }

  /// Lets it end.
  func end() throws { try gate.fileHandleForWriting.write(contentsOf: Data([1])) }
}

/// Plugins that change while a harness runs.
struct HotChangeTests {
  @Test func `a plugin that is installed answers the next prompt`() async throws {
    let bench = try await HotBench.open(Fixtures.folder())
    #expect(try await bench.ask().contains("was not offered"))
    let change = try await bench.plugins.install(InstallBench.plugin(), InstallBench.unsigned)
    #expect(change.to == "1.0.0")
    #expect(try await bench.ask() == "It says: 1.0.0 1 0")
    #expect(try await bench.close() == [])
  }

  @Test func `new calls get the new version, and one that is under way ends on the old one`()
    async throws
  {
    let held = HeldCall()
    let bench = try await HotBench.running(calling: "hold", held.arguments)
    let submission = try await bench.start()
    await held.whenBegun()
    let change = try await bench.upgrade("2.0.0")
    #expect(change.lastCalls.count == 1)
    let plugin = try bench.plugins.plugin("test.versions")
    #expect(plugin.running?.version == "2.0.0")
    #expect(plugin.draining.map(\.version) == ["1.0.0"])
    #expect(plugin.draining.first?.calls == ["tool hold"])
    try held.end()
    #expect(try await submission.answer() == "It says: held by 1.0.0")
    await bench.plugins.waitUntilDrained()
    #expect(try bench.plugins.plugin("test.versions").draining.isEmpty)
    try held.end()
    #expect(try await bench.ask() == "It says: held by 2.0.0")
    #expect(try await bench.close() == [])
  }

  @Test func `an old version that nobody calls is closed and stays mapped`() async throws {
    let bench = try await HotBench.running(#"7.0.0"#, [#"-DID="test.retired""#])
    _ = try await bench.plugins.upgrade(
      InstallBench.plugin("7.0.1", [#"-DID="test.retired""#]),
      InstallBench.unsigned
    )
    await bench.plugins.waitUntilDrained()
    #expect(try bench.plugins.plugin("test.retired").retired == 1)
    let memory = RetiredPlugins.now
    #expect(memory.copies >= 1)
    #expect(memory.mappedBytes > 0)
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: bench.folder + "/copies").count == 1
    )
    try await bench.close()
  }

  @Test func `the state goes from the old version to the new one`() async throws {
    let bench = try await HotBench.running(calling: "remember", ["n": 42])
    #expect(try await bench.ask() == "It says: kept")
    _ = try await bench.upgrade("1.1.0")
    let next = try await bench.plugins.rollback("test.versions")
    #expect(!next.hasLostState)
    let other = try await HotBench.open(bench.folder)
    try await other.close()
    let tool = try #require(bench.plugins.extensions.first?.tools.first { $0.name == "version" })
    let result = try await tool.execute(
      ToolCall(
        callId: "c",
        conversationId: #require(ConversationID(1)),
        taskId: #require(TaskID(2)),
        arguments: [:],
        replay: .safe,
        recovered: false,
        outputWindow: nil,
        deadline: SystemClock().monotonic() + 10_000_000_000,
        host: FakeHost()
      )
    )
    #expect(result.output?.first?["text"] == "1.0.0 1 42")
    try await bench.close()
  }

  @Test(
    arguments: [
      (["-DWRONG=1"], "failed its own test 'lamp'"), (["-DWRONG=2"], "the drawer is full"),
      (["-DWRONG=3"], "refused to be activated"),
      (["-DSTATE=2", #"-DRESTORES="[2]""#], "does not restore the state version 1"),
    ] as [([String], String)]
  )
  func `a version that fails leaves the old one where it was`(
    flags: [String],
    why: String
  ) async throws {
    let bench = try await HotBench.running()
    let before = try Data(contentsOf: URL(filePath: bench.folder + "/plugins/plugins.lock.json"))
    let error = await bench.refusal("2.0.0", flags)
    #expect(error?.message.contains(why) == true, "\(String(describing: error))")
    #expect(error?.message.hasSuffix("; version 1.0.0 goes on") == true)
    #expect(error?.message.contains(".staging") == false)
    #expect(try bench.runningVersion() == "1.0.0")
    #expect(try await bench.ask() == "It says: 1.0.0 1 0")
    let after = try Data(contentsOf: URL(filePath: bench.folder + "/plugins/plugins.lock.json"))
    #expect(before == after)
    // What failed does not stand in the way of what works.
    _ = try await bench.upgrade("2.0.0")
    #expect(try await bench.ask() == "It says: 2.0.0 1 0")
    try await bench.close()
  }

  @Test func `an old version that cannot hand over its state goes on`() async throws {
    let bench = try await HotBench.running("1.0.0", ["-DWRONG=4"])
    let error = await bench.refusal("2.0.0")
    #expect(error?.message == "the drawer is stuck; version 1.0.0 goes on")
    #expect(try await bench.ask() == "It says: 1.0.0 1 0")
    try await bench.close()
  }

  @Test func `what must not be installed does not touch what runs`() async throws {
    let bench = try await HotBench.running()
    let truncated = try Fixtures.copy(InstallBench.plugin("2.0.0")) { $0.removeLast(4_000) }
    for path in [truncated, "/nowhere/x.so"] {
      await #expect(throws: PerdureError.self) {
        try await bench.plugins.upgrade(path, InstallBench.unsigned)
      }
    }
    await #expect(throws: PerdureError.self) {
      try await bench.plugins.upgrade(InstallBench.copy("2.0.0"))
    }
    #expect(try await bench.ask() == "It says: 1.0.0 1 0")
    try await bench.close()
  }

  @Test func `a tool of another plugin refuses the install and both stay as they are`()
    async throws
  {
    let bench = try await HotBench.running()
    let path = try InstallBench.plugin("1.0.0", [#"-DID="test.other""#])
    await #expect(throws: PerdureError.self) {
      try await bench.plugins.install(path, InstallBench.unsigned)
    }
    #expect(try bench.plugins.list().map(\.id) == ["test.versions"])
    #expect(try await bench.ask() == "It says: 1.0.0 1 0")
    try await bench.close()
  }

  @Test func `a rollback to a version that does not know the state goes without it`()
    async throws
  {
    let bench = try await HotBench.running()
    let change = try await bench.upgrade("2.0.0", ["-DSTATE=2", #"-DRESTORES="[1, 2]""#])
    #expect(!change.hasLostState)
    #expect(try await bench.plugins.rollback("test.versions").hasLostState)
    #expect(try bench.runningVersion() == "1.0.0")
    try await bench.close()
  }

  @Test func `a plugin that a call needs stays, and the call is named`() async throws {
    let held = HeldCall()
    let bench = try await HotBench.running(calling: "hold", held.arguments)
    let submission = try await bench.start()
    await held.whenBegun()
    let error = await #expect(throws: PerdureError.self) {
      try await bench.plugins.uninstall("test.versions")
    }
    #expect(error?.code == .pluginInUse)
    #expect(error?.message == "the plugin test.versions is needed by the call tool hold")
    #expect(error?.hint?.contains("--drain") == true)
    _ = try await bench.plugins.uninstall("test.versions", .drain)
    let left = try bench.plugins.list()
    #expect(left.map(\.state) == [.removed])
    #expect(left.first?.draining.first?.calls == ["tool hold"])
    try held.end()
    #expect(try await submission.answer() == "It says: held by 1.0.0")
    #expect(try await bench.ask().contains("was not offered"))
    await bench.plugins.waitUntilDrained()
    #expect(try bench.plugins.list().isEmpty)
    #expect(try await bench.close() == [])
  }

  @Test func `a plugin that is forced out takes its calls with it`() async throws {
    let held = HeldCall()
    let clock = ManualClock()
    let bench = try await HotBench.running(
      calling: "hold",
      held.arguments,
      change: { options in
        options.clock = clock
      }
    )
    let submission = try await bench.start()
    await held.whenBegun()
    _ = try await bench.plugins.uninstall("test.versions", .force)
    // The call does not look at its cancellation, so it is given up after its grace.
    await clock.waitForSleeper(of: .seconds(5))
    clock.advance(by: .seconds(5))
    #expect(try await submission.answer().contains("did not answer tool hold in time"))
    try held.end()
    clock.advance(by: .seconds(10))
    try await bench.close()
  }

  @Test func `a call that waits for an approval keeps its plugin`() async throws {
    let bench = try await HotBench.running(change: { options in
      options.adapting = { value in
        var value = value
        value.tools = value.tools.map { tool in
          var tool = tool
          tool.approval = .required
          return tool
        }
        return value
      }
    })
    _ = try await bench.start()
    var list = bench.harness.approvals.makeAsyncIterator()
    var pending: [Approval] = []
    while pending.isEmpty, let next = try await list.next() { pending = next }
    let error = await #expect(throws: PerdureError.self) {
      try await bench.plugins.uninstall("test.versions", .drain)
    }
    #expect(error?.message.contains("a call of version that waits") == true)
    let change = try await bench.plugins.uninstall("test.versions", .force)
    #expect(change.blockedTasks == pending.map(\.id))
    try await bench.close()
  }

  @Test func `a disabled plugin is gone until it is enabled`() async throws {
    let bench = try await HotBench.running()
    #expect(try await bench.plugins.disable("test.versions").isEnabled == false)
    #expect(try await bench.ask().contains("was not offered"))
    #expect(try bench.runningVersion() == nil)
    _ = try await bench.plugins.enable("test.versions")
    #expect(try await bench.ask() == "It says: 1.0.0 1 0")
    try await bench.close()
  }

  @Test func `a host full of closed copies says so and keeps what runs`() async throws {
    let bench = try await HotBench.running(configure: { environment in
      if RetiredCopies.all.contains(where: { $0.id == "test.versions" && $0.version == "9.0.0" }) {
        environment.retiredLimit = 1
      }
    })
    _ = try await bench.upgrade("9.0.0")
    _ = try await bench.upgrade("9.0.1")
    await bench.plugins.waitUntilDrained()
    let error = await bench.refusal("9.0.2")
    #expect(error?.message.contains("closed plugins are still mapped; version 9.0.1") == true)
    #expect(error?.hint == "restart the host")
    #expect(try await bench.ask() == "It says: 9.0.1 1 0")
    try await bench.close()
  }

  @Test func `a process with too many mappings loads no more`() async throws {
    let bench = try InstallBench()
    try await bench.installation.install(InstallBench.plugin(), InstallBench.unsigned)
    let error = await #expect(throws: PerdureError.self) {
      try await HotBench.open(bench.folder, configure: { $0.mappingLimit = 20 })
    }
    #expect(error?.message.contains("mappings and the system allows 20") == true)
    #expect(error?.hint?.contains("perdure plugin disable test.versions") == true)
  }

  @Test func `a file that is replaced while it is loaded changes nothing that runs`()
    async throws
  {
    let bench = try await HotBench.running()
    let path = try bench.plugins.plugin("test.versions").path
    try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
    // Written over in place, which would crash whoever had mapped this very file.
    try Data(repeating: 0, count: 100).write(to: URL(filePath: path))
    #expect(try await bench.ask() == "It says: 1.0.0 1 0")
    _ = try await bench.upgrade("1.1.0")
    #expect(try await bench.ask() == "It says: 1.1.0 1 0")
    let error = await #expect(throws: PerdureError.self) {
      try await bench.plugins.rollback("test.versions")
    }
    #expect(error?.message.contains("is not what was installed") == true)
    try await bench.close()
  }

  @Test func `an installed file that is another one is not loaded`() async throws {
    let bench = try InstallBench()
    try await bench.installation.install(InstallBench.plugin(), InstallBench.unsigned)
    let path = try bench.installation.plugin("test.versions").path
    try FileManager.default.removeItem(atPath: path)
    try FileManager.default.copyItem(atPath: InstallBench.plugin("6.6.6"), toPath: path)
    let error = await #expect(throws: PerdureError.self) { try await HotBench.open(bench.folder) }
    #expect(error?.message.contains("is not the one that was installed") == true)
  }

  @Test func `a plan that others have overtaken changes nothing`() async throws {
    let bench = try InstallBench()
    try await bench.installation.install(InstallBench.plugin(), InstallBench.unsigned)
    let folder = InstallationFolder(path: bench.folder + "/plugins", clock: SystemClock())
    let plan = try folder.planUninstall("test.versions")
    try await bench.installation.disable("test.versions")
    let error = await #expect(throws: PerdureError.self) { try await folder.commit(plan) }
    #expect(error?.code == "plugins_busy")
    #expect(try bench.installation.list().count == 1)
  }

  // MARK: Trust

  @Test func `a version that is signed runs in the process of the host from then on`() async throws
  {
    let (bench, signer) = (try InstallBench(), try Signer())
    try await bench.installation.install(InstallBench.copy(), InstallBench.unsigned)
    let hot = try await HotBench.open(
      bench.folder,
      configure: { $0.runner = Place.program },
      change: { $0.isolation = nil }
    )
    #expect(try hot.plugins.plugin("test.versions").running?.isolation == .runner)
    _ = try await hot.plugins.upgrade(
      InstallBench.signed("1.1.0", by: signer),
      InstallBench.trusting(signer)
    )
    #expect(try hot.plugins.plugin("test.versions").running?.isolation == .inProcess)
    #expect(try await hot.ask().contains("1.1.0"))
    await hot.plugins.waitUntilDrained()
    try await hot.close()
  }

  @Test func `a running host takes another signer only when it is to be trusted from then on`()
    async throws
  {
    let (bench, signer, other) = (try InstallBench(), try Signer(), try Signer())
    try await bench.installation.install(
      InstallBench.signed(by: signer),
      InstallBench.trusting(signer)
    )
    let hot = try await HotBench.open(bench.folder)
    let newer = try InstallBench.signed("1.1.0", by: other)
    let error = await #expect(throws: PerdureError.self) {
      try await hot.plugins.upgrade(newer, InstallBench.trusting(other))
    }
    #expect(error?.message.contains("belongs to the signer") == true)
    #expect(try hot.runningVersion() == "1.0.0")
    var choices = try InstallBench.trusting(other)
    choices.replacesSigner = true
    _ = try await hot.plugins.upgrade(newer, choices)
    #expect(try hot.runningVersion() == "1.1.0")
    // Whom it trusted before is somebody else now.
    let late = try InstallBench.signed("1.2.0", by: signer)
    await #expect(throws: PerdureError.self) {
      try await hot.plugins.upgrade(late, InstallBench.trusting(signer))
    }
    #expect(try await hot.ask().contains("1.1.0"))
    try await hot.close()
  }

  @Test func `a plugin that is pinned while the host runs counts where it was not selected`()
    async throws
  {
    let hot = try await HotBench.running()
    func ask() async throws -> String {
      let conversation = try await hot.harness.createConversation(
        agent: .init(model: Models.fauxModel, extensions: .only([]))
      )
      return try await conversation.submit("?").answer()
    }
    #expect(try await !ask().contains("1.0.0"))
    var choices = PluginChoices()
    choices.isPinned = true
    _ = try await hot.plugins.enable("test.versions", choices)
    #expect(try await ask().contains("1.0.0"))
    choices.isPinned = false
    _ = try await hot.plugins.enable("test.versions", choices)
    #expect(try await !ask().contains("1.0.0"))
    try await hot.close()
  }
}
