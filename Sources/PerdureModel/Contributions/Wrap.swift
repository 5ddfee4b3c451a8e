/// Puts something around a tool or a section that some extension brings.
///
/// It is applied whenever a conversation's choices are resolved, so it must be quick and give the
/// same each time. The first wrap is the innermost. One that throws, or that changes the name of
/// what it wraps, takes its target away until the next resolution; a wrap without a target does
/// nothing.
public struct Wrap: Sendable {
  /// What it is put around, and how.
  package enum Target: Sendable {
    case tool(String, @Sendable (Tool) throws -> Tool)
    case section(String, @Sendable (PromptSection) throws -> PromptSection)
  }

  package let target: Target
  /// Where it stands among the wraps of the same target: before others is further inside.
  public var order = ContributionOrder()

  /// Returns the tool of this name with something around it.
  public static func tool(
    _ name: String,
    _ body: @escaping @Sendable (Tool) throws -> Tool
  ) -> Wrap {
    Wrap(target: .tool(name, body))
  }

  /// Returns the section of this key with something around it.
  public static func section(
    _ key: String,
    _ body: @escaping @Sendable (PromptSection) throws -> PromptSection
  ) -> Wrap {
    Wrap(target: .section(key, body))
  }
}
