import PerdureEngine
public import PerdureModel
import PerdureValue

extension Conversation {
  /// Which of the things there are a conversation has, by name.
  ///
  /// Names need not be installed; those that are not are passed over until they are.
  public enum Selection: Sendable, Equatable, ExpressibleByArrayLiteral {
    /// Exactly these, in this order.
    case only([String])
    /// What it would have anyway, with these added at the end and these taken away.
    case edited(adding: [String] = [], removing: [String] = [])

    public init(arrayLiteral elements: String...) { self = .only(elements) }

    fileprivate var json: JSON {
      func list(_ names: [String]) -> JSON { .array(names.map { .string($0) }) }
      switch self {
      case .only(let names): return list(names)
      case .edited(let added, let removed):
        var object = JSONObject()
        if !added.isEmpty { object["add"] = list(added) }
        if !removed.isEmpty || added.isEmpty { object["remove"] = list(removed) }
        return .object(object)
      }
    }
  }

  /// A change of a conversation's choices; what is absent stays as it is.
  public struct AgentChange: Sendable {
    /// One choice, as the store names it.
    public enum Field: String, Sendable, CaseIterable {
      case model, thinkingLevel, extensions, tools, modelTools, instructions, cwd
    }

    public var model: ModelReference?
    /// `off`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`.
    public var thinkingLevel: String?
    /// The extensions; the default is all that are installed.
    public var extensions: Selection?
    /// The tools that work in this conversation; the default is all of its extensions.
    ///
    /// An edit of them can only take away.
    public var tools: Selection?
    /// Which of its tools the model is offered.
    public var modelTools: Selection?
    /// The last section of the prompt.
    public var instructions: String?
    /// The folder in which tools work.
    public var cwd: String?
    /// The choices that are taken back, so that the defaults hold again.
    public var reset: Set<Field>

    /// Makes a change.
    public init(
      model: ModelReference? = nil,
      thinkingLevel: String? = nil,
      extensions: Selection? = nil,
      tools: Selection? = nil,
      modelTools: Selection? = nil,
      instructions: String? = nil,
      cwd: String? = nil,
      reset: Set<Field> = []
    ) {
      self.model = model
      self.thinkingLevel = thinkingLevel
      self.extensions = extensions
      self.tools = tools
      self.modelTools = modelTools
      self.instructions = instructions
      self.cwd = cwd
      self.reset = reset
    }

    /// The change as the engine takes it: `null` takes a choice back.
    func object() throws -> JSONObject {
      if case .edited(let added, _) = tools, !added.isEmpty {
        throw PerdureError(
          .invalidConfiguration,
          "the tools of a conversation cannot be edited by adding '\(added[0])'",
          hint: "list the tools it is to have, or add an extension"
        )
      }
      var object = JSONObject()
      object["model"] = model?.json
      object["thinkingLevel"] = thinkingLevel.map { .string($0) }
      object["extensions"] = extensions?.json
      object["tools"] = tools?.json
      object["modelTools"] = modelTools?.json
      object["instructions"] = instructions.map { .string($0) }
      object["cwd"] = cwd.map { .string($0) }
      for field in reset.sorted(by: { $0.rawValue < $1.rawValue }) {
        guard object[JSONString(field.rawValue)] == nil else {
          throw PerdureError(
            .invalidConfiguration,
            "a change both sets and resets '\(field.rawValue)'",
            hint: "leave one of the two out"
          )
        }
        object[JSONString(field.rawValue)] = .null
      }
      return object
    }
  }

  /// Changes the choices from the next request on.
  ///
  /// Until then a conversation has no model, and all extensions with all their tools.
  public func configure(_ change: AgentChange) async throws {
    try await engine.configure(id, try change.object())
  }
}

/// A change of a conversation's choices, under the short name that callers use.
public typealias AgentChange = Conversation.AgentChange

extension Transaction {
  /// Changes the choices of a conversation as `Conversation.configure` does.
  public func configure(
    _ id: ConversationID,
    _ change: Conversation.AgentChange
  ) async throws { try await base.configure(id, try change.object()) }
}
