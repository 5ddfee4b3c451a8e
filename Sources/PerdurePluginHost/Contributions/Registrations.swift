import PerdureModel
import PerdureValue
import Synchronization

/// What a plugin has registered while it runs, beside its manifest.
struct Registrations: Sendable {
  static let limit = 256

  private(set) var tools: [ManifestTool] = []
  private(set) var sections: [ManifestSection] = []
  private(set) var hooks: [ManifestHook] = []
  /// Counts the changes.
  private(set) var revision = 0

  /// The manifest with what was registered.
  func applied(to manifest: Manifest) -> Manifest {
    var whole = manifest
    for tool in tools {
      whole.tools.removeAll { $0.name == tool.name }
      whole.tools.append(tool)
    }
    for section in sections {
      whole.sections.removeAll { $0.key == section.key }
      whole.sections.append(section)
    }
    whole.hooks += hooks
    return whole
  }

  /// Adds elements, each in the place of its namesake; throws if one is more than was asked for.
  mutating func add(
    tools newTools: [RegisteredTool],
    sections newSections: [ManifestSection],
    hooks newHooks: [ManifestHook],
    to manifest: Manifest
  ) throws(CallRefusal) {
    for registered in newTools {
      let tool = try Self.checked(registered, manifest)
      tools.removeAll { $0.name == tool.name }
      tools.append(tool)
    }
    for section in newSections {
      try Self.check(section, manifest)
      sections.removeAll { $0.key == section.key }
      sections.append(section)
    }
    for hook in newHooks {
      guard manifest.dynamic?.hooks == true, hook.role == .observer else {
        throw CallRefusal(
          .permission,
          "a hook of \(hook.point) is not among what may be registered"
        )
      }
      hooks.append(hook)
    }
    guard tools.count + sections.count + hooks.count <= Self.limit else {
      throw CallRefusal(.limit, "more than \(Self.limit) elements would be registered")
    }
    revision += 1
  }

  /// Takes elements back; names that were never registered are passed over.
  mutating func remove(tools names: [String], sections keys: [String], hooks points: [String]) {
    tools.removeAll { names.contains($0.name) }
    sections.removeAll { keys.contains($0.key) }
    hooks.removeAll { points.contains($0.point) }
    revision += 1
  }

  /// The tool as it will be: what is not said of a declared one is as declared.
  private static func checked(
    _ registered: RegisteredTool,
    _ manifest: Manifest
  ) throws(CallRefusal) -> ManifestTool {
    let tool = registered.tool
    if let declared = manifest.tools.first(where: { $0.name == tool.name }) {
      guard let changed = registered.changing(declared) else {
        throw CallRefusal(.permission, "the tool \(tool.name) was declared stricter than this")
      }
      return changed
    }
    guard fits(tool.name, manifest.dynamic?.tools), tool.replay == .unsafe, !tool.overrides else {
      throw CallRefusal(
        .permission,
        "the tool \(tool.name) is not among what the manifest says may be registered"
      )
    }
    return tool
  }

  private static func check(_ section: ManifestSection, _ manifest: Manifest) throws(CallRefusal) {
    if manifest.sections.contains(where: { $0.key == section.key }) { return }
    guard fits(section.key, manifest.dynamic?.sections) else {
      throw CallRefusal(
        .permission,
        "the section \(section.key) is not among what the manifest says may be registered"
      )
    }
  }

  private static func fits(_ name: String, _ pattern: String?) -> Bool {
    guard let pattern else { return false }
    return Grants.Patterns.some([pattern]).fits(name)
  }
}

/// A tool in the input of `register`.
struct RegisteredTool: Sendable {
  var tool: ManifestTool
  /// The names of the members that stand there.
  var members: Set<String>

  private static let changeable: Set<String> = [
    "name", "description", "parameters", "deferred", "callers", "deadlineMs", "wallMs", "graceMs",
    "maxConcurrency", "blocking", "inline", "must",
  ]

  /// What it makes of a tool that the manifest declares; `nil` if that must not be.
  ///
  /// Texts may change, and options and callers in the stricter direction; the rest may only be said
  /// again.
  func changing(_ declared: ManifestTool) -> ManifestTool? {
    let repeats: [String: Bool] = [
      "replay": tool.replay == declared.replay, "overrides": tool.overrides == declared.overrides,
      "prepare": tool.prepare == declared.prepare,
      "executionMode": tool.executionMode == declared.executionMode,
      "outputLimits": tool.outputLimits == declared.outputLimits,
      "structuredOutputSchema": tool.structuredOutputSchema == declared.structuredOutputSchema,
      "constrainedSampling": tool.constrainedSampling == declared.constrainedSampling,
    ]
    for member in members.subtracting(Self.changeable) where repeats[member] == false { return nil }
    var changed = declared
    changed.description = tool.description
    changed.parameters = tool.parameters
    if members.contains("deferred") { changed.deferred = tool.deferred }
    if members.contains("callers") {
      guard tool.callers.isSubset(of: declared.callers) else { return nil }
      changed.callers = tool.callers
    }
    let numbers: [WritableKeyPath<CallOptions, Int?>] = [
      \.deadlineMs, \.wallMs, \.graceMs, \.maxConcurrency,
    ]
    for path in numbers {
      guard let number = tool.options[keyPath: path] else { continue }
      if let limit = declared.options[keyPath: path], number > limit { return nil }
      changed.options[keyPath: path] = number
    }
    if members.contains("blocking") { changed.options.blocking = tool.options.blocking }
    return changed
  }
}

