import Glibc
import PerdureModel
import PerdureValue
import Synchronization

/// A sandbox that the host has: what is shown in it, and in the tier `namespaces` the holder that keeps its
/// tree.
final class SandboxHost: Sendable {
  let plan: SandboxPlan
  let launcher: String
  /// Absent in the tier `landlock`, where each command has a launch of its own.
  private let holder: SandboxLaunch?
  /// The folder below which tools find files.
  let root: Descriptor
  /// What the launcher said about the whole sandbox.
  let report: SandboxReport
  /// The way to hosts that the policy names; absent where it names none.
  let gate: NetworkGate?

  var outputs: KeptOutputs { plan.outputs }

  /// Builds one; blocks.
  ///
  /// After an earlier one, it must show the same and have the same launcher.
  init(
    _ policy: SandboxPolicy,
    _ resolve: @escaping NetworkResolver = { NetworkAddress.resolve($0) },
    after earlier: SandboxHost? = nil
  ) throws(PerdureError) {
    let plan = try SandboxPlan(policy)
    try earlier?.plan.requireSame(plan)
    self.plan = plan
    let found: String
    if let earlier {
      found = earlier.launcher
    } else {
      found = try SandboxProgram.find(policy.launcher)
    }
    launcher = try plan.outside(found)
    if plan.isNamespaces {
      let held = try SandboxLaunch(
        program: launcher,
        policy: SandboxMessage(plan.fields + [.holder, .rootDescriptor])
      )
      let records = try Self.awaitReady(held, launcher)
      let sent = Self.descriptors(held)
      guard let root = sent.root, plan.networkRules == nil || sent.listener != nil else {
        held.abandon()
        throw SandboxProgram.stranger(launcher)
      }
      holder = held
      self.root = root
      gate = try Self.gate(plan, sent.listener, launcher, resolve)
      report = SandboxReport(records)
    } else {
      holder = nil
      gate = nil
      report = SandboxReport(try Self.tryOut(plan, launcher))
      do {
        root = try Descriptor.root(at: "/")
      } catch {
        throw PerdureError(.sandboxUnavailable, "the root of the machine cannot be opened")
      }
    }
  }

  /// Milliseconds after which a program is taken for none that it should be; a launcher gives itself 5,000.
  private static let patience: Int64 = 15_000

  /// Waits until the holder holds, or tells why it does not.
  private static func awaitReady(
    _ held: SandboxLaunch,
    _ launcher: String
  ) throws(PerdureError) -> [SandboxRecord] {
    var lines = RecordLines()
    var buffer = [UInt8](repeating: 0, count: 4_096)
    let deadline = monotonicNanoseconds() + patience * 1_000_000
    while !lines.records.contains(.ready) {
      let left = (deadline - monotonicNanoseconds()) / 1_000_000
      guard left > 0 else {
        held.abandon()
        _ = held.finish()
        throw SandboxProgram.failure(of: lines.records, nil, launcher)
      }
      _ = held.wait(for: [.records], milliseconds: Int32(clamping: left))
      guard let bytes = held.read(.records, into: &buffer) else { continue }
      if bytes.isEmpty {
        throw SandboxProgram.failure(of: lines.records, Self.status(of: held), launcher)
      }
      lines.take(bytes)
    }
    return lines.records
  }

  /// What a holder that is ready has sent.
  private static func descriptors(
    _ held: SandboxLaunch
  ) -> (root: Descriptor?, listener: Descriptor?) {
    var root: Descriptor?
    var listener: Descriptor?
    while let sent = held.receive() {
      let descriptor = Descriptor(sent.descriptor)
      switch sent.message.first {
      case UInt8(ascii: "r"): root = descriptor
      case UInt8(ascii: "l"): listener = descriptor
      default: break
      }
    }
    return (root, listener)
  }

  private static func gate(
    _ plan: SandboxPlan,
    _ listener: Descriptor?,
    _ launcher: String,
    _ resolve: @escaping NetworkResolver
  ) throws(PerdureError) -> NetworkGate? {
    guard let rules = plan.networkRules else { return nil }
    guard let listener else { throw SandboxProgram.stranger(launcher) }
    do {
      return try NetworkGate(listener, rules, resolve)
    } catch {
      throw PerdureError(
        .sandboxUnavailable,
        "the gate of the sandbox's network cannot be made: \(error.text)",
        hint: "let the host have more threads and descriptors, or turn the network off"
      )
    }
  }

  /// Lets a launcher that has said all end by itself for a moment, and makes it; `nil` if it had to be.
  private static func status(of held: SandboxLaunch) -> Int32? {
    held.end()
    let deadline = monotonicNanoseconds() + patience * 1_000_000
    let hasEnded = held.handle.map { Readiness.has($0, by: deadline) } ?? true
    if !hasEnded { held.abandon() }
    let status = held.finish()
    return hasEnded ? status : nil
  }

  /// Runs one command that does nothing, so that what cannot be had is told of at once.
  private static func tryOut(
    _ plan: SandboxPlan,
    _ launcher: String
  ) throws(PerdureError) -> [SandboxRecord] {
    let fields = plan.fields + [.folder("/"), .argument("/bin/true")]
    let begin = monotonicNanoseconds()
    let outcome = SandboxOutcome(
      of: try SandboxLaunch(program: launcher, policy: SandboxMessage(fields)),
      milliseconds: patience
    )
    guard outcome.records.contains(.exited(0)) else {
      let isLate = monotonicNanoseconds() - begin >= patience * 1_000_000
      throw SandboxProgram.failure(of: outcome.records, isLate ? nil : outcome.status, launcher)
    }
    return outcome.records
  }

