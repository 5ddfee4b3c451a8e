import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureValue
import Synchronization

/// Two versions of a plugin that take each other's place, with and without calls under way.
///
/// The plugin has one tool without required arguments, such as `Tests/Fixtures/Plugins/versions.c`.
struct Upgrades: Sendable {
  /// How many are made while nothing else happens.
  private static let quiet = 64
  /// A conversation is deleted after so many prompts, so that its history costs nothing.
  private static let prompts = 20

  private let arguments: Arguments
  private let calibration: Calibration
  private let plugins: InstalledPlugins
  private let harness: Harness
  private let watch: Watch

  /// What goes wrong, and how many copies may be mapped.
  private final class Watch: Sendable {
    let problems = Mutex<[String]>([])
    let calls = Atomic(0)
    let failed = Atomic(0)
    let limit = Mutex(Int.max)
    let isDone = Atomic(false)

    func fail(_ what: String) {
      failed.wrappingAdd(1, ordering: .relaxed)
      report(what)
    }

    func report(_ what: String) {
      problems.withLock { if $0.count < 10 { $0.append(what) } }
    }
  }

  static func run(_ arguments: Arguments) async throws {
    guard !arguments.plugin.isEmpty, !arguments.next.isEmpty else {
      throw Arguments.wrong("upgrades needs --plugin and --next with two versions of one plugin")
    }
    let calibration = try Calibration(in: arguments.folder)
    let upgrades = try await open(arguments, calibration)
    try await upgrades.makeQuietly()
    try await upgrades.makeUnderLoad()
    if !upgrades.isIsolated { try await upgrades.reachTheLimit() }
    try await upgrades.close()
  }

  private var isIsolated: Bool { arguments.mode == "runner" }

  // MARK: Set-up

  private static let unsigned: PluginChoices = {
    var choices = PluginChoices()
    choices.allowsUnsigned = true
    choices.allowsDowngrade = true
    return choices
  }()

  private static func open(
    _ arguments: Arguments,
    _ calibration: Calibration
  ) async throws -> Upgrades {
    let watch = Watch()
    let folder = arguments.folder + "/upgrades-\(Machine.now)"
    var options = InstalledPlugins.Options()
    options.isolation = arguments.mode == "runner" ? .runner : .inProcess
    options.onReport = { report in
      // A thread that waits for a processor is no fault of a plugin.
      if report.type == "plugin_log" || report.type == "plugin_slow_start" { return }
      watch.report("\(report.type): \(report.message)")
    }
    options.configure = { environment in
      environment.copies = folder + "/loaded"
      environment.retiredLimit = watch.limit.withLock { $0 }
    }
    let installation = PluginInstallation(folder: folder + "/plugins")
    try await installation.install(arguments.plugin, unsigned)
    let plugins = try await InstalledPlugins.load(from: installation, options)
    guard let tool = plugins.extensions.first?.tools.first?.name else {
      throw Arguments.wrong("the plugin of upgrades has no tool")
    }
    let harness = try await Harness.open(
      .memory,
      models: WatchedModel(base: BenchModel(calls: 1, stamps: nil, tool: JSONString(tool))) {
        watch.fail($0)
      },
      extensions: plugins.extensions,
      pinned: plugins.pinned,
      onReport: { watch.report("\($0.type): \($0.message)") }
    )
    try plugins.attach(to: harness)
    return Upgrades(
      arguments: arguments,
      calibration: calibration,
      plugins: plugins,
      harness: harness,
      watch: watch
    )
  }

  private func upgrade(_ number: Int) async throws {
    let path = number.isMultiple(of: 2) ? arguments.plugin : arguments.next
    _ = try await plugins.upgrade(path, Self.unsigned)
  }

  // MARK: Parts

  /// From the installation of a version to the answer of its first call, and what the old ones leave.
  private func makeQuietly() async throws {
    // What is made once is no part of a copy.
    for number in 1...8 { try await makeOne(number) }
    let before = (Machine.anonymousKibibytes, RetiredCopies.memory)
    var times: [Double] = []
    for number in 1...Self.quiet { times.append(try await makeOne(number)) }
    let (after, copies) = (Machine.anonymousKibibytes, RetiredCopies.memory)
    var line = ResultLine("upgrades", peer: "perdure install to first call, \(place)")
    line.set("ms_p50", percentile(times, 50))
    line.set("ms_max", times.max() ?? 0)
    line["target_ms"] = 20
    line["copies_mapped"] = .int(Int64(copies.copies))
    let kibibytes = Double(after - before.0) / Double(Self.quiet)
    line.set("kib_per_upgrade", kibibytes)
    let mapped = copies.anonymous - before.1.anonymous
    let count = max(1, copies.copies - before.1.copies)
    line.set("kib_in_its_mappings", Double(mapped) / 1_024 / Double(count))
    line.print(calibration)
  }

