public import PerdureValue

/// Which calls of a tool wait for somebody to say yes.
public enum ToolApproval: Sendable {
  /// None of them.
  case never
  /// Each of them.
  case required
  /// Those whose checked arguments the closure answers with `true`; one that throws asks, too.
  ///
  /// It must be quick and always say the same.
  case when(@Sendable (JSON) throws -> Bool)

  /// Whether a call with these arguments waits for an approval.
  public func isNeeded(for arguments: JSON) -> Bool {
    switch self {
    case .never: return false
    case .required: return true
    case .when(let asks):
      do { return try asks(arguments) } catch { return true }
    }
  }
}

/// Says whether two values of a tool are the same code; copies of a tool share it.
package final class ToolIdentity: Sendable {
  package init() {}
}
