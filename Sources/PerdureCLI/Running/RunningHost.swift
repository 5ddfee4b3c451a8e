import Perdure
import PerdureModel
import PerdureValue
import Synchronization

/// An open harness with its plugins, and what it came to.
final class RunningHost: Sendable {
  /// Why there is nothing to wait for any more.
  enum End: Sendable {
    /// The submission that was waited for is settled.
    case settled(SubmissionRecord)
    /// Nothing runs and nothing can run.
    case quiet
    /// Another command asked for it.
    case asked
    case signal(Int32)
    case failed(PerdureError)
  }

  private struct State {
    var awaited: SubmissionID?
    var settled: [SubmissionRecord] = []
    var outputs = OutputFollower()
  }

  private let denials: DenialCount

  let harness: Harness
  let end: OneEvent<End>
  private let plugins: [Plugin]
  /// The installed plugins; absent if none are loaded and none can be.
  let installed: InstalledPlugins?
  private let reporter: Reporter
  /// What tools may reach; absent if they have no files.
  private let environment: WorkingFolder?
  private let state = Mutex(State())
  /// What it does about calls that need an approval.
  let approvals: ApprovalMode
  private let isClosed = Flag()
  private let control = Mutex<ControlServer?>(nil)

  private init(
    harness: Harness,
    plugins: [Plugin],
    installed: InstalledPlugins?,
    reporter: Reporter,
    environment: WorkingFolder?,
    end: OneEvent<End>,
    approvals: ApprovalMode,
    denials: DenialCount
  ) {
    self.approvals = approvals
    self.denials = denials
    self.harness = harness
    self.plugins = plugins
    self.installed = installed
    self.reporter = reporter
    self.environment = environment
    self.end = end
  }

  /// Loads the plugins and lets the store go on with them; nothing runs yet.
  ///
  /// If that fails, everything is closed again, the store included.
  static func open(
    _ store: OpenStore,
    _ record: RunRecord,
    models: any ModelProvider,
    approvals: ApprovalMode,
    reporter: Reporter
  ) async throws -> RunningHost {
    let denials = DenialCount()
    var plugins: [Plugin] = []
    var installed: InstalledPlugins?
    let end = OneEvent<End>()
    // What is reported after a failure only follows from it.
    let hasFailed = Flag()
    let onReport: @Sendable (Report) -> Void = { report in
      if report.type == "session_failed" {
        hasFailed.set()
        end.fire(.failed(report.error ?? PerdureError(.sessionFailed, report.message)))
      } else if !hasFailed.isSet {
        if report.type == "approval_denied" { denials.add() }
        reporter.report(report)
      }
    }
    do {
      // Plugins may also be installed while it runs.
      if !record.extensions.isEmpty || record.pluginFolder != nil || reporter.verb == "serve" {
        // What plugins print must not end up between answers or events.
        try HostText.guardOutput()
        try SignalWatch.watchPlugins(reporter)
      }
      for file in record.plugins {
        if let target = PluginCrashes.culprit(file.id) {
          let sentence = PluginCrashes.sentence(file, target)
          onReport(Report(type: "plugin_quarantined", message: sentence, extensionName: file.id))
          plugins.append(
            try Plugin.quarantined(
              path: file.path,
              PluginCrashes.reason(target),
              onReport: onReport
            )
          )
          continue
        }
        let plugin = try await Plugin.load(
          path: file.path,
          isolation: record.isolation,
          secret: record.secret,
          onMetric: { reporter.measure($0) },
          onReport: onReport
        )
        plugins.append(plugin)
        guard plugin.digest == file.digest else {
          throw PerdureError(
            .pluginRefused,
            "the plugin \(file.path) was changed while it was loaded",
            hint: "run it again"
          )
        }
        for warning in plugin.warnings { reporter.warn("warning: plugin \(file.id): \(warning)") }
      }
      installed = try await Self.installed(record, beside: plugins, reporter, onReport)
      let environment = try record.workingDirectory.map {
        try WorkingFolder($0, record.sandbox, withholding: record.secretVariables)
      }
      let extensions =
        (environment?.extensions ?? []).map { Self.contribution($0, record) }
        + (installed?.extensions ?? [])
        + plugins.map { Self.contribution($0.contribution, record) }
      Self.warnOfUnknownTools(record, extensions, reporter)
      let (maxRetries, limits) = (record.maxRetries, record.limits)
      let harness = try await Harness.open(
        .opened(store),
        models: models,
        extensions: extensions,
        pinned: installed?.pinned ?? [],
        settings: {
          var settings = HarnessSettings()
          if let maxRetries { settings.maxRetries = maxRetries }
          settings.maxTurns = limits.turns
          settings.runBudget.tokens = limits.tokens
          settings.approvals = approvals.setting
          return settings
        },
        environment: environment?.choice,
        onReport: onReport
      )
      try installed?.attach(to: harness)
      for plugin in plugins { Self.follow(plugin, record, harness, onReport) }
      let host = RunningHost(
        harness: harness,
        plugins: plugins,
        installed: installed,
        reporter: reporter,
        environment: environment,
        end: end,
        approvals: approvals,
        denials: denials
      )
      SignalWatch.handle { end.fire(.signal($0)) }
      return host
    } catch {
      await installed?.close()
      for plugin in plugins { await plugin.close() }
      await store.close()
      throw error
    }
  }

