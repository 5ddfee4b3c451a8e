import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Testing

/// A harness with the installed plugin that runs scripts, in a process of its own.
struct InstalledDesk: Sendable {
  let plugins: InstalledPlugins
  let harness: Harness
  let root: Conversation
  let reports: Reports

  static let id = "test.desk"

  /// Installs the plugin; returns the folder.
  static func install() async throws -> String {
    let bench = try InstallBench()
    try await bench.installation.install(Desk.path(Desk.Form()), InstallBench.unsigned)
    return bench.folder
  }

  static func open(
    _ folder: String,
    isolation: Isolation = .runner,
    restartLimit: Int = 1_000
  ) async throws -> InstalledDesk {
    let reports = Reports()
    var options = InstalledPlugins.Options()
    options.isolation = isolation
    options.onReport = { reports.add($0) }
    options.configure = { environment in
      environment.copies = folder + "/copies"
      environment.retiredLimit = .max
      environment.runner = Place.program
    }
    let plugins = try await InstalledPlugins.load(
      from: PluginInstallation(folder: folder + "/plugins"),
      options
    )
    let harness = try await Harness.open(
      .sqlite(at: folder + "/store.sqlite"),
      models: Desk.model(),
      extensions: plugins.extensions,
      settings: {
        var settings = HarnessSettings()
        settings.restartLimit = restartLimit
        return settings
      },
      onReport: { reports.add($0) }
    )
    try plugins.attach(to: harness)
    let root = try await harness.root()
    try await root.configure(.init(model: ScriptedModel.reference))
    return InstalledDesk(plugins: plugins, harness: harness, root: root, reports: reports)
  }

  func close() async throws {
    try await harness.close()
    await plugins.close()
  }

  /// Creates a task in the background with a script.
  func job(_ script: JSON) async throws -> TaskID {
    let step: JSON = [
      "do": "task.create", "as": "job", "type": "desk.job", "owner": "conversation",
      "input": ["script": script], "background": true,
    ]
    let call: JSON = ["tool": "run", "arguments": ["ops": [Desk.commit(step)]]]
    // A script that ends the process takes the call along that made the task.
    _ = try await root.submit(call.compactText).wait()
    let page = PageRequest(limit: 1, order: .descending)
    let tasks = try await harness.reader.reads.scanTasks(TaskQuery(kind: "desk.job"), page)
    return try #require(tasks.items.first?.id)
  }

  /// Returns when a task is blocked for a reason.
  func isBlocked(_ id: TaskID, _ reason: String) async {
    while !harness.obstacles.contains(where: { $0.task.id == id && $0.reason == reason }) {
      await Task.yield()
    }
  }

  func uninstallError(_ removal: PluginRemoval) async -> PerdureError? {
    do {
      _ = try await plugins.uninstall(Self.id, removal)
      return nil
    } catch {
      return error as? PerdureError
    }
  }
}