  private var place: String { isIsolated ? "runner" : "in process" }

  @discardableResult private func makeOne(_ number: Int) async throws -> Double {
    let begin = Machine.now
    try await upgrade(number)
    guard let tool = plugins.extensions.first?.tools.first else {
      throw PerdureError(.pluginFault, "the plugin of the benchmark is gone")
    }
    _ = try await tool.execute(Self.call)
    let time = milliseconds(Machine.now - begin)
    await plugins.waitUntilDrained()
    return time
  }

  private static var call: ToolCall {
    ToolCall(
      callId: "call_0",
      conversationId: .root,
      taskId: BenchCallHost.task,
      arguments: [:],
      replay: .safe,
      recovered: false,
      outputWindow: nil,
      deadline: Machine.now + 60_000_000_000,
      host: BenchCallHost()
    )
  }

  /// Upgrades while prompts call the tool.
  private func makeUnderLoad() async throws {
    let count = arguments.count ?? 1_000
    let begin = Machine.now
    var times: [Double] = []
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<arguments.width {
        group.addTask { while !watch.isDone.load(ordering: .relaxed) { try await prompts() } }
      }
      for number in 1...max(1, count) {
        let start = Machine.now
        try await upgrade(number)
        times.append(milliseconds(Machine.now - start))
      }
      watch.isDone.store(true, ordering: .relaxed)
      try await group.waitForAll()
    }
    await plugins.waitUntilDrained()
    var line = ResultLine("upgrades", peer: "perdure upgrades under load, \(place)")
    line["upgrades"] = .int(Int64(count))
    line["callers"] = .int(Int64(arguments.width))
    line["calls"] = .int(Int64(watch.calls.load(ordering: .relaxed)))
    line["failed"] = .int(Int64(watch.failed.load(ordering: .relaxed)))
    line.set("upgrade_ms_p50", percentile(times, 50))
    line.set("upgrade_ms_p99", percentile(times, 99))
    line.set("seconds", milliseconds(Machine.now - begin) / 1_000)
    line["copies_mapped"] = .int(Int64(RetiredCopies.all.count))
    line.print(calibration)
  }

  /// Asks in a conversation of its own, some times, and deletes it.
  private func prompts() async throws {
    let conversation = try await harness.createConversation(
      agent: .init(model: BenchModel.reference)
    )
    for _ in 0..<Self.prompts {
      let record = try await conversation.submit("?").wait()
      watch.calls.wrappingAdd(1, ordering: .relaxed)
      if record.status != .done { watch.fail(record.json.compactText) }
    }
    // Else the store, which is in memory, would grow with every call.
    try await conversation.delete()
  }

  /// What a host says that has as many closed copies as it may have, and whether it goes on.
  private func reachTheLimit() async throws {
    watch.limit.withLock { $0 = RetiredCopies.all.count }
    var line = ResultLine("upgrades", peer: "perdure at the limit of closed copies")
    do {
      try await upgrade((arguments.count ?? 1_000) + 1)
      watch.fail("an upgrade beyond the limit was not refused")
    } catch {
      line["refusal"] = .string(JSONString("\(error)"))
    }
    try await prompts()
    line["failed"] = .int(Int64(watch.failed.load(ordering: .relaxed)))
    line.print(calibration)
  }

  private func close() async throws {
    try await harness.close()
    for problem in await plugins.close() { watch.report(problem) }
    let problems = watch.problems.withLock { $0 }
    guard problems.isEmpty else {
      throw PerdureError(
        .pluginFault,
        "not all went well while plugins changed",
        cause: problems.joined(separator: "; ")
      )
    }
  }
}

/// A model that looks at the results of its calls before it goes on.
private struct WatchedModel: ModelProvider {
  let base: BenchModel
  let onFailure: @Sendable (String) -> Void

  func model(_ reference: ModelReference) -> ModelInfo? { base.model(reference) }

  func stream(_ request: ModelRequest) -> any ModelStream {
    if let last = request.messages.last, last["role"]?.text == "toolResult",
      last["isError"]?.bool == true
    {
      onFailure(last.compactText)
    }
    return base.stream(request)
  }
}
