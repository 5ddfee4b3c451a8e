import PerdureModel
import PerdureValue

/// Checks the arguments of a call against its tool, with the small mistakes of models repaired.
enum CallArguments {
  /// What a check comes to.
  enum Check {
    case valid(JSON)
    /// Why they cannot be used; for the model.
    case invalid(String)
  }

  /// Lets the tool repair the arguments as the model gave them, then checks them.
  static func prepared(of call: RequestedCall, for tool: InstalledTool) async -> Check {
    if let error = call.argumentsError {
      return .invalid("the arguments are invalid: \(error.string)")
    }
    let arguments = call.arguments
    do {
      var prepared = arguments
      if let prepare = tool.tool.prepareArguments { prepared = try prepare(prepared) }
      if let prepare = tool.tool.prepareLater { prepared = try await prepare(prepared) }
      return checked(prepared, for: tool)
    } catch {
      return .invalid(
        "the arguments are invalid: \(Failure.describe(error)); received \(arguments.compactText)"
      )
    }
  }

  /// Checks arguments that the tool has had a look at already.
  static func checked(_ arguments: JSON, for tool: InstalledTool) -> Check {
    let coerced = tool.schema.coerce(arguments)
    var problems = tool.schema.validate(coerced).map { "\($0)" }
    // Tools count on an object, whatever their schema allows.
    if problems.isEmpty, coerced.object == nil { problems = ["root: expected an object"] }
    if problems.isEmpty, !StorageWrite.takes(coerced) {
      problems = ["root: \(HandedOver.unreadable)"]
    }
    if problems.isEmpty { return .valid(coerced) }
    let list = problems.joined(separator: "; ")
    return .invalid("the arguments are invalid: \(list); received \(arguments.compactText)")
  }
}