  private static func installed(
    _ record: RunRecord,
    beside plugins: [Plugin],
    _ reporter: Reporter,
    _ onReport: @escaping @Sendable (Report) -> Void
  ) async throws -> InstalledPlugins? {
    guard let folder = record.pluginFolder else { return nil }
    var options = InstalledPlugins.Options()
    options.isolation = record.isolation == .auto ? nil : record.isolation
    options.others = plugins
    options.excluded = Set(record.plugins.map { $0.id })
    options.adapting = { Self.contribution($0, record) }
    options.onReport = onReport
    options.secret = record.secret
    options.onMetric = { reporter.measure($0) }
    let installation = PluginInstallation(folder: folder)
    options.suspects = try PluginCrashes.suspects(in: installation, record.isolation)
    return try await InstalledPlugins.load(from: installation, options)
  }

  /// Warns of tools that are to need an approval and that nobody brings.
  private static func warnOfUnknownTools(
    _ record: RunRecord,
    _ extensions: [Extension],
    _ reporter: Reporter
  ) {
    let known = Set(extensions.flatMap { $0.tools.map(\.name) })
    for name in record.approvedTools where !known.contains(name) {
      reporter.warn(
        "warning: no tool is called '\(name)', for which --require-approval asks for an approval"
      )
    }
  }

  /// Lets the harness have what a plugin registers while it runs.
  private static func follow(
    _ plugin: Plugin,
    _ record: RunRecord,
    _ harness: Harness,
    _ onReport: @escaping @Sendable (Report) -> Void
  ) {
    plugin.onRegistration { [weak harness] value in
      guard let harness else { return }
      do { try harness.install(contribution(value, record)) } catch {
        onReport(
          Report(type: "extension_error", message: "\(error)", extensionName: value.name)
        )
      }
    }
  }

  /// What a plugin brings, with the approvals that this run requires.
  private static func contribution(_ value: Extension, _ record: RunRecord) -> Extension {
    var value = value
    value.tools = value.tools.map { tool in
      var tool = tool
      if record.approvedTools.contains(where: { $0.utf8.elementsEqual(tool.name.utf8) }) {
        tool.approval = .required
      }
      return tool
    }
    return value
  }

  /// Writes the header line, reports each commit from here on, and takes requests of other commands.
  ///
  /// It goes on without a control socket if there can be none.
  func start(_ header: JSONObject, _ address: StoreAddress, _ record: RunRecord) {
    do throws(PerdureError) { try takeRequests(address, record) } catch {
      reporter.warn("warning: \(error)")
    }
    report(header)
  }

  /// Writes the header line, and reports each commit from here on.
  func report(_ header: JSONObject) {
    var header = header
    header["plugins"] = description
    if let environment {
      header["environment"] = environment.header
      reporter.progress(environment.line)
    }
    reporter.header(header)
    _ = harness.subscribe { [weak self] in self?.see($0) }
  }

  /// Keeps in the store what is enforced, for `perdure log`; nothing if that is what it has.
  func noteEnvironment() async throws {
    let known = try await harness.reader.extra(scope: WorkingFolder.scope, id: 0)
    guard let header = environment?.header ?? (known == nil ? nil : .null), header != known else {
      return
    }
    try await harness.setExtra(scope: WorkingFolder.scope, id: 0, header)
  }

  private func see(_ summary: CommitSummary) {
    for news in state.withLock({ $0.outputs.take(summary) }) {
      EventReport.write(news, to: reporter)
    }
    EventReport.write(summary, to: reporter)
    let settled = summary.submissions.filter { $0.isSettled }
    guard !settled.isEmpty else { return }
    let awaited = state.withLock { state in
      state.settled += settled
      return settled.first { $0.id == state.awaited }
    }
    if let awaited { end.fire(.settled(awaited)) }
  }

  /// The submissions that were settled since this host was opened.
  var settled: [SubmissionRecord] { state.withLock { $0.settled } }

  /// Ends the wait when this submission is settled.
  func await(_ id: SubmissionID) {
    let known = state.withLock { state in
      state.awaited = id
      return state.settled.first { $0.id == id }
    }
    if let known { end.fire(.settled(known)) }
  }

  /// Ends the wait when nothing can go on, after whoever sits at the terminal was asked.
  func awaitQuiet() {
    Task.detached { [harness, end, approvals, reporter] in
      while true {
        await harness.waitUntilQuiet()
        guard approvals == .ask, let pending = try? await harness.pendingApprovals(),
          !pending.isEmpty, await ApprovalPrompt.ask(pending, harness, reporter)
        else { break }
      }
      end.fire(.quiet)
    }
  }

