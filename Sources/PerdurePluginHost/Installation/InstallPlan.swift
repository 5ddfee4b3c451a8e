package import PerdureModel
import PerdureValue

/// What an operator says about a plugin that is installed; what is absent stays as it is.
package struct InstallOptions: Sendable {
  package var isPinned: Bool?
  package var isRequired: Bool?
  package var isolation: String?
  package var state: InstalledRecord.State?
  /// Whether an upgrade may lead to an older version.
  package var allowsDowngrade = false

  /// Makes options that change nothing.
  package init() {}

  func apply(to record: inout InstalledRecord) {
    if let isPinned { record.isPinned = isPinned }
    if let isRequired { record.isRequired = isRequired }
    if let isolation { record.isolation = isolation }
    if let state { record.state = state }
    // Whoever enables a plugin wants it, whatever it did.
    if state == .enabled { record.quarantine = nil }
  }
}

/// What is to become of one id: what it is now, and what it will be.
package struct InstallPlan: Sendable {
  package var id: String
  package var before: InstalledRecord?
  package var after: InstalledRecord?
  /// The files of a version that is not installed yet.
  package var staged: StagedPlugin?

  /// Whether there is nothing to do.
  package var isDone: Bool { before == after && staged == nil }

  /// A plan that leaves the folder as it is.
  package static func unchanged(_ id: String) -> InstallPlan { InstallPlan(id: id) }
}

extension InstallationFolder {
  /// Plans the first installation of a plugin.
  package func planInstall(
    _ staged: StagedPlugin,
    _ options: InstallOptions
  ) throws(PerdureError) -> InstallPlan {
    let id = staged.description.manifest.id
    let before = try read()[id]
    if let before, before.release != staged.release {
      throw PerdureError(
        .pluginRefused,
        "the plugin \(id) is installed already, as version \(before.release.version)",
        hint: "run `perdure plugin upgrade` to replace it"
      )
    }
    var after = before ?? InstalledRecord(id: id, release: staged.release)
    options.apply(to: &after)
    try Self.checkPlace(of: after, staged)
    return InstallPlan(id: id, before: before, after: after, staged: staged)
  }

  /// Plans another version of an installed plugin.
  package func planUpgrade(
    _ staged: StagedPlugin,
    _ options: InstallOptions
  ) throws(PerdureError) -> InstallPlan {
    let id = staged.description.manifest.id
    let before = try installed(id)
    let (old, new) = (before.release.version, staged.release.version)
    guard !(Version(new) < Version(old)) || options.allowsDowngrade else {
      throw PerdureError(
        .pluginRefused,
        "version \(new) of the plugin \(id) is older than \(old), which is installed",
        hint: "use `perdure plugin rollback \(id)`, or add --allow-downgrade"
      )
    }
    var after = before
    if before.release != staged.release {
      after.previous = before.release
      after.release = staged.release
      after.quarantine = nil
    }
    options.apply(to: &after)
    try Self.checkPlace(of: after, staged)
    return InstallPlan(id: id, before: before, after: after, staged: staged)
  }

  /// Plans the way back to the version before, which may be taken again.
  package func planRollback(_ id: String) throws(PerdureError) -> InstallPlan {
    let before = try installed(id)
    guard let previous = before.previous else {
      throw PerdureError(
        .pluginRefused,
        "there is no version of the plugin \(id) before \(before.release.version)",
        hint: "install the version you want with `perdure plugin upgrade FILE --allow-downgrade`"
      )
    }
    if let problem = problem(of: id, previous) {
      throw PerdureError(
        .pluginRefused,
        "version \(previous.version) of the plugin \(id) is not what was installed",
        hint: "install it with `perdure plugin upgrade FILE --allow-downgrade`",
        cause: problem
      )
    }
    var after = before
    after.release = previous
    after.previous = before.release
    after.quarantine = nil
    return InstallPlan(id: id, before: before, after: after)
  }