  /// Whether it still holds.
  var isAlive: Bool {
    guard let handle = holder?.handle else { return true }
    return Readiness.wait(handle, until: 0).isEmpty
  }

  /// Ends all that runs in it.
  func end() {
    gate?.close()
    holder?.end()
  }

  /// Removes what it kept on the host, once nothing runs in it; blocks.
  func removeKept() {
    let deadline = monotonicNanoseconds() + Self.patience * 1_000_000
    if let handle = holder?.handle { _ = Readiness.has(handle, by: deadline) }
    outputs.scratch.remove()
  }

  /// Starts a command; in the background with an input, or a terminal.
  func start(
    _ launch: ProcessLaunch,
    _ seconds: Double?,
    hasInput: Bool = false,
    _ terminal: TerminalSize? = nil
  ) throws(ExecutionError) -> SandboxedCommand {
    var fields = plan.fields(of: launch, seconds)
    if let terminal { fields.append(.terminal(rows: terminal.rows, columns: terminal.columns)) }
    do {
      let started =
        if let holder {
          try SandboxLaunch(holder: holder, order: SandboxMessage(fields), hasInput: hasInput)
        } else {
          try SandboxLaunch(
            program: launcher,
            policy: SandboxMessage(plan.fields + fields),
            hasInput: hasInput
          )
        }
      return SandboxedCommand(started, launch, self)
    } catch {
      let isLong = error.code == .sandboxPolicy
      throw ExecutionError(
        isLong ? .spawnError : .shellUnavailable,
        error.message,
        hint: error.hint
      )
    }
  }

  /// What threads do to themselves before they serve files, so that tools may do what commands may.
  var preparation: WorkThreads.Preparation? {
    let user: FileUser? =
      switch plan.identity {
      // Root of the machine, without what lets root open all files.
      case .own: FileUser.isRoot && !plan.isNamespaces ? FileUser(user: 0, group: getegid()) : nil
      case .owner(let user): user
      case .foreign:
        FileUser(user: plan.policy.foreignUsers.first, group: plan.policy.foreignUsers.first)
      }
    if plan.isNamespaces {
      guard let user else { return nil }
      return { () throws(SystemFailure) in try Confining.become(user) }
    }
    let files = plan.places.map { ($0.file, $0.isWritable) } + Self.systemFiles
    return { () throws(SystemFailure) in
      if let user { try Confining.become(user) }
      try Confining.restrict(to: files)
    }
  }

  /// What commands may read of the machine, and tools may, too.
  private static var systemFiles: [(Descriptor, Bool)] {
    ["/usr", "/bin", "/lib", "/lib64", "/sbin"].compactMap { path in
      (try? Descriptor.anything(at: path)).map { ($0, false) }
    }
  }
}

extension SandboxPlan {
  /// The policy as the launcher reads it, without a command.
  var fields: [SandboxField] {
    var fields: [SandboxField] = [.tier(isNamespaces ? .namespaces : .landlock), .system]
    switch identity {
    case .own: break
    case .foreign:
      let users = policy.foreignUsers
      fields.append(.users(first: users.first, count: users.count))
    case .owner(let owner): fields.append(.runAs(user: owner.user, group: owner.group))
    }
    fields += places.map { place in
      .mount(
        SandboxMount(
          inside: place.inside.text,
          outside: place.outside,
          isWritable: place.isWritable,
          isExecutable: true,
          device: place.identity.device,
          inode: place.identity.inode
        )
      )
    }
    fields += protected.map { .protect($0.text) } + hidden.map { .hide($0.text) }
    let network: SandboxNetwork =
      switch policy.network {
      case .off: .off
      case .loopback: .loopback
      case .allow: .allow
      case .host: .host
      }
    fields.append(.network(network))
    if network == .allow { fields.append(.listenTCP(port: NetworkGate.port)) }
    let required = policy.guarantees.sorted { $0.rawValue < $1.rawValue }
    fields += required.map { .require($0) }
    // The name of the user inside has its home from here.
    if isNamespaces {
      fields.append(.limit(.scratch, policy.limits.scratch))
      fields.append(.variable(name: "HOME", value: home.text))
    }
    return fields
  }

  /// One command, as a launch or an order adds it.
  func fields(of launch: ProcessLaunch, _ seconds: Double?) -> [SandboxField] {
    let limits = policy.limits
    let grace = UInt64(min(limits.grace, 600) * 1_000)
    // The host's own clock comes first; this one is behind it.
    let time = seconds.map { min(UInt64($0 * 1_000) + 10_000, 2_147_483_647) } ?? 0
    return Self.fields(of: launch) + [
      .folder(launch.path.text), .limit(.data, limits.processMemory),
      .limit(.memory, limits.memory), .limit(.processes, limits.processes),
      .limit(.processorSeconds, limits.processorSeconds), .limit(.milliseconds, time),
      .limit(.fileSize, limits.fileSize), .limit(.diskFloor, limits.diskFloor),
      .limit(.descriptors, limits.descriptors), .limit(.grace, grace),
    ]
  }

  /// The words and variables of a command.
  static func fields(of launch: ProcessLaunch) -> [SandboxField] {
    launch.arguments.map { .argument($0) }
      + launch.variables.map { variable in
        let parts = variable.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        return .variable(
          name: String(parts.first ?? ""),
          value: parts.count > 1 ? String(parts[1]) : ""
        )
      }
  }
}