  /// Why a run that ended otherwise well is none that a script should pass over, or `nil`.
  func denial(_ address: StoreAddress) -> PerdureError? { denials.error(address) }

  /// Aborts all work with everything below it, and returns when it has ended.
  func abortAll() async throws { try await harness.abortAll() }

  /// The ids of all that is loaded now, in order.
  var extensions: [String] {
    (environment == nil ? [] : [WorkingFolder.extensionName]) + (installed?.names ?? [])
      + plugins.map { $0.contribution.name }
  }

  /// What is loaded.
  var description: JSON {
    .array(
      (installed?.headers ?? [])
        + plugins.map {
          [
            "id": .string($0.contribution.name), "version": .string($0.contribution.version),
            "digest": .string($0.digest), "isolation": .string($0.isolation.rawValue),
          ]
        }
    )
  }

  /// Stops what runs, so that it can be continued, and releases the store.
  ///
  /// Only the first call does something.
  func close() async {
    if let error = await closeHarness() {
      reporter.warn("warning: the store was not closed cleanly: \(error)")
    }
  }

  /// Closes because of an error, and returns what is best known of it.
  func close(after error: any Error) async -> any Error {
    let other = await closeHarness()
    if let other, other.code == .sessionFailed { return other }
    if let other { reporter.warn("warning: the store was not closed cleanly: \(other)") }
    return error
  }

  /// Takes requests of other commands until it is closed.
  ///
  /// Throws `invalidConfiguration` if there can be no socket; a store in memory needs none.
  func takeRequests(_ address: StoreAddress, _ record: RunRecord) throws(PerdureError) {
    guard let path = address.controlPath else { return }
    let desk = ControlDesk(host: self, address: address, record: record)
    let server = try ControlServer(at: path, desk)
    control.withLock { $0 = server }
  }

  private func closeHarness() async -> PerdureError? {
    guard isClosed.set() else { return nil }
    control.withLock { control in
      control?.close()
      control = nil
    }
    var failure: PerdureError?
    do { try await harness.close() } catch {
      failure = error as? PerdureError ?? PerdureError(.storageFailed, "\(error)")
    }
    await environment?.close()
    for problem in await installed?.close() ?? [] { reporter.warn("warning: \(problem)") }
    for plugin in plugins {
      for problem in await plugin.close() { reporter.warn("warning: \(problem)") }
    }
    return failure
  }

  // MARK: Answers

  /// Returns the text of an answer.
  func answer(_ id: EntryID) async throws -> String {
    try await harness.reader.reads.entry(id)?.entry.text ?? ""
  }

  /// Returns whether a submission waits to be placed.
  func isQueued(_ id: SubmissionID) async throws -> Bool {
    try await harness.submission(id)?.status()?.status == .queued
  }

  /// Returns what became of submissions; the first one without an answer is the failure.
  func result(of records: [SubmissionRecord]) async throws -> HostResult {
    var answers: [JSON] = []
    var result = HostResult()
    for record in records where record.kind == .input {
      switch record.state {
      case .done(_, let answer?):
        answers.append([
          "submission": record.id.json, "conversation": record.conversationId.json,
          "entry": answer.json, "text": .string(try await self.answer(answer)),
        ])
      case .unanswered(let reason, let detail, _) where result.failure == nil:
        result.failure = try await failure(of: record, reason: reason, detail: detail)
      default: break
      }
    }
    result.members["answers"] = .array(answers)
    return result
  }

  /// Returns why a submission got no answer.
  func failure(
    of record: SubmissionRecord,
    reason: String,
    detail: JSON?
  ) async throws
    -> PerdureError
  {
    let noted = try await harness.reader.extra(scope: "failure", id: record.id.value)
    return Remedy.added(to: Unanswered.error(reason: reason, detail: detail, failure: noted))
  }

  /// Returns the live tasks that cannot go on, as sentences; for when nothing runs.
  func obstacles() async throws -> [String] {
    let tasks = try await harness.inspect().tasks
    let known = tasks.compactMap { task -> String? in
      guard case .blocked(let reason, _) = task.condition else { return nil }
      let why =
        switch reason {
        case "missing_task": "nothing that is loaded can run it"
        case "task_too_old": "a newer version started it"
        case "migration_failed": "its state cannot be brought to this version"
        case "plugin_down": "nobody runs the plugin that brings its code"
        case "restart_limit": "it was cut off too often in a row and is parked"
        default: reason
        }
      return Self.sentence(task.record, why)
    }
    if !known.isEmpty { return known }
    // Tasks that wait for each other, as only a damaged store has them.
    if tasks.contains(where: { Approval($0.record)?.status == .pending }) { return [] }
    return tasks.map { Self.sentence($0.record, "what it waits for cannot end") }
  }

  private static func sentence(_ task: TaskRecord, _ why: String) -> String {
    "task \(task.id) (\(task.kind.string)) of conversation \(task.conversationId): \(why)"
  }
}