extension OperationSchema {
  private static let elements: [OperationMember] = [
    .takes("tools", .list(.object, 0...Registrations.limit)),
    .takes("sections", .list(.object, 0...Registrations.limit)),
    .takes("hooks", .list(.object, 0...Registrations.limit)),
  ]
  private static let names: [OperationMember] = [
    .takes("tools", .list(.text, 0...Registrations.limit)),
    .takes("sections", .list(.text, 0...Registrations.limit)),
    .takes("hooks", .list(.text, 0...Registrations.limit)),
  ]

  static let registration: [OperationSchema] = [
    OperationSchema(
      name: "register",
      classes: [.plugin, .none],
      members: elements,
      body: .now { (run, input) throws(OperationProblem) in try run.register(input) }
    ),
    OperationSchema(
      name: "unregister",
      classes: [.plugin, .none],
      members: names,
      body: .now { (run, input) throws(OperationProblem) in
        func list(_ name: String) -> [String] {
          (input[name]?.array ?? []).compactMap { $0.text }
        }
        return try run.changeRegistrations { (all, _) throws(CallRefusal) in
          all.remove(tools: list("tools"), sections: list("sections"), hooks: list("hooks"))
        }
      }
    ),
  ]
}

extension OperationRun {
  fileprivate func register(_ input: Arguments) throws(OperationProblem) -> RequestResult {
    var reader = FieldReader(input.object)
    let tools: [ManifestTool]
    let sections: [ManifestSection]
    let hooks: [ManifestHook]
    do throws(BorderProblem) {
      tools = try reader.objects("tools", ManifestTool.init)
      sections = try reader.objects("sections", ManifestSection.init)
      hooks = try reader.objects("hooks", ManifestHook.init)
    } catch {
      throw OperationProblem(error, of: "register")
    }
    for tool in tools {
      try asking { () throws in
        do { try core.environment.checkSchema(tool.parameters) } catch {
          throw CallRefusal(
            .shape,
            "the parameters of the tool \(tool.name) cannot be checked here"
          )
        }
      }
    }
    let members = (input["tools"]?.array ?? []).map { tool in
      Set((tool.object ?? [:]).keys.map { $0.string })
    }
    let registered = zip(tools, members).map { RegisteredTool(tool: $0, members: $1) }
    return try changeRegistrations { (all, manifest) throws(CallRefusal) in
      try all.add(tools: registered, sections: sections, hooks: hooks, to: manifest)
    }
  }

  /// Changes what is registered and publishes it; a refused change leaves what was published.
  fileprivate func changeRegistrations(
    _ change: (inout Registrations, Manifest) throws(CallRefusal) -> Void
  ) throws(OperationProblem) -> RequestResult {
    let manifest = core.manifest
    let result: Result<Registrations, CallRefusal> = core.registrations.withLock { all in
      var next = all
      do throws(CallRefusal) { try change(&next, manifest) } catch { return .failure(error) }
      all = next
      return .success(next)
    }
    switch result {
    case .success(let all):
      core.publish(all)
      return .object(["revision": .int(Int64(all.revision))])
    case .failure(let refusal):
      core.strike("asked to register what it may not: \(refusal.message)")
      throw Self.failure(of: refusal)
    }
  }
}

extension PluginCore {
  /// Tells whoever follows what the plugin contributes now.
  fileprivate func publish(_ registrations: Registrations) {
    let manifest = registrations.applied(to: manifest)
    publishing.withLock { $0.target }?
      .publish(manifest, of: self, revision: registrations.revision)
  }

  /// Tells whoever follows what it contributes once more, because things have changed around it.
  func republish() { publishing.withLock { $0.target }?.republish() }
}

/// What a plugin contributes now, and who wants to know of changes.
final class Publishing: Sendable {
  /// How the plugin's core, to which contributions refer, finds it.
  struct Link: Sendable {
    weak var target: Publishing?
  }

  private struct State {
    var current: Extension
    var revision = 0
    var followers: [@Sendable (Extension) -> Void] = []
  }

  private let state: Mutex<State>
  private let delivery = Mutex(())
  // Given the core each time, because one that is held weakly is slow to count.
  private let build: @Sendable (Manifest, PluginCore) -> Extension

  init(
    _ manifest: Manifest,
    of core: PluginCore,
    _ build: @escaping @Sendable (Manifest, PluginCore) -> Extension
  ) {
    self.build = build
    state = Mutex(State(current: build(manifest, core)))
  }

  var current: Extension { state.withLock { $0.current } }

  /// Contributes nothing any more, and holds nobody.
  func withdraw() {
    let before = state.withLock { state in
      defer { state = State(current: Extension(name: state.current.name), revision: .max) }
      return state
    }
    // What it held goes without the lock.
    _ = before
  }

  func follow(_ follower: @escaping @Sendable (Extension) -> Void) {
    state.withLock { $0.followers.append(follower) }
  }

  /// Publishes what a manifest leads to, unless something newer is out already.
  fileprivate func publish(_ manifest: Manifest, of core: PluginCore, revision: Int) {
    let value = build(manifest, core)
    let isNew = state.withLock { state in
      guard revision > state.revision else { return false }
      state.revision = revision
      state.current = value
      return true
    }
    if isNew { republish() }
  }

  fileprivate func republish() {
    // One after another, each with what is newest then, so that nobody ends with an older one.
    delivery.withLock { _ in
      let (value, followers) = state.withLock { ($0.current, $0.followers) }
      for follower in followers { follower(value) }
    }
  }
}
