package import PerdureModel
package import PerdureValue

/// One measurement of a plugin.
package struct PluginMetric: Sendable, Equatable {
  /// What is done with the value.
  package enum Kind: String, Sendable, CaseIterable { case add, set, observe }

  package var plugin: String
  package var name: String
  package var kind: Kind
  package var value: Double
  package var labels: JSONObject
}

/// What the host gives to the plugins it loads.
package struct PluginEnvironment: Sendable {
  /// Time, also for deadlines of activation and closing.
  package var clock: any HostClock
  /// Gets what plugins log, report and do wrong.
  package var report: @Sendable (Report) -> Void
  /// The folder of private copies.
  package var copies: String
  /// What `host.info` says.
  package var hostVersion: String
  /// Throws if a JSON Schema uses what the engine's validator lacks.
  package var checkSchema: @Sendable (JSON) throws -> Void
  /// How many closed plugins may stay mapped before no more are loaded.
  package var retiredLimit = 256
  /// The program that runs plugins in processes of their own; `nil` = the one beside this program.
  package var runner: String?
  /// Whether nothing may go on without the plugin: while it is down, its observers deny like guards.
  package var isRequired = false
  /// Gives the value that the operator bound to a plugin's secret, or `nil`.
  package var secret: @Sendable (_ plugin: String, _ name: String) -> String? = { _, _ in nil }
  /// Takes what plugins measure.
  package var metric: @Sendable (PluginMetric) -> Void = { _ in }
  /// Is told why a plugin was quarantined.
  package var quarantined: @Sendable (_ reason: String) -> Void = { _ in }
  /// How many mappings a process may have; absent: as many as the system says.
  package var mappingLimit: Int?
  /// Gives bytes from chance; tests give seeded ones.
  package var random: @Sendable (Int) -> [UInt8]

  /// Makes an environment; bytes from chance come from the system unless told otherwise.
  package init(
    clock: any HostClock,
    copies: String,
    hostVersion: String,
    report: @escaping @Sendable (Report) -> Void,
    checkSchema: @escaping @Sendable (JSON) throws -> Void,
    random: @escaping @Sendable (Int) -> [UInt8] = PluginEnvironment.systemRandom
  ) {
    self.clock = clock
    self.copies = copies
    self.hostVersion = hostVersion
    self.report = report
    self.checkSchema = checkSchema
    self.random = random
  }

  /// Gives bytes from the system's generator.
  @Sendable package static func systemRandom(_ count: Int) -> [UInt8] {
    var generator = SystemRandomNumberGenerator()
    return (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
  }
}
