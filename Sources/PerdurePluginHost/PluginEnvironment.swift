package import PerdureModel
package import PerdureValue

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
  /// Whether nothing may go on without the plugin: while it is down, its observers deny like guards.
  package var isRequired = false
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
