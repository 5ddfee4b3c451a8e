import PerdureModel
import PerdureValue

/// What a launcher said that it enforced, and what not.
struct SandboxReport: Sendable {
  private(set) var enforced: [String] = []
  private(set) var weakened: [String] = []
  /// Why a protected path is none, by its text.
  private(set) var unprotected: [String: String] = [:]
  private(set) var hasLeftovers = false
  private(set) var hasSurvivors = false

  init(_ records: [SandboxRecord]) {
    for record in records {
      switch record {
      case .enforced(let what): if !enforced.contains(what) { enforced.append(what) }
      case .weakened(let what): if !weakened.contains(what) { weakened.append(what) }
      case .unprotected(let reason, let path): unprotected[path] = reason
      case .leftover: hasLeftovers = true
      case .survivors: hasSurvivors = true
      default: break
      }
    }
  }

  /// With what was said of one command.
  func adding(_ other: SandboxReport) -> SandboxReport {
    var sum = self
    sum.enforced += other.enforced.filter { !enforced.contains($0) }
    sum.weakened += other.weakened.filter { !weakened.contains($0) }
    sum.unprotected.merge(other.unprotected) { $1 }
    sum.hasLeftovers = other.hasLeftovers
    sum.hasSurvivors = other.hasSurvivors
    return sum
  }

  /// Without what is the same for all commands of a tier.
  var ofCommand: SandboxReport {
    var part = self
    part.unprotected = unprotected.filter { $0.value != "tier" }
    return part
  }

  /// With protected paths that came to be there although nothing protects them.
  func noting(_ path: String, _ reason: String) -> SandboxReport {
    var sum = self
    sum.unprotected[path] = reason
    return sum
  }
}

extension SandboxHost {
  /// What was enforced for a command, and what its network was asked for since it began.
  func confinement(_ report: SandboxReport, since mark: Int) -> Confinement {
    var confinement = plan.confinement(report)
    let decisions = gate?.decisions(since: mark) ?? []
    guard !decisions.isEmpty else { return confinement }
    var counts: [(decision: GateDecision, count: Int64)] = []
    for decision in decisions {
      if let place = counts.firstIndex(where: { $0.decision == decision }) {
        counts[place].count += 1
      } else {
        counts.append((decision, 1))
      }
    }
    confinement.facts["requests"] = .array(
      counts.map { decision, count in
        var object = decision.json.object ?? [:]
        if count > 1 { object["count"] = .int(count) }
        return .object(object)
      }
    )
    return confinement
  }
}

extension SandboxPlan {
  /// What is enforced, for people and for programs.
  func confinement(_ report: SandboxReport) -> Confinement {
    var facts: JSONObject = [
      "preset": .string(policy.preset.rawValue), "network": .string(networkWord),
      "workspace": .string(workspace.inside.text),
      "enforced": .array(report.enforced.map { .string($0) }), "limits": limitFacts,
    ]
    if let networkRules {
      facts["allowed"] = .array(networkRules.rules.map { .string("\($0)") })
    }
    if !report.weakened.isEmpty {
      facts["weakened"] = .array(report.weakened.map { .string($0) })
    }
    // What is missing and nobody made is no news.
    let open = report.unprotected.filter { $0.value != "missing" }.sorted { $0.key < $1.key }
    if !open.isEmpty {
      facts["unprotected"] = .array(
        open.map { ["path": .string($0.key), "reason": .string($0.value)] }
      )
    }
    let further = chosen.dropFirst().filter { $0.isWritable }
    if !further.isEmpty {
      facts["writable"] = .array(further.map { .string($0.inside.text) })
    }
    if !hidden.isEmpty { facts["hidden"] = .array(hidden.map { .string($0.text) }) }
    if report.hasLeftovers { facts["leftover"] = true }
    if report.hasSurvivors { facts["survivors"] = true }
    return Confinement(
      tier: policy.tier.rawValue,
      files: filesClause,
      commands: commandsClause,
      facts: facts
    )
  }

  private var networkWord: String {
    switch policy.network {
    case .off: "off"
    case .loopback: "loopback"
    case .allow: "allow"
    case .host: "host"
    }
  }

  private var filesClause: String {
    let what =
      switch policy.preset {
      case .readOnly: "read the workspace \(workspace.inside.text) and write only scratch"
      case .workspaceWrite:
        "read and write the workspace \(workspace.inside.text) but for protected paths"
      case .full: "read and write the workspace \(workspace.inside.text)"
      }
    return "tools \(what), and nothing else of the machine but its programs"
  }

  private var commandsClause: String {
    let network =
      switch policy.network {
      case .off: "without a network"
      case .allow: "with no network but \(allowedHosts)"
      case .loopback: "with a loopback of their own"
      case .host: "with the machine's whole network"
      }
    let how = isNamespaces ? "in namespaces of their own" : "behind Landlock"
    return "commands are confined to the same files \(how), \(network)"
  }

  private var allowedHosts: String {
    let rules = (networkRules?.rules ?? []).map { "\($0)" }
    let shown = rules.prefix(8).joined(separator: ", ")
    return rules.count > 8 ? "\(shown) and \(rules.count - 8) more" : shown
  }

  private var limitFacts: JSON {
    let limits = policy.limits
    func number(_ value: UInt64) -> JSON { .int(Int64(clamping: value)) }
    return [
      "memory": number(limits.memory), "processMemory": number(limits.processMemory),
      "processes": number(limits.processes), "processorSeconds": number(limits.processorSeconds),
      "seconds": .double(limits.seconds), "fileSize": number(limits.fileSize),
      "diskFloor": number(limits.diskFloor), "descriptors": number(limits.descriptors),
      "output": .int(limits.output),
    ]
  }
}
