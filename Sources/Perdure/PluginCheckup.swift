package import PerdureModel
import PerdurePluginHost
package import PerdureValue

/// Checks a plugin for its author, each question in a process of its own.
package struct PluginCheckup: Sendable {
  private let options: PluginCheckOptions

  /// The names of the groups of tests, in order.
  package static var groups: [String] { PluginChecks.groups }

  /// The names of the tests that run code of the plugin, in order.
  package static var tests: [String] { PluginChecks.tests }

  /// Prepares to check a file; `verb` are the words with which this program runs one test.
  package init(
    path: String,
    seed: UInt64,
    group: String?,
    isInProcess: Bool,
    verb: [String]
  ) throws(PerdureError) {
    options = PluginCheckOptions(
      path: path,
      copies: try Plugin.copies(),
      seed: seed,
      group: group,
      isInProcess: isInProcess,
      verb: verb
    )
  }

  /// Asks everything and tells each finding as it comes; returns the plugin's id and version, or
  /// `nil` if the file is refused.
  package func run(tell: (JSON) -> Void) throws(PerdureError) -> (id: String, version: String)? {
    try PluginChecks.run(options, tell: tell)
  }

  /// Runs the one test for which this process was started.
  package static func runOne(_ test: String, path: String, copies: String, seed: UInt64) {
    PluginChecks.runOne(test, path: path, copies: copies, seed: seed)
  }
}
