import Perdure
import PerdureModel
import PerdureValue

/// What the verbs that change a store without running it have in common.
enum StoreChange {
  static let options = RunOptions.forOwnStores.compactMap { option -> Option? in
    var option = option
    switch option.name {
    case "store": return option
    case "json":
      option.help = "write one JSON object"
      return option
    default: return nil
    }
  }

  /// Lets a change be made: by the process that works on the store, or else here.
  static func perform(
    _ request: StoreRequest,
    _ arguments: ParsedArguments
  ) async throws -> JSONObject {
    let address = try StoreAddress(arguments)
    if let client = try ControlClient.connect(address) {
      do { return try await client.ask(request.operation, request.parameters) } catch {
        throw Remedy.named(error, address)
      }
    }
    let store = try await address.openExisting(isNamed: arguments.has("store"))
    do {
      if let id = request.conversation, try await store.reader.reads.conversation(id) == nil {
        throw try await address.missing(id, store.reader)
      }
      let result = try await request.perform(on: store)
      await store.close()
      return result
    } catch {
      await store.close()
      throw Remedy.named(error, address)
    }
  }

  /// Returns the conversation that is named behind the verb.
  static func conversation(_ arguments: ParsedArguments) throws -> ConversationID {
    let text = arguments.positionals.first ?? ""
    guard let value = Int64(text), let id = ConversationID(value) else {
      throw UsageError.make("'\(text)' is no conversation", "give its number")
    }
    return id
  }

  /// Says what was done, in the form that was asked for.
  static func say(_ sentence: String, _ object: JSON, _ reporter: Reporter) {
    if reporter.isJSON {
      reporter.printStyled(String(decoding: EventLine.bytes(object), as: UTF8.self))
    } else {
      reporter.print(sentence)
    }
  }
}
