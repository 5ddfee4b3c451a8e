import PerdureModel
package import PerdureValue
import Synchronization

/// One thing that a plugin found out about itself.
package struct PluginCheck: Sendable, Equatable {
  package var name: String
  package var isGood: Bool
  package var message: String?

  /// Makes a check.
  package init(name: String, isGood: Bool, message: String? = nil) {
    self.name = name
    self.isGood = isGood
    self.message = message
  }
}

/// What a plugin says about its health.
package struct PluginHealth: Sendable, Equatable {
  package enum Status: String, Sendable, CaseIterable { case ok, warn, fail }

  package var status: Status
  package var message: String?
  package var hint: String?
  package var data: JSON?
}

/// What one version of a plugin hands to the next.
package struct PluginSnapshot: Sendable, Equatable {
  /// The version of the form, as the manifest states it.
  package var version: Int
  package var state: JSON

  /// Makes a snapshot.
  package init(version: Int, state: JSON) {
    self.version = version
    self.state = state
  }
}

/// Why a plugin is asked to test itself.
package enum SelfTestReason: String, Sendable { case install, upgrade, check }

/// Calls that belong to no conversation.
extension LoadedPlugin {
  /// The greatest state of a snapshot, in bytes.
  package static let snapshotLimit = 4 << 20

  private static let standardMs = 10_000
  private static let selfTestMs = 30_000
  private static let healthMs = 5_000

  /// Gives the plugin its settings and takes them over; what it refuses them with is thrown, and
  /// then the old ones stay.
  package func tellSettings(
    _ settings: JSONObject? = nil,
    isFirst: Bool = false
  ) async throws {
    let (current, revision) = core.settingsState.withLock { ($0.members, $0.revision) }
    let wanted = settings ?? current
    try check(settings: wanted)
    let next = isFirst ? revision : revision + 1
    _ = try await call(
      "settings.changed",
      [
        "settings": .object(wanted), "revision": .int(Int64(next)),
        "reason": isFirst ? "initial" : "changed",
      ],
      Self.standardMs
    ) { (_) throws(BorderProblem) in }
    core.settingsState.withLock { $0 = (wanted, next) }
  }

  private func check(settings: JSONObject) throws {
    guard let schema = description.manifest.settings?.schema else { return }
    let violations = try JSONSchema(compiling: schema).validate(.object(settings))
    guard let first = violations.first else { return }
    throw PerdureError(
      .invalidConfiguration,
      "the settings of plugin \(id) do not fit its schema: \(first)",
      hint: "change the settings of \(id)"
    )
  }

  /// Lets the plugin test itself; a plugin without tests gives none.
  package func selfTest(_ reason: SelfTestReason) async throws -> [PluginCheck] {
    do {
      return try await call("selftest", ["reason": .string(reason.rawValue)], Self.selfTestMs) {
        (object) throws(BorderProblem) in
        var reader = FieldReader(object)
        let checks = try reader.objects("checks") { reader throws(BorderProblem) in
          PluginCheck(
            name: try reader.required("name", reader.string("name")),
            isGood: try reader.required("ok", reader.bool("ok")),
            message: try reader.string("message")
          )
        }
        try reader.finish()
        return checks
      }
    } catch let error as PerdureError
      where error.code == .unsupportedFeature
      || error.details?["code"]?.int == Int64(BorderCode.unsupported.rawValue)
    {
      return []
    }
  }

  /// Asks for one of the checks that the manifest names; a plugin that fails to answer is unwell.
  package func health(_ check: String) async -> PluginHealth {
    do {
      return try await call("health", ["check": .string(check)], Self.healthMs) {
        (object) throws(BorderProblem) in
        var reader = FieldReader(object)
        let health = PluginHealth(
          status: try reader.required(
            "status",
            reader.word("status", as: PluginHealth.Status.self)
          ),
          message: try reader.string("message"),
          hint: try reader.string("hint"),
          data: reader.any("data")
        )
        try reader.finish()
        return health
      }
    } catch {
      let message = (error as? PerdureError)?.description ?? "\(error)"
      return PluginHealth(status: .fail, message: message)
    }
  }

  /// Asks for what the next version takes over; `nil` if the manifest promises nothing.
  package func snapshot() async throws -> PluginSnapshot? {
    guard let version = description.manifest.state?.version else { return nil }
    return try await call("snapshot", ["reason": "upgrade"], Self.standardMs) {
      (object) throws(BorderProblem) in
      var reader = FieldReader(object)
      let snapshot = PluginSnapshot(
        version: try reader.required("version", reader.integer("version", in: 0...1 << 31)),
        state: try reader.required("state", reader.any("state"))
      )
      try reader.finish()
      guard snapshot.version == version else {
        throw .shape("a version other than \(version), which its manifest names", at: "/version")
      }
      guard snapshot.state.encoded.count <= Self.snapshotLimit else {
        throw .tooLarge(limit: Self.snapshotLimit)
      }
      return snapshot
    }
  }

  /// Gives the plugin what the version before it left.
  ///
  /// Throws `plugin_refused` if the manifest does not name the version of the snapshot.
  package func restore(_ snapshot: PluginSnapshot, from plugin: String) async throws {
    guard description.manifest.state?.restores.contains(snapshot.version) == true else {
      throw PerdureError(
        .pluginRefused,
        "plugin \(id) \(description.manifest.version) does not restore the state version"
          + " \(snapshot.version) of \(plugin)",
        hint: "use a version of the plugin that does"
      )
    }
    try await call(
      "restore",
      [
        "fromVersion": .string(plugin), "version": .int(Int64(snapshot.version)),
        "state": snapshot.state,
      ],
      Self.standardMs
    ) { (_) throws(BorderProblem) in }
  }

  /// Makes a call that belongs to no conversation.
  private func call<Value: Sendable>(
    _ target: String,
    _ members: JSONObject,
    _ deadlineMs: Int,
    decode: @escaping @Sendable (JSONObject) throws(BorderProblem) -> Value
  ) async throws -> Value {
    let input = ContributionMessage.encoded(core, now: core.environment.clock.now()) {
      $0.members(of: members)
    }
    let caller = ContributionCaller(
      core: core,
      code: code,
      kind: .plugin,
      target: Immortals.name(target),
      label: target,
      times: CallTimes(deadlineMs: deadlineMs, description.manifest.execution)
    )
    return try await caller.call(input, CallPlace(), decode: decode)
  }
}
