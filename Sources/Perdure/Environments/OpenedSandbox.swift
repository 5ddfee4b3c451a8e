package import PerdureModel
import PerdureSandbox
package import PerdureValue

/// A sandbox for a host that says what it enforces before anything runs, and ends it.
package final class OpenedSandbox: Sendable {
  private let slot: SandboxSlot
  /// As it was built first.
  package let environment: any Environment

  /// Builds it; throws as `Environments.sandbox` does.
  package init(_ policy: SandboxPolicy) throws(PerdureError) {
    slot = try SandboxSlot(policy)
    environment = slot.first
  }

  /// What a harness is opened with.
  package var choice: EnvironmentChoice {
    .perConversation { [slot] target in
      let whole = try await slot.environment()
      return try target.cwd.map { try whole.working(in: $0) } ?? whole
    }
  }

  /// Ends all in it, and removes what it kept on the host.
  package func close() async { await slot.close() }
}

/// What sandboxes can be had on this machine.
package struct SandboxCheckup: Sendable {
  /// What came of one tier.
  package struct Tier: Sendable {
    package var name: String
    package var isAvailable: Bool
    package var enforced: [String]
    package var weakened: [String]
    package var failure: PerdureError?
  }

  /// The program that was asked.
  package let launcher: String
  /// What the kernel and the machine say, by name.
  package let facts: [(name: String, value: String)]
  package let tiers: [Tier]

  /// Tries all tiers; throws if there is no launcher that can be used.
  package init() throws(PerdureError) {
    launcher = try SandboxProgram.find()
    let probe = try SandboxProbe.run(launcher: launcher)
    facts = probe.facts.map { ($0.name, $0.value) }
    tiers = probe.trials.map { trial in
      Tier(
        name: "\(trial.tier)",
        isAvailable: trial.isAvailable,
        enforced: trial.outcome.enforced,
        weakened: trial.outcome.weakened,
        failure: trial.isAvailable ? nil : trial.outcome.failure
      )
    }
  }

  /// The same for programs.
  package var json: JSON {
    [
      "launcher": .string(launcher),
      "facts": .object(JSONObject(facts.map { (JSONString($0.name), JSON.string($0.value)) })),
      "tiers": .array(tiers.map { $0.json }),
    ]
  }
}

extension SandboxCheckup.Tier {
  fileprivate var json: JSON {
    var object: JSONObject = [
      "tier": .string(name), "available": .bool(isAvailable),
      "enforced": .array(enforced.map { .string($0) }),
      "weakened": .array(weakened.map { .string($0) }),
    ]
    if let failure {
      object["stage"] = failure.details?["stage"] ?? .null
      object["errno"] = failure.details?["errno"] ?? .null
      object["detail"] = failure.details?["detail"] ?? .null
      if let hint = failure.hint { object["remedy"] = .string(hint) }
    }
    return .object(object)
  }
}
