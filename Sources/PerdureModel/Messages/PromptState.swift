public import PerdureValue

/// What the system messages of a transcript say together: prompt sections and offered tools.
///
/// System messages are the only durable record of what a model saw. Replayed in order, a section
/// text is added at the end or replaced in place, `null` removes it; removed tools go first, then
/// each added tool replaces its namesake in place or is added at the end.
public struct PromptState: Sendable, Equatable {
  /// The sections in order, each a string.
  public var sections = JSONObject()
  /// The declarations in order: `name`, `description`, `parameters`.
  public var tools: [JSON] = []

  /// Makes the state before any system message.
  public init() {}

  /// Makes the state after all system messages among `messages`.
  public init(replaying messages: some Sequence<JSON>) {
    for message in messages where message["role"]?.text == "system" { apply(message) }
  }

  /// Applies one system message.
  public mutating func apply(_ message: JSON) {
    for (key, value) in message["sections"]?.object ?? [:] {
      sections[key] = value.isNull ? nil : value
    }
    let removed = (message["toolsRemoved"]?.array ?? []).compactMap { $0["name"]?.string }
    tools.removeAll { tool in tool["name"]?.string.map(removed.contains) ?? false }
    for tool in message["toolsAdded"]?.array ?? [] {
      if let position = tools.firstIndex(where: { $0["name"] == tool["name"] }) {
        tools[position] = tool
      } else {
        tools.append(tool)
      }
    }
  }

  /// The names of the offered tools.
  public var toolNames: [JSONString] { tools.compactMap { $0["name"]?.string } }
}
