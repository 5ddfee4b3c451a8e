/// Puts something around a tool or a section that some extension brings.
///
/// It is applied whenever a conversation's choices are resolved, so it must be quick and give the
/// same each time. The first wrap is the innermost. One that throws, or that changes the name of
/// what it wraps, takes its target away until the next resolution; a wrap without a target does
/// nothing.
public enum Wrap: Sendable {
  /// Returns the tool of this name with something around it.
  case tool(String, @Sendable (Tool) throws -> Tool)
  /// Returns the section of this key with something around it.
  case section(String, @Sendable (PromptSection) throws -> PromptSection)
}