  /// Plans other choices for an installed plugin.
  package func planChange(
    _ id: String,
    _ options: InstallOptions
  ) throws(PerdureError) -> InstallPlan {
    let before = try installed(id)
    var after = before
    options.apply(to: &after)
    if after.state == .disabled { try Self.checkRemovable(before, after, "disabled") }
    return InstallPlan(id: id, before: before, after: after)
  }

  /// Plans that nobody runs a plugin until it is enabled; `nil` if another version is installed now.
  package func planQuarantine(
    _ id: String,
    _ release: InstalledRelease,
    _ reason: String
  ) throws(PerdureError) -> InstallPlan? {
    guard let before = try read()[id], before.release == release else { return nil }
    var after = before
    after.quarantine = String(reason.prefix(1_000))
    return InstallPlan(id: id, before: before, after: after)
  }

  /// Plans the removal of a plugin.
  package func planUninstall(_ id: String) throws(PerdureError) -> InstallPlan {
    let before = try installed(id)
    try Self.checkRemovable(before, before, "uninstalled")
    return InstallPlan(id: id, before: before, after: nil)
  }

  /// Carries a plan out; throws and changes nothing if it does not fit what is installed any more.
  package func commit(_ plan: InstallPlan) async throws {
    if plan.isDone { return }
    try await replace(
      plan.id,
      expecting: plan.before,
      with: plan.after,
      staged: plan.staged
    ) { file in
      guard let after = plan.after, after.state == .enabled else { return }
      try checkConflicts(after, plan.staged?.description.manifest, file)
    }
  }

  /// Gives the record of an installed plugin; throws `notFound` for another id.
  package func installed(_ id: String) throws(PerdureError) -> InstalledRecord {
    let file = try read()
    if let record = file[id] { return record }
    let known = file.plugins.map(\.id)
    throw PerdureError(
      .notFound,
      "the plugin \(id) is not installed",
      hint: known.isEmpty
        ? "install it with `perdure plugin install FILE`"
        : "installed are \(known.prefix(20).joined(separator: ", "))"
    )
  }

  /// Throws if a plugin that runs in the process of the host alone would not get there.
  private static func checkPlace(
    of record: InstalledRecord,
    _ staged: StagedPlugin
  ) throws(PerdureError) {
    guard staged.description.manifest.execution.mode == .inProcess else { return }
    if record.isolation == "in-process" { return }
    let isTrusted = record.isolation != "runner" && record.release.signer != nil
    guard !isTrusted else { return }
    throw PerdureError(
      .pluginRefused,
      "the plugin \(record.id) must run in the process of the host, but "
        + (record.isolation == "runner"
          ? "is to get one of its own" : "one that nobody has signed gets one of its own"),
      hint: "give --isolation in-process if you trust it"
    )
  }

  private static func checkRemovable(
    _ before: InstalledRecord,
    _ after: InstalledRecord,
    _ what: String
  ) throws(PerdureError) {
    for (name, isSet) in [("required", after.isRequired), ("pinned", after.isPinned)] where isSet {
      throw PerdureError(
        .pluginRefused,
        "the plugin \(before.id) is \(name) and cannot be \(what)",
        hint: "run `perdure plugin enable \(before.id) --not-\(name)` before"
      )
    }
  }

  /// Throws if an enabled plugin registers what this one does.
  private func checkConflicts(
    _ record: InstalledRecord,
    _ staged: Manifest?,
    _ file: LockFile
  ) throws(PerdureError) {
    let path = library(of: record.id, record.release)
    let manifest: Manifest
    if let staged {
      manifest = staged
    } else {
      manifest = try PluginFiles.examine(path: path).description.manifest
    }
    var others: [Manifest] = []
    for other in file.plugins where other.id != record.id && other.state == .enabled {
      // One that is damaged is not loaded, and so is in nobody's way.
      let found = try? PluginFiles.examine(path: library(of: other.id, other.release))
      if let found { others.append(found.description.manifest) }
    }
    try PluginFiles.checkConflicts(of: manifest, with: others, path)
  }
}