/// Plugins that nobody runs because they did harm, and what becomes of their tasks.
@Suite(.timeLimit(.minutes(5))) struct QuarantineTests {
  private static let done: JSON = [
    "state": ["status": "terminal", "outcome": ["status": "completed"]]
  ]

  private static let asleep: JSON = [
    "first": [
      "complete": [
        "state": [
          "status": "sleeping", "until": 9_000_000_000_000, "checkpoint": ["phase": "second"],
        ]
      ]
    ],
    "abort": ["complete": done],
  ]

  private static func crashing(unless path: String) -> JSON {
    let crash: JSON = ["op": "crash", "input": ["unless": .string(JSONString(path))]]
    return ["first": ["ops": [crash], "complete": done]]
  }

  @Test func `a task whose process dies is tried again later and comes to its end`() async throws {
    let folder = try await InstalledDesk.install()
    let desk = try await InstalledDesk.open(folder)
    let flag = folder + "/flag"
    let id = try await desk.job(Self.crashing(unless: flag))
    while desk.reports.messages("plugin_died").count < 2 { await Task.yield() }
    try Data().write(to: URL(filePath: flag))
    let record = try await desk.harness.waitForTask(id)
    #expect(record.state.outcome?.isCompleted == true)
    #expect(desk.reports.messages("plugin_quarantined").isEmpty)
    try await desk.close()
  }

  @Test func `a quarantine outlives the host, blocks tasks, and ends when it is enabled`()
    async throws
  {
    let folder = try await InstalledDesk.install()
    let flag = folder + "/flag"
    var desk = try await InstalledDesk.open(folder)
    let id = try await desk.job(Self.crashing(unless: flag))
    await desk.isBlocked(id, "plugin_down")
    // It was cut off with each death, and not any more after the last one.
    let restarts = try #require(try await desk.harness.task(id)?.restarts)
    #expect(restarts <= Int64(RestartPace.deathLimit))
    try await desk.close()

    let installation = PluginInstallation(folder: folder + "/plugins")
    let reason = "its process died 5 times within 10 minutes"
    #expect(try installation.plugin(InstalledDesk.id).quarantine == reason)
    desk = try await InstalledDesk.open(folder)
    #expect(desk.reports.messages("plugin_quarantined").first?.contains(reason) == true)
    #expect(desk.reports.messages("plugin_died").isEmpty)
    try await desk.harness.resume()
    await desk.isBlocked(id, "plugin_down")
    #expect(try await desk.harness.task(id)?.restarts == restarts)

    try Data().write(to: URL(filePath: flag))
    _ = try await desk.plugins.enable(InstalledDesk.id)
    #expect(try installation.plugin(InstalledDesk.id).quarantine == nil)
    let record = try await desk.harness.waitForTask(id)
    #expect(record.state.outcome?.isCompleted == true)
    try await desk.close()
  }

  @Test func `an abort of a task waits for a plugin that is down`() async throws {
    let folder = try await InstalledDesk.install()
    var desk = try await InstalledDesk.open(folder)
    let id = try await desk.job(Self.asleep)
    await desk.harness.waitUntilQuietForTests(id)
    try await desk.close()

    var options = InstalledPlugins.Options()
    options.suspects = [InstalledDesk.id: "it was caught in the act"]
    options.configure = { $0.copies = folder + "/copies" }
    let installation = PluginInstallation(folder: folder + "/plugins")
    let plugins = try await InstalledPlugins.load(from: installation, options)
    let harness = try await Harness.open(
      .sqlite(at: folder + "/store.sqlite"),
      models: Desk.model(),
      extensions: plugins.extensions
    )
    try await harness.resume()
    let abort = Task { try await harness.abortTask(id) }
    while harness.obstacles.first?.reason != "plugin_down" { await Task.yield() }
    #expect(try await harness.task(id)?.isLive == true)
    try await harness.close()
    _ = await abort.result
    await plugins.close()
    #expect(try installation.plugin(InstalledDesk.id).quarantine == "it was caught in the act")

    desk = try await InstalledDesk.open(folder)
    _ = try await desk.plugins.enable(InstalledDesk.id)
    try await desk.harness.resume()
    #expect(try await desk.harness.waitForTask(id).state.outcome?.isCompleted == true)
    try await desk.close()
  }

  // MARK: Removal

  @Test(arguments: [PluginRemoval.refuse, .drain])
  func `a plugin that live tasks need is not removed, and they are listed`(
    _ removal: PluginRemoval
  ) async throws {
    let folder = try await InstalledDesk.install()
    let desk = try await InstalledDesk.open(folder, isolation: .inProcess)
    let id = try await desk.job(Self.asleep)
    await desk.harness.waitUntilQuietForTests(id)
    let error = await desk.uninstallError(removal)
    #expect(error?.code == .pluginInUse)
    #expect(error?.message == "the plugin test.desk is needed by the task \(id) (desk.job)")
    #expect(error?.details?["tasks"] == [["id": id.json, "kind": "desk.job"]])
    #expect(try desk.plugins.list().count == 1)
    try await desk.close()
  }

  @Test func `a parked task keeps its plugin`() async throws {
    let folder = try await InstalledDesk.install()
    let desk = try await InstalledDesk.open(folder, restartLimit: 2)
    let id = try await desk.job(Self.crashing(unless: folder + "/never"))
    await desk.isBlocked(id, "restart_limit")
    let error = await desk.uninstallError(.refuse)
    #expect(error?.details?["tasks"] == [["id": id.json, "kind": "desk.job"]])
    try await desk.close()
  }

  @Test func `a plugin that is forced out leaves its tasks until it is back`() async throws {
    let folder = try await InstalledDesk.install()
    let desk = try await InstalledDesk.open(folder, isolation: .inProcess)
    let gate = try Gate()
    let (asleep, running) = (
      try await desk.job(Self.asleep),
      try await desk.job(["first": ["ops": [gate.step], "complete": Self.done]])
    )
    await desk.harness.waitUntilQuietForTests(asleep)
    try await gate.reached()
    let change = try await desk.plugins.uninstall(InstalledDesk.id, .force)
    #expect(Set(change.blockedTasks) == [asleep, running])
    // It is given up when its grace is over.
    await desk.isBlocked(running, "missing_task")
    try await gate.open()
    #expect(try await desk.harness.task(asleep)?.isLive == true)
    try await desk.plugins.install(Desk.path(Desk.Form()), InstallBench.unsigned)
    try await gate.reached()
    try await gate.open()
    #expect(try await desk.harness.waitForTask(running).state.outcome?.isCompleted == true)
    try await desk.close()
  }

  @Test func `a disabled plugin says which tasks it blocks`() async throws {
    let folder = try await InstalledDesk.install()
    let desk = try await InstalledDesk.open(folder, isolation: .inProcess)
    let id = try await desk.job(Self.asleep)
    await desk.harness.waitUntilQuietForTests(id)
    #expect(try await desk.plugins.disable(InstalledDesk.id).blockedTasks == [id])
    try await desk.close()
  }
}
