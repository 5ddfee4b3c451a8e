public import PerdureValue

/// A plugin in Swift: what the elements of its manifest do.
///
///     @main struct Greeter: Plugin {
///       var contributions: [Contribution] {
///         [.tool("greet") { call in .text("Hello, \(call.arguments["name"]?.text ?? "you")!") }]
///       }
///     }
///
/// The manifest and the contributions are compared when the plugin is loaded: an element without
/// code, and code without an element, refuse it. There is one value for each life of the plugin, so
/// an actor that the value holds is shared by all calls.
public protocol Plugin: Sendable {
  /// Makes the plugin. Starts nothing: no tasks, no threads, no files.
  init()
  /// What the plugin does; asked for once.
  var contributions: [Contribution] { get }
  /// Makes the plugin ready before its first call; may take ten seconds, and throws to refuse.
  func activate(_ host: PluginHost) async throws
  /// Stops what the plugin started itself. Every call has been answered by then.
  func deactivate() async
}

extension Plugin {
  /// Does nothing.
  public func activate(_ host: PluginHost) async throws {}
  /// Does nothing.
  public func deactivate() async {}

  /// Names the type to the kit; what the attribute `@main` wants.
  public static func main() { RegisteredPlugin.set(Self.self) }
}

/// The host outside any call.
public struct PluginHost: Sendable {
  let core: PluginCore

  /// The settings that the host told last.
  public var settings: JSON { core.settings }

  /// Writes a line to the host's log; never waits or fails.
  public func log(_ level: LogLevel, _ message: String) {
    core.tables.tell(0, "log", LogLevel.line(level, message))
  }

  /// Asks for an operation that is legal outside calls, and returns its result.
  @discardableResult
  public func invoke(_ operation: String, _ input: JSON = [:]) async throws -> JSON {
    try await core.request(0, operation, Payload(input)).json()
  }
}

/// How important a line of the log is.
public enum LogLevel: String, Sendable {
  case debug, info, warn, error

  static func line(_ level: LogLevel, _ message: String) -> Payload {
    Payload(["level": .string(level.rawValue), "message": .string(message)])
  }
}
